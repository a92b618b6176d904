#include "engine/plan/bound/bound_program.h"

#include <algorithm>
#include <array>
#include <limits>
#include <optional>
#include <set>

#include "base/nth.h"
#include "engine/model/model.h"

namespace strata {
namespace {

double seconds_at(double bytes, double rate) {
  return bytes == 0 ? 0 : bytes / rate;
}

/// Units that nothing tells apart.
struct Kind {
  const UnitFacts* facts = nullptr;
  std::vector<std::size_t> units;
  bool has_last = false;  ///< the last unit is one of them

  auto count() const { return static_cast<double>(units.size()); }
  /// How many of them are behind unit `last`.
  auto behind(std::size_t last) const {
    return static_cast<double>(std::ranges::count_if(units, [&](std::size_t u) { return u > last; }));
  }
};

std::vector<Kind> kinds_of(const StepFacts& facts) {
  std::vector<Kind> kinds;
  for (std::size_t u = 0; u < facts.units.size(); ++u) {
    const auto same =
        std::ranges::find_if(kinds, [&](const Kind& kind) { return *kind.facts == facts.units[u]; });
    if (same == kinds.end()) {
      kinds.push_back({&facts.units[u], {u}});
    } else {
      same->units.push_back(u);
    }
  }
  for (Kind& kind : kinds) kind.has_last = kind.units.back() + 1 == facts.units.size();
  return kinds;
}

/// Lengths of crossings that one column stands for.
struct Lengths {
  double low = 1, high = 1;
};

std::vector<Lengths> lengths_up_to(std::int64_t microbatches) {
  std::vector<Lengths> lengths;
  for (std::int64_t low = 1; low < microbatches;) {
    const std::int64_t high = std::min(low + low / 4, microbatches - 1);
    lengths.push_back({static_cast<double>(low), static_cast<double>(high)});
    low = high + 1;
  }
  lengths.push_back({static_cast<double>(microbatches), static_cast<double>(microbatches)});
  return lengths;
}

/// When a crossing is: before the unit's first backward pass of a step, or behind it. If all forward passes
/// come first in one go, their saved activations are there at all turns before the first backward pass. If
/// some come between turns, activations are there at fewer turns, but the unit's parameters are wanted
/// between turns.
enum class Phase : std::uint8_t { first, first_in_parts, later };

/// When the host's bytes are counted: as the norm of all gradients is known, at the first turn, and on
/// average at a turn.
enum class CountPoint : std::uint8_t { norm, first_turn, turn };
constexpr std::size_t kCountPoints = 3;

/// What drives take of the host.
enum class Spilled : std::uint8_t { state, parameter, gradient, kept };
constexpr std::size_t kSpilled = 4;

/// Where a unit's state is, and whether its parameters stay on the device over a crossing.
enum class Way : std::uint8_t { state_on_device, stays, comes_again };

/// A way that a unit may go.
struct Choice {
  const Kind* kind = nullptr;
  UnitFacts::Level level = {};
  Lengths length = {};
  Way way = Way::stays;
  Phase phase = Phase::first;
  bool moves_kept = false;  ///< what it keeps for backward passes leaves the device and comes back
  bool moves_sum = false;   ///< the sum of its gradients leaves, too, behind the first backward pass

  /// Turns at which what a forward pass keeps is there, on average.
  double turns_kept() const { return phase == Phase::first_in_parts ? (length.low + 1) / 2 : length.low; }
  bool is_on_host() const { return way != Way::state_on_device; }
};

class Builder {
 public:
  Builder(const StepFacts& facts, const TierBudgets& budgets, const MachineRates& rates,
          std::span<const BoundArgument> arguments)
      : facts_(facts),
        rates_(rates),
        wanted_(arguments.begin(), arguments.end()),
        kinds_(kinds_of(facts)),
        microbatches_(static_cast<double>(facts.microbatches)),
        device_(budgets[Tier::device]),
        host_(budgets[Tier::host]),
        has_drives_(has_drives(budgets)),
        in_memory_(rates.share_of_memory_by_copy(rates.h2d_bytes_per_second) / rates.h2d_bytes_per_second),
        out_memory_(rates.share_of_memory_by_copy(rates.d2h_bytes_per_second) / rates.d2h_bytes_per_second) {}

  BoundProgram build() {
    made_.scale = reference_seconds();
    LinearProgram::Column seconds{.cost = 1, .most = 1e6};
    made_.program.columns.push_back(seconds);
    for (const Kind& kind : kinds_) add_row(kind.count());
    for (const Kind& kind : kinds_) firsts_.push_back(holds_sums(*kind.facts) ? add_row(-kind.count()) : 0);
    add_memory_rows();
    add_time_rows();
    for (std::size_t row = 0; row < made_.arguments.size(); ++row)
      if (made_.arguments[row]) made_.program.columns.front().entries.emplace_back(row, 1);
    for (const Kind& kind : kinds_) add_choices(kind);
    add_stays();
    add_spills();
    return std::move(made_);
  }

 private:
  /// What updates on the host of the units up to `end` take one after another.
  struct Stretch {
    std::size_t end = 0;
    double gradient = 0, parameter = 0;  ///< seconds per byte
    double squares = 0, update = 0;

    bool reaches(const Kind& kind) const { return kind.units.front() <= end; }
    double seconds_of(const UnitFacts& unit) const {
      return gradient * static_cast<double>(unit.gradient) + squares * unit.squares + update * unit.update +
             parameter * static_cast<double>(unit.parameter);
    }
  };
  /// How long a step takes at least: what each unit's choice adds.
  struct TimeRow {
    double passes = 0;                       ///< times their seconds
    double state = 0;                        ///< times the seconds of what the lane compute does besides
    double cpu = 0;                          ///< and the lane cpu
    double h2d = 0, d2h = 0;                 ///< seconds per byte
    double read = 0, write = 0;              ///< seconds per byte
    double read_ahead = 0, write_ahead = 0;  ///< and between the norm and the first turn
    std::vector<Stretch> stretches = {};
    /// These count units with one crossing of all turns. The first two count the seconds of all microbatches'
    /// passes. The last two are seconds per byte of saved activations that leave the device, or come back
    /// behind the last turn.
    double whole_forward = 0, whole_backward = 0, whole_out = 0, whole_in = 0;
    std::size_t row = 0;
  };

  double reference_seconds() const {
    double seconds = 0;
    for (const UnitFacts& unit : facts_.units) {
      const UnitFacts::Level& level = unit.levels.back();
      seconds += microbatches_ * (level.forward + level.backward) + unit.update + unit.beside_device +
                 seconds_at(static_cast<double>(unit.parameter), rates_.h2d_bytes_per_second);
    }
    return seconds > 0 ? seconds : 1;
  }

  std::size_t add_row(double least, std::optional<BoundArgument> argument = {}) {
    made_.program.least.push_back(least);
    made_.arguments.push_back(argument);
    return made_.program.least.size() - 1;
  }

  void add_memory_rows() {
    if (device_ != kUnlimited) {
      const auto at_turn = static_cast<double>(std::min<Bytes>(0, facts_.turn - device_));
      device_row_ = add_row(at_turn);
      device_at_last_turn_ = add_row(at_turn);
      if (facts_.global_norm) device_at_norm_ = add_row(-static_cast<double>(device_));
    }
    if (host_ == kUnlimited) return;
    for (std::optional<std::size_t>& row : host_at_) row = add_row(-static_cast<double>(host_));
    if (!has_drives_) return;
    for (auto& rows : spilled_)
      for (std::optional<std::size_t>& row : rows) row = add_row(0);
  }

  bool is_wanted(BoundArgument argument) const { return wanted_.contains(argument); }

  void add_time(BoundArgument argument, double seconds, TimeRow time) {
    if (!is_wanted(argument)) return;
    for (const Stretch& stretch : time.stretches) {
      for (const Kind& kind : kinds_) {
        if (stretch.reaches(kind)) seconds -= kind.behind(stretch.end) * stretch.seconds_of(*kind.facts);
      }
    }
    time.row = add_row(seconds / made_.scale, argument);
    times_.push_back(std::move(time));
  }

  void add_time_rows() {
    const double to_device = 1 / rates_.h2d_bytes_per_second, to_host = 1 / rates_.d2h_bytes_per_second;
    add_time(BoundArgument::compute, 0, {.passes = 1, .state = 1});
    const double data = microbatches_ * static_cast<double>(facts_.data),
                 losses = microbatches_ * static_cast<double>(facts_.losses);
    add_time(BoundArgument::h2d, data * to_device, {.h2d = to_device});
    add_time(BoundArgument::d2h, losses * to_host, {.d2h = to_host});
    add_time(BoundArgument::cpu, facts_.cpu_seconds, {.cpu = 1});
    if (rates_.cores_copy) {
      const double h2d = to_device * rates_.share_of_cores(rates_.h2d_bytes_per_second),
                   d2h = to_host * rates_.share_of_cores(rates_.d2h_bytes_per_second);
      add_time(BoundArgument::cores, facts_.cpu_seconds + h2d * data + d2h * losses,
               {.passes = 1, .state = 1, .cpu = 1, .h2d = h2d, .d2h = d2h});
    }
    add_time(BoundArgument::memory, facts_.cpu_seconds + in_memory_ * data + out_memory_ * losses,
             {.cpu = 1, .h2d = in_memory_, .d2h = out_memory_});
    if (uses_drives()) {
      add_time(
          BoundArgument::drives, 0,
          {.read = 1 / rates_.nvme_read_bytes_per_second, .write = 1 / rates_.nvme_write_bytes_per_second});
    }
    if (!std::ranges::all_of(facts_.units, &UnitFacts::trains)) return;
    add_order_rows(to_device, to_host);
    add_time(BoundArgument::order, 0, {.whole_backward = 1, .whole_out = to_host});
    add_time(BoundArgument::order, 0, {.whole_forward = 1, .whole_in = to_device});
    add_time(BoundArgument::order, 0, {.whole_out = to_host, .whole_in = to_device});
  }

  bool uses_drives() const {
    return has_drives_ && rates_.nvme_read_bytes_per_second > 0 && rates_.nvme_write_bytes_per_second > 0;
  }

  /// Units up to which windows are looked at.
  std::set<std::size_t> ends() const {
    const std::size_t count = facts_.units.size();
    return {0, std::min<std::size_t>(1, count - 1), count / 4, count / 2, 3 * count / 4, count - 1};
  }

  void add_order_rows(double to_device, double to_host) {
    for (const std::size_t end : ends()) {
      const double passes =
          before(end, &UnitFacts::Level::forward) + before(end, &UnitFacts::Level::backward);
      const auto add = [&](const Stretch& stretch) {
        add_time(BoundArgument::order, -passes, {.passes = 1, .stretches = {stretch}});
      };
      if (end == 0) {
        add({end, to_host, to_device, 1, 1});
        continue;
      }
      add({.end = end, .gradient = out_memory_, .parameter = in_memory_, .squares = 1, .update = 1});
      add({.end = end, .parameter = to_device});
      add({.end = end, .gradient = to_host});
    }
    if (!facts_.global_norm) return;
    add_norm_rows(to_device, to_host);
    add_memory_row();
    add_drive_row();
  }

  /// From a norm of all gradients to the next.
  void add_norm_rows(double to_device, double to_host) {
    for (const std::size_t first : ends()) {
      for (const std::size_t last : ends()) {
        if (first == 0 && last == 0) continue;
        const double overlapped =
            before(first, &UnitFacts::Level::forward) + before(last, &UnitFacts::Level::backward);
        Stretch behind{.end = last, .gradient = to_host, .squares = last == 0 ? 1.0 : 0};
        const auto add = [&](const Stretch& ahead) {
          add_time(BoundArgument::order, -overlapped, {.passes = 1, .stretches = {ahead, behind}});
        };
        if (first == 0) {
          add({.end = first, .parameter = to_device, .update = 1});
          continue;
        }
        add({.end = first, .parameter = in_memory_, .update = 1});
        add({.end = first, .parameter = to_device});
      }
    }
  }

  /// Updates, copies of new parameters and of what whole crossings keep come before the last turn, and all go
  /// through the host's memory; backward passes of whole crossings come behind it, and the last unit's.
  void add_memory_row() {
    double last = std::numeric_limits<double>::infinity();
    for (const UnitFacts::Level& level : facts_.units.back().levels) last = std::min(last, level.backward);
    const Stretch updates{.end = facts_.units.size() - 1, .parameter = in_memory_, .update = 1};
    add_time(BoundArgument::order, last,
             {.stretches = {updates}, .whole_backward = 1, .whole_out = out_memory_});
  }

  /// Updates come before the first turn, and what drives read and write for them; all backward passes, and
  /// all passes of the last unit, come behind it.
  void add_drive_row() {
    if (!uses_drives()) return;
    const double before_turn = before(facts_.units.size() - 1, &UnitFacts::Level::forward);
    add_time(BoundArgument::order, -before_turn,
             {.passes = 1,
              .read_ahead = 1 / rates_.nvme_read_bytes_per_second,
              .write_ahead = 1 / rates_.nvme_write_bytes_per_second});
  }

  /// The most that passes of units below `end` take.
  double before(std::size_t end, double UnitFacts::Level::*pass) const {
    double seconds = 0;
    for (std::size_t u = 0; u < end; ++u) {
      double most = 0;
      for (const UnitFacts::Level& level : facts_.units[u].levels) most = std::max(most, level.*pass);
      seconds += most;
    }
    return seconds * microbatches_;
  }

  void add_choices(const Kind& kind) {
    const UnitFacts& unit = *kind.facts;
    for (const UnitFacts::Level& level : unit.levels) {
      for (const Lengths& length : lengths_up_to(facts_.microbatches)) {
        for (const Way way : {Way::state_on_device, Way::stays, Way::comes_again}) {
          const bool stays_at_no_cost = unit.is_at_turn || !unit.is_read_again;
          if (way == Way::comes_again && stays_at_no_cost) continue;
          for (const bool moves_kept : {false, true}) {
            if (moves_kept && level.kept == 0) continue;
            add_phases(
                {.kind = &kind, .level = level, .length = length, .way = way, .moves_kept = moves_kept});
          }
        }
      }
    }
  }

  /// Whether gradients of several microbatches are added up, in a sum that the last unit's pass has not.
  bool holds_sums(const UnitFacts& unit) const {
    return microbatches_ > 1 && !unit.is_at_turn && unit.summed > 0;
  }

  void add_phases(Choice choice) {
    const bool in_parts = choice.length.high > 1;
    if (!in_parts || choice.way == Way::comes_again) add_choice(choice);
    choice.phase = Phase::first_in_parts;
    if (in_parts) add_choice(choice);
    if (!holds_sums(*choice.kind->facts) || choice.length.low == microbatches_) return;
    choice.phase = Phase::later;
    for (const bool moves_sum : {false, true}) {
      choice.moves_sum = moves_sum;
      add_choice(choice);
    }
  }

  void add_choice(const Choice& choice) {
    LinearProgram::Column column{.most = choice.kind->count()};
    const auto kind = static_cast<std::size_t>(choice.kind - kinds_.data());
    column.entries.emplace_back(kind, 1);
    // A unit has one first crossing, however it is divided.
    if (firsts_[kind] > 0 && choice.phase != Phase::later)
      column.entries.emplace_back(firsts_[kind], -microbatches_ / choice.length.high);
    add_bytes(choice, column);
    for (const TimeRow& time : times_) {
      const double seconds = seconds_of(choice, time) / made_.scale;
      if (seconds != 0) column.entries.emplace_back(time.row, -seconds);
    }
    made_.program.columns.push_back(std::move(column));
  }

  void add_bytes(const Choice& choice, LinearProgram::Column& column) const {
    const UnitFacts& unit = *choice.kind->facts;
    const auto add = [&](std::optional<std::size_t> row, double bytes) {
      if (row && bytes != 0) column.entries.emplace_back(*row, bytes);
    };
    const double kept = static_cast<double>(choice.level.kept) * choice.turns_kept();
    // The last unit's pass has its operands, which are counted already.
    const bool is_counted = unit.is_at_turn;
    const auto parameters = static_cast<double>(unit.parameter + unit.frozen);
    double on_device = choice.moves_kept ? 0 : kept;
    if (choice.way == Way::state_on_device) on_device += static_cast<double>(unit.device_state);
    const bool stays = choice.way != Way::comes_again && (unit.is_read_again || !choice.is_on_host());
    if (stays && !is_counted) on_device += parameters;
    if (is_whole(choice)) {
      const double kept_then = static_cast<double>(choice.level.kept) * choice.length.low;
      add(device_at_last_turn_, -on_device - (choice.moves_kept ? 0 : kept_then - kept));
    }
    if (choice.phase == Phase::later && !choice.moves_sum) on_device += static_cast<double>(unit.summed);
    if (!choice.is_on_host()) {
      const auto state = static_cast<double>(unit.device_state);
      if (!is_whole(choice)) add(device_at_last_turn_, -state - (is_counted ? 0 : parameters));
      add(device_at_norm_, -state - at_norm_of(unit) - static_cast<double>(unit.sum));
    }
    add(device_row_, -on_device);
    std::array<double, kCountPoints> at_host = {};
    const auto add_to_host = [&](Spilled what, CountPoint point, double bytes) {
      nth(at_host, point) += bytes;
      add(nth(nth(spilled_, what), point), bytes);
    };
    if (choice.is_on_host()) {
      for (const CountPoint point : {CountPoint::norm, CountPoint::first_turn, CountPoint::turn}) {
        const bool is_norm = point == CountPoint::norm;
        add_to_host(Spilled::state, point, static_cast<double>(unit.host_state));
        add_to_host(Spilled::parameter, point,
                    is_norm && unit.is_made ? 0 : static_cast<double>(unit.parameter));
        // Drives may have what is frozen for good.
        if (!has_drives_) nth(at_host, point) += static_cast<double>(unit.frozen);
        if (is_norm && facts_.global_norm)
          add_to_host(Spilled::gradient, point, static_cast<double>(unit.gradient));
      }
    }
    if (choice.moves_kept) add_to_host(Spilled::kept, CountPoint::turn, kept);
    for (std::size_t m = 0; m < kCountPoints; ++m) add(host_at_[m], -at_host[m]);
  }

  /// Between a unit's last pass and its update nothing needs parameters that the update makes anew.
  static double at_norm_of(const UnitFacts& unit) {
    return static_cast<double>(unit.is_made ? unit.frozen : unit.parameter + unit.frozen);
  }

  double seconds_of(const Choice& choice, const TimeRow& time) const {
    const UnitFacts& unit = *choice.kind->facts;
    const bool on_host = choice.is_on_host();
    const auto parameter = static_cast<double>(unit.parameter), frozen = static_cast<double>(unit.frozen);
    const double moved = choice.moves_kept ? microbatches_ * static_cast<double>(choice.level.kept) : 0;
    double to_device = moved + (on_host ? parameter : 0), to_host = moved;
    if (choice.way == Way::comes_again)
      to_device += (parameter + frozen) * microbatches_ / choice.length.high *
                   (choice.phase == Phase::first_in_parts ? 2 : 1);
    if (choice.moves_sum) {
      const double sums = static_cast<double>(unit.summed) * microbatches_ / choice.length.high;
      to_device += sums;
      to_host += sums;
    }
    if (on_host) to_host += static_cast<double>(unit.gradient);
    double seconds = time.passes * microbatches_ * (choice.level.forward + choice.level.backward) +
                     (is_whole(choice) ? seconds_of_whole(choice, time) : 0) +
                     time.state * (on_host ? unit.beside_host : unit.beside_device) + time.h2d * to_device +
                     time.d2h * to_host;
    if (!on_host) return seconds;
    for (const Stretch& stretch : time.stretches)
      if (stretch.reaches(*choice.kind)) seconds += stretch.seconds_of(unit);
    return seconds + time.cpu * (unit.squares + unit.update);
  }

  /// No pass of the unit is between the first and the last turn. The last unit's are at the turns.
  bool is_whole(const Choice& choice) const {
    return choice.length.low == microbatches_ && !choice.kind->has_last;
  }

  double seconds_of_whole(const Choice& choice, const TimeRow& time) const {
    const double moved = choice.moves_kept ? static_cast<double>(choice.level.kept) : 0;
    return microbatches_ *
           (time.whole_forward * choice.level.forward + time.whole_backward * choice.level.backward +
            (time.whole_out + time.whole_in) * moved);
  }

  /// Bytes that stay on the device at one point though they move: at the last turn, of what has left it
  /// before and is back; at the norm, of sums of gradients that do not.
  void add_stays() {
    double kept = 0, sums = 0;
    for (const UnitFacts& unit : facts_.units) {
      kept += microbatches_ * static_cast<double>(unit.levels.back().kept);
      sums += static_cast<double>(unit.sum);
    }
    const auto add = [&](std::optional<std::size_t> row, double bytes, double device, const auto& rate) {
      if (!row || bytes == 0) return;
      LinearProgram::Column column{.most = 1};
      column.entries.emplace_back(*row, device * bytes);
      for (const TimeRow& time : times_)
        if (const double seconds = rate(time) * bytes; seconds != 0)
          column.entries.emplace_back(time.row, seconds / made_.scale);
      made_.program.columns.push_back(std::move(column));
    };
    add(device_at_last_turn_, kept, -1, [](const TimeRow& time) { return time.whole_in; });
    add(device_at_norm_, sums, 1, [](const TimeRow& time) { return -time.h2d - time.d2h; });
  }

  /// Bytes that drives take of the host. State that the host lacks when the norm is known is read behind
  /// that, and state that it lacks at the first turn was written before: all of it is updated between. A
  /// gradient is written before the norm, and read behind it; what forward passes keep comes later. A
  /// parameter that updates make is written then, and may never be read.
  void add_spills() {
    if (!has_drives_ || !host_at_.front()) return;
    for (unsigned at = 1; at < 8; ++at) {
      const auto has = [&](CountPoint point) { return (at >> static_cast<unsigned>(point)) % 2 == 1; };
      add_spill(Spilled::state, at, 1, 1, has(CountPoint::norm) ? 1 : 0, has(CountPoint::first_turn) ? 1 : 0);
    }
    constexpr unsigned kNorm = 1, kFirstTurn = 2, kTurn = 4;
    // One that is its own master is read for its update, too.
    const bool is_made = std::ranges::any_of(facts_.units, &UnitFacts::is_made);
    const unsigned at_turns = kTurn | (is_made ? 0 : kNorm);
    const int read = is_made ? 0 : 1;
    add_spill(Spilled::parameter, at_turns | kFirstTurn, read, 1, read, 1);
    add_spill(Spilled::parameter, at_turns, read, 1, read, 0);
    add_spill(Spilled::gradient, kNorm, 1, 1, 1, 0);
    add_spill(Spilled::kept, kTurn, 1, 1, 0, 0);
  }

  /// `at` has a bit for each point at which the host has room for other things instead. `read` and `written`
  /// are how often all of it is read and written, and the others how often between the norm and the first
  /// turn.
  void add_spill(Spilled what, unsigned at, int read, int written, int read_ahead, int written_ahead) {
    const double bytes = most_spilled(what);
    if (bytes == 0) return;
    LinearProgram::Column column{.most = 1};
    for (std::size_t m = 0; m < kCountPoints; ++m) {
      if ((at >> m) % 2 == 0) continue;
      column.entries.emplace_back(*nth(spilled_, what)[m], -bytes);
      column.entries.emplace_back(*host_at_[m], bytes);
    }
    for (const TimeRow& time : times_) {
      const double seconds = bytes * (time.read * read + time.write * written + time.read_ahead * read_ahead +
                                      time.write_ahead * written_ahead);
      if (seconds != 0) column.entries.emplace_back(time.row, -seconds / made_.scale);
    }
    made_.program.columns.push_back(std::move(column));
  }

  double most_spilled(Spilled what) const {
    double bytes = 0;
    for (const UnitFacts& unit : facts_.units) {
      switch (what) {
        case Spilled::state:
          bytes += static_cast<double>(unit.host_state);
          break;
        case Spilled::parameter:
          bytes += static_cast<double>(unit.parameter);
          break;
        case Spilled::gradient:
          bytes += static_cast<double>(unit.gradient);
          break;
        case Spilled::kept:
          bytes += microbatches_ * static_cast<double>(unit.levels.back().kept);
      }
    }
    return bytes;
  }

  const StepFacts& facts_;
  const MachineRates& rates_;
  std::set<BoundArgument> wanted_;
  std::vector<Kind> kinds_;
  double microbatches_;
  Bytes device_, host_;
  bool has_drives_;
  double in_memory_, out_memory_;  ///< seconds that a byte of a copy takes the host's memory
  BoundProgram made_;
  std::optional<std::size_t> device_row_ = {}, device_at_last_turn_ = {}, device_at_norm_ = {};
  std::array<std::optional<std::size_t>, kCountPoints> host_at_ = {};
  std::vector<std::size_t> firsts_ = {};  ///< by kind: the row of its first crossings, or 0
  /// What of each there is to spill at a point.
  std::array<std::array<std::optional<std::size_t>, kCountPoints>, kSpilled> spilled_ = {};
  std::vector<TimeRow> times_;
};

}  // namespace

BoundProgram bound_program(const StepFacts& facts, const TierBudgets& budgets, const MachineRates& rates,
                           std::span<const BoundArgument> arguments) {
  return Builder(facts, budgets, rates, arguments).build();
}

}  // namespace strata
