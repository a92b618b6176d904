#include "engine/plan/lower/lower.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <deque>
#include <span>
#include <stdexcept>
#include <utility>

#include "engine/graph/data_array.h"
#include "engine/plan/lower/carried.h"
#include "engine/plan/lower/regions.h"
#include "engine/plan/lower/schedule.h"
#include "engine/plan/lower/state_layout.h"
#include "engine/plan/lower/step_builder.h"
#include "engine/plan/lower/update_lowering.h"

namespace strata {
namespace {

class Lowering {
 public:
  /// `microbatches` on this rank, `all_microbatches` on all together.
  Lowering(const Model& model, const Strategy& strategy, std::int64_t microbatches,
           std::int64_t all_microbatches)
      : model_(model),
        strategy_(strategy),
        compute_(unit_compute(model, strategy.precision, strategy.microbatch)),
        microbatches_(microbatches),
        unit_count_(static_cast<std::int32_t>(model.units.size())),
        work_(unit_work(model, strategy)),
        builder_(strategy),
        step_(make_step_values(model, strategy, *compute_, microbatches)),
        state_(strategy, step_, builder_.program_builder()),
        updates_(model, work_, step_, state_, builder_) {
    for (const Unit& unit : model.units) builder_.program().units.push_back(unit.name);
    builder_.program().groups = groups_of(strategy.mesh);
    builder_.program().loss_terms =
        all_microbatches * loss_terms_of(model.graphs).in(strategy.microbatch) * strategy.mesh.context;
    state_.make_persistent();
  }

  Program training() {
    const Schedule schedule = training_schedule(strategy_, work_);
    if (strategy_.is_asynchronous()) {
      builder_.program().updates = strategy_.updates();
      keep_on_device(schedule, step_, builder_);
    } else {
      load();
      list_rows();
    }
    if (strategy_.updates_late) state_.carry_what_late_updates_read();
    walk(schedule, true);
    updates_.finish();
    if (strategy_.is_asynchronous()) {
      carry_between_rounds(builder_.program());
      keep_sums_apart(builder_.program());
    }
    return std::move(builder_.program());
  }

  Program validation() {
    load();
    walk(validation_schedule(strategy_, unit_count_, static_cast<std::int32_t>(microbatches_)), false);
    return std::move(builder_.program());
  }

 private:
  static std::size_t index(std::int64_t i) { return static_cast<std::size_t>(i); }
  const Unit& unit(std::int32_t u) const { return model_.units[index(u)]; }
  const UnitPasses& passes(std::int32_t u) const { return compute_->passes(unit(u)); }
  UnitValues& unit_values(std::int32_t u) { return step_.units[index(u)]; }
  bool on_device(std::int32_t u) const { return strategy_.on_device(u); }
  const Mesh& mesh() const { return strategy_.mesh; }
  /// Ranks add up rows of the unit's gradient, not all of it.
  bool sends_rows(std::int32_t u) const { return step_.units[index(u)].rows.elements > 0; }
  void walk(const Schedule& schedule, bool trains) {
    for (std::size_t i = 0, count = 1; i < schedule.size(); i += count) {
      const std::span<const Visit> visits = together(std::span(schedule).subspan(i));
      count = visits.size();
      const Visit& visit = visits.front();
      const std::int32_t u = visit.unit;
      // A gathered parameter serves all visits in a row of a unit in one pass.
      const bool has_parameters =
          !strategy_.gathers() ||
          (visit.pass == last_visit_.pass && u == last_visit_.unit && visit.stash == last_visit_.stash);
      if (visit.message == Message::none) last_visit_ = visit;
      builder_.set_serves(visit.serves);
      switch (visit.pass) {
        case Pass::forward:
        case Pass::backward:
        case Pass::input_gradient:
        case Pass::weight_gradient: {
          const std::size_t level = trains ? this->level(u) : 0;
          const UnitPass& pass = pass_of(visit.pass, passes(u).levels[level]);
          if (begins_backward(visit)) zero_gradients(u);
          if (!has_parameters) gather_parameters(visit, pass);
          run_passes(visits, pass, level);
          break;
        }
        case Pass::finish_gradient:
          finish_gradient(u);
          break;
        case Pass::reduce_gradient:
          reduce_gradient(u, visit.microbatch);
          break;
        case Pass::sums:
          sum_losses();
          updates_.sum_norms();
          break;
        case Pass::loss:
          if (!trains || strategy_.updates() == 1) sum_losses();
          loss();
          break;
        case Pass::gradient_norm:
          updates_.grad_norm();
          break;
        case Pass::stash:
          updates_.stash(visit);
          break;
        case Pass::update:
          updates_.update(visit);
          break;
        case Pass::send:
        case Pass::receive:
          builder_.message(visit, step_);
          break;
        case Pass::load:
          load(visit.microbatch);
          break;
      }
    }
  }

  /// The visits in front whose segments take turns.
  std::span<const Visit> together(std::span<const Visit> visits) const {
    const Visit& first = visits.front();
    const auto goes_along = [&](const Visit& visit) {
      return visit.microbatch >= 0 && visit.message == Message::none && visit.pass == first.pass &&
             visit.unit == first.unit && visit.serves == first.serves && visit.stash == first.stash;
    };
    if (!strategy_.interleaves || !goes_along(first)) return visits.first(1);
    const auto end = std::ranges::find_if_not(visits, goes_along);
    return visits.first(static_cast<std::size_t>(end - visits.begin()));
  }

  bool adds_to_shared(std::int32_t u) const {
    return passes(u).saving_nothing().backward.touches(Region::shared_gradient);
  }
  /// Another unit adds to its gradient, before its own backward passes.
  bool is_shared(std::int32_t u) const {
    for (std::int32_t other = 0; other < unit_count_; ++other)
      if (strategy_.has(other) && unit(other).shares == u && adds_to_shared(other)) return true;
    return false;
  }

  /// What the pass reads, for the visits in a row that begin with this one.
  void gather_parameters(const Visit& visit, const UnitPass& pass) {
    const auto gather = [&](Region region, std::int32_t owner, Value& shard, Value& whole) {
      if (!pass.touches(region)) return;
      builder_.make_resident(whole, false);
      builder_.all_gather(owner, shard, whole);
    };
    const auto gather_of = [&](std::int32_t owner, Region parameter, Region frozen) {
      if (owner < 0) return;
      UnitValues& values = unit_values(owner);
      UnitValues::Stash* const stash = stash_of(owner, visit.stash);
      gather(parameter, owner, stash != nullptr ? stash->parameter_shard : values.parameter_shard,
             stash != nullptr ? stash->parameter : values.parameter);
      gather(frozen, owner, values.frozen_shard, values.frozen);
    };
    gather_of(visit.unit, Region::parameter, Region::frozen);
    gather_of(unit(visit.unit).shares, Region::shared_parameter, Region::shared_frozen);
  }

  /// Null if the pass uses what updates write.
  UnitValues::Stash* stash_of(std::int32_t u, std::int32_t number) {
    std::vector<UnitValues::Stash>& stashes = unit_values(u).stashes;
    return number < 0 || stashes.empty() ? nullptr : &stashes[index(number)];
  }
  Value& parameter_of(std::int32_t u, std::int32_t stash) {
    UnitValues::Stash* const stashed = stash_of(u, stash);
    return stashed != nullptr ? stashed->parameter : unit_values(u).parameter;
  }

  void load() {
    for (std::int64_t mb = 0; mb < microbatches_; ++mb) load(mb);
  }

  void load(std::int64_t mb) {
    std::vector<Use> uses;
    for (std::size_t array = 0; array < step_.data.size(); ++array) {
      if (!step_.data[array].empty())
        uses.push_back({role_of(data_region(array)), &step_.data[array][index(mb)], Access::write});
    }
    if (!uses.empty()) builder_.on_host(Operation::load_data, Lane::data, -1, mb, uses);
  }

  void list_rows() {
    for (std::int32_t u = 0; u < unit_count_; ++u) {
      if (!sends_rows(u)) continue;
      const std::size_t array = unit(u).row_numbers;
      std::vector<Use> uses;
      for (Value& numbers : step_.data[array])
        uses.push_back({role_of(data_region(array)), &numbers, Access::read});
      uses.push_back({Role::rows, &unit_values(u).rows, Access::write});
      builder_.on_host(Operation::list_rows, Lane::data, u, -1, uses);
    }
  }

  /// What a region is in a pass of the unit.
  Value& value_of(Region region, const Visit& visit) {
    const std::int32_t u = visit.unit, mb = visit.microbatch;
    UnitValues& values = unit_values(u);
    switch (region) {
      case Region::parameter:
        return parameter_of(u, visit.stash);
      case Region::shared_parameter:
        return parameter_of(unit(u).shares, visit.stash);
      case Region::frozen:
        return values.frozen;
      case Region::shared_frozen:
        return unit_values(unit(u).shares).frozen;
      case Region::gradient:
        return values.gradient;
      case Region::shared_gradient:
        return unit_values(unit(u).shares).gradient;
      case Region::input:
        return values.input[index(mb)];
      case Region::output:
        return unit_values(u + 1).input[index(mb)];
      case Region::output_gradient:
        return unit_values(u + 1).input_gradient[index(mb)];
      case Region::input_gradient:
        return values.input_gradient[index(mb)];
      case Region::saved:
        return values.saved[index(mb)];
      case Region::pending:
        return values.pending[index(mb)];
      case Region::constants:
        return step_.constants;
      case Region::data_0:
      case Region::data_1:
      case Region::data_2:
      case Region::data_3:
        return step_.data[data_number(region)][index(mb)];
      case Region::losses:
        return step_.losses[index(mb)];
      case Region::loss_scale:
        return step_.loss_scale;
      case Region::tally:
        return step_.tally[index(mb)];
      case Region::workspace:
      case Region::ring_0:
      case Region::ring_1:
      case Region::ring_2:
      case Region::ring_3:
        break;
    }
    throw std::logic_error("a workspace is made for each pass");
  }

  /// How much of the unit's activations is saved.
  std::size_t level(std::int32_t u) const {
    return std::min(strategy_.saved_level[index(u)], passes(u).levels.size() - 1);
  }

  static const UnitPass& pass_of(Pass pass, const UnitPasses::Level& level) {
    switch (pass) {
      case Pass::forward:
        return level.forward;
      case Pass::input_gradient:
        return level.input_gradient;
      case Pass::weight_gradient:
        return level.weight_gradient;
      default:
        return level.backward;
    }
  }
  static Operation operation_of(Pass pass) {
    switch (pass) {
      case Pass::forward:
        return Operation::forward;
      case Pass::input_gradient:
        return Operation::input_gradient;
      case Pass::weight_gradient:
        return Operation::weight_gradient;
      default:
        return Operation::backward;
    }
  }

  /// The first of an update that may add to the unit's gradient.
  bool begins_backward(const Visit& visit) const {
    if (visit.pass == Pass::forward || (visit.microbatch > 0 && strategy_.updates() == 1)) return false;
    return visit.pass != Pass::weight_gradient || !work_[index(visit.unit)].input_gradient;
  }

  /// In the order in which instructions have them.
  static std::span<const Region> regions_of(Pass pass) {
    static constexpr auto kForward = std::to_array<Region>(
        {Region::parameter, Region::frozen, Region::input, Region::shared_parameter, Region::shared_frozen,
         Region::data_0, Region::data_1, Region::data_2, Region::data_3, Region::losses, Region::output,
         Region::saved, Region::tally, Region::constants, Region::ring_0, Region::ring_1, Region::ring_2,
         Region::ring_3});
    static constexpr auto kBackward =
        std::to_array<Region>({Region::parameter,      Region::frozen,          Region::input,
                               Region::input_gradient, Region::data_0,          Region::data_1,
                               Region::data_2,         Region::data_3,          Region::losses,
                               Region::loss_scale,     Region::output_gradient, Region::saved,
                               Region::pending,        Region::gradient,        Region::shared_parameter,
                               Region::shared_frozen,  Region::shared_gradient, Region::tally,
                               Region::constants,      Region::ring_0,          Region::ring_1,
                               Region::ring_2,         Region::ring_3});
    return pass == Pass::forward ? std::span<const Region>(kForward) : kBackward;
  }

  /// How a segment of a pass touches a region.
  static Access access_to(Region region, Pass kind, const UnitPass& pass, std::size_t segment) {
    const auto now = pass.segments().begin() + static_cast<std::ptrdiff_t>(segment);
    if (region == Region::gradient || region == Region::shared_gradient) return Access::update;
    const bool is_found = (region == Region::saved && kind != Pass::forward) ||
                          (region == Region::pending && kind == Pass::weight_gradient);
    if (is_found) {  // it may be used up, and then nobody needs it
      const bool is_last = kind != Pass::input_gradient && !is_touched_behind(region, pass, segment);
      return now->writes(region) && !is_last ? Access::update : Access::read;
    }
    if (!now->writes(region)) return Access::read;
    if (region == Region::tally || is_ring(region))
      return now->reads(region) ? Access::update : Access::write;
    return is_touched_before(region, pass, segment) ? Access::update : Access::write;
  }

  /// Whether a segment or an exchange in front of a segment touches the region; of the exchanges right in
  /// front of it, those before this one.
  static bool is_touched_before(Region region, const UnitPass& pass, std::size_t segment,
                                const PlacedExchange* exchange = nullptr) {
    const auto touches = [&](const auto& other) { return other.touches(region); };
    const auto end = std::ranges::find_if(pass.exchanges(), [&](const PlacedExchange& other) {
      return &other == exchange || other.before > segment;
    });
    return std::any_of(pass.exchanges().begin(), end, touches) ||
           std::ranges::any_of(std::span(pass.segments()).first(segment), touches);
  }
  static bool is_touched_behind(Region region, const UnitPass& pass, std::size_t segment) {
    return std::ranges::any_of(std::span(pass.segments()).subspan(segment + 1),
                               [&](const Segment& other) { return other.touches(region); }) ||
           std::ranges::any_of(pass.exchanges(), [&](const PlacedExchange& exchange) {
             return exchange.before > segment && exchange.touches(region);
           });
  }

  /// What a visit has of its own.
  struct VisitMemory {
    Value workspace;
    std::array<Value, kRings> rings = {};  ///< without elements if nothing goes round
  };

  VisitMemory memory_of(const Visit& visit, const UnitPass& pass) {
    const auto make = [&](const std::string& what, Bytes bytes) {
      Value value = make_value(fmt::format("{}/{}", unit(visit.unit).name, what), BufferKind::workspace,
                               ElementType::byte, bytes);
      value.scratch = true;
      return value;
    };
    VisitMemory memory{make("workspace", pass.workspace_bytes())};
    const bool is_cut = pass.segments().size() > 1 || !pass.exchanges().empty();
    if (is_cut) builder_.make_resident(memory.workspace, false);
    for (std::size_t i = 0; i < kRings; ++i) {
      memory.rings[i] = make(fmt::format("ring[{}]", i), pass.ring_bytes(i));
      if (pass.ring_bytes(i) > 0) builder_.make_resident(memory.rings[i], false);
    }
    return memory;
  }

  Value& value_of(Region region, const Visit& visit, VisitMemory& memory) {
    if (region == Region::workspace) return memory.workspace;
    return is_ring(region) ? memory.rings[ring_number(region)] : value_of(region, visit);
  }

  /// A visit on its way through a pass.
  struct Turn {
    const Visit& visit;
    VisitMemory memory;
    std::size_t segment = 0, exchange = 0;  ///< the next ones
  };

  /// An instruction for each segment, on those regions that it touches, and between them what ranks exchange.
  /// Two visits at a time take turns, so that one computes while the other's values travel: A0 B0 A1 C0 B1 D0
  /// … of two segments. Each segment has the visits in their order, so gradients sum microbatches in theirs.
  void run_passes(std::span<const Visit> visits, const UnitPass& pass, std::size_t level) {
    constexpr std::size_t kAtOnce = 2;
    std::deque<Turn> turns;
    std::size_t begun = 0;
    const auto begin = [&] {
      Turn turn{visits[begun], memory_of(visits[begun], pass)};
      ++begun;
      exchange_before(turn, pass);
      return turn;
    };
    while (begun < std::min(kAtOnce, visits.size())) turns.push_back(begin());
    while (!turns.empty()) {
      Turn turn = std::move(turns.front());
      turns.pop_front();
      run_turn(turn, pass, level);
      if (turn.segment < pass.segments().size()) {
        turns.push_back(std::move(turn));
      } else if (begun < visits.size()) {
        // At once, so that the other's values have two segments' time; last, if it waits for some itself.
        Turn next = begin();
        const bool is_in_order = turns.empty() || turns.front().segment > 0;
        if (next.exchange == 0 && is_in_order) {
          turns.push_front(std::move(next));
        } else {
          turns.push_back(std::move(next));
        }
      }
    }
  }

  /// The next segment, or all of a loop over rows, and what is exchanged behind it.
  void run_turn(Turn& turn, const UnitPass& pass, std::size_t level) {
    const std::span<const PlacedExchange> exchanges = pass.exchanges();
    do {
      if (turn.segment < pass.segments().size())
        run_segment(turn.visit, pass, level, turn.segment++, turn.memory);
    } while (exchange_before(turn, pass));
  }

  /// What is exchanged in front of the next segment. Returns whether that is in a loop over rows.
  bool exchange_before(Turn& turn, const UnitPass& pass) {
    bool is_in_loop = false;
    for (; turn.exchange < pass.exchanges().size(); ++turn.exchange) {
      const PlacedExchange& next = pass.exchanges()[turn.exchange];
      if (next.before != turn.segment) break;
      exchange(turn.visit, pass, next, turn.memory);
      is_in_loop = next.is_in_loop;
    }
    return is_in_loop;
  }

  void run_segment(const Visit& visit, const UnitPass& pass, std::size_t level, std::size_t number,
                   VisitMemory& memory) {
    const Segment& segment = pass.segments()[number];
    std::vector<Use> uses;
    for (const Region region : regions_of(visit.pass)) {
      if (!segment.touches(region)) continue;
      uses.push_back(
          {role_of(region), &value_of(region, visit, memory), access_to(region, visit.pass, pass, number)});
    }
    const bool begins = number == 0 && !is_touched_before(Region::workspace, pass, 0);
    uses.push_back({Role::workspace, &memory.workspace, begins ? Access::write : Access::update});
    builder_.on_device({.operation = operation_of(visit.pass),
                        .unit = visit.unit,
                        .microbatch = visit.microbatch,
                        .flops = segment.flops(),
                        .saved_level = static_cast<std::int32_t>(level),
                        .segment = static_cast<std::int32_t>(number)},
                       uses);
  }

  /// What ranks that share the pass have made parts of, have parts of, or pass on.
  void exchange(const Visit& visit, const UnitPass& pass, const PlacedExchange& exchange,
                VisitMemory& memory) {
    const auto use = [&](Role role, const Segment::PlacedOperand& tensor, Access access) {
      return Use{role, &value_of(tensor.region, visit, memory), access,
                 Use::Part{element_type(tensor.size.dtype), tensor.size.elements(), tensor.offset}};
    };
    const Segment::PlacedOperand &source = exchange.source, &destination = exchange.destination;
    if (exchange.kind == ExchangeKind::all_reduce) {
      const Use sum = use(role_of(source.region), source, Access::update);
      return builder_.add_up(exchange.shared == SharedBy::sequence ? DataGroup::context : DataGroup::tensor,
                             visit.unit, visit.microbatch, sum.role, *sum.value, *sum.part);
    }
    if (exchange.kind == ExchangeKind::ring_shift)
      return builder_.ring_shift(visit.unit, visit.microbatch,
                                 use(role_of(source.region), source, Access::read),
                                 use(role_of(destination.region), destination, Access::write));
    const bool is_begun = is_touched_before(destination.region, pass, exchange.before, &exchange) ||
                          source.region == destination.region;
    builder_.gather_or_scatter(
        exchange.kind == ExchangeKind::all_gather ? Operation::all_gather : Operation::reduce_scatter,
        visit.unit, visit.microbatch,
        {use(Role::source, source, Access::read),
         use(Role::destination, destination, is_begun ? Access::update : Access::write)});
  }

  /// Sums gradients of parameters that ranks have alike though each makes a part of the gradient only.
  void add_up_gradients(std::int32_t u) {
    for (const TensorSpec& tensor : unit(u).tensors) {
      if (tensor.summed_ranks == 1 || tensor.flat != Flat::trained) continue;
      const DataGroup group = tensor.summed_ranks < mesh().tensor ? DataGroup::keys : DataGroup::tensor;
      builder_.add_up(group, u, -1, Role::gradient, unit_values(u).gradient,
                      {ElementType::fp32, tensor.elements, tensor.offset * size_of(ElementType::fp32)});
    }
  }

  void zero_gradients(std::int32_t u) {
    const auto zero = [&](std::int32_t unit) {
      builder_.on_compute(Operation::zero, unit,
                          {{Role::gradient, &unit_values(unit).gradient, Access::write}});
    };
    if (adds_to_shared(u)) zero(unit(u).shares);
    if (work_[index(u)].update && !is_shared(u)) zero(u);
  }

  void cast_gradient(std::int32_t u, Value& accumulated) {
    builder_.on_compute(Operation::cast_gradient, u,
                        {{Role::source, &accumulated, Access::read},
                         {Role::destination, &unit_values(u).cast_gradient, Access::write}});
  }

  void finish_gradient(std::int32_t u) {
    add_up_gradients(u);
    if (strategy_.is_copied(u)) {
      builder_.on_compute(Operation::add_gradient, u,
                          {{Role::source, &unit_values(u).received_gradient, Access::read},
                           {Role::gradient, &unit_values(u).gradient, Access::update}});
    }
    if (sends_rows(u)) {
      copy_rows(u);
    } else if (!strategy_.reduces_as_fp32()) {
      cast_gradient(u, unit_values(u).gradient);
    }
  }

  /// From a rank's own gradient to the one that all ranks have given, and its sum of squares.
  void reduce_gradient(std::int32_t u, std::int32_t microbatch) {
    UnitValues& values = unit_values(u);
    Value& norm = values.norm_of(microbatch);
    Value& own = strategy_.reduces_as_fp32() ? values.gradient : values.cast_gradient;
    Value& sum = strategy_.is_sharded() ? values.reduced_gradient : own;
    if (sends_rows(u)) {
      sum_rows(u, sum);
    } else if (strategy_.is_sharded()) {
      builder_.on_comm(Operation::reduce_scatter, u, builder_.exchange_of_parts(sum.bytes()),
                       {{Role::source, &own, Access::read}, {Role::destination, &sum, Access::write}});
    }
    if (mesh().replicate > 1 && (strategy_.is_sharded() || !sends_rows(u))) {
      builder_.on_comm(Operation::all_reduce, u, builder_.exchange_of_sums(DataGroup::replicate, sum),
                       {{Role::gradient, &sum, Access::update}});
    }
    if (strategy_.reduces_as_fp32() && !strategy_.travels_as_fp32()) cast_gradient(u, sum);
    const std::vector<Use> uses = {{Role::gradient, &state_.final_gradient(u), Access::read},
                                   {Role::norm, &norm, Access::write}};
    if (on_device(u)) {
      builder_.on_compute(Operation::sum_of_squares, u, uses);
    } else {
      builder_.on_host(Operation::sum_of_squares, Lane::cpu, u, -1, uses);
    }
    builder_.all_reduce_on_host(u, DataGroup::shard, Role::norm, norm);
    if (mesh().tensor > 1) builder_.all_reduce_on_host(u, DataGroup::tensor, Role::norm, norm);
  }

  /// Copies those rows of a gradient that have values on this rank.
  void copy_rows(std::int32_t u) {
    UnitValues& values = unit_values(u);
    builder_.on_compute(Operation::copy_rows, u,
                        {{Role::gradient, &values.gradient, Access::read},
                         {Role::rows, &values.rows, Access::read},
                         {Role::row_values, &values.row_values, Access::write}});
  }

  /// They go to all ranks, which add them up as they would add whole gradients.
  void sum_rows(std::int32_t u, Value& sum) {
    UnitValues& values = unit_values(u);
    builder_.make_resident(values.all_rows, false);
    builder_.make_resident(values.all_row_values, false);
    const auto gather = [&](Role role, Value& own, Value& all) {
      builder_.on_comm(Operation::all_gather, u, builder_.exchange_of_parts(own.bytes()),
                       {{role, &own, Access::read}, {Role::destination, &all, Access::write}});
    };
    gather(Role::rows, values.rows, values.all_rows);
    gather(Role::row_values, values.row_values, values.all_row_values);
    builder_.on_device(
        {.operation = Operation::sum_rows, .unit = u, .exchange = {.group = builder_.reducing_group()}},
        {{Role::rows, &values.all_rows, Access::read},
         {Role::row_values, &values.all_row_values, Access::read},
         {Role::destination, &sum, Access::write}});
  }

  void sum_losses() {
    std::vector<Use> uses;
    for (Value& losses : step_.losses) uses.push_back({Role::losses, &losses, Access::read});
    uses.push_back({Role::step_sums, &step_.step_sums, Access::write});
    builder_.on_host(Operation::sum_losses, Lane::cpu, -1, -1, uses);
  }

  void loss() {
    builder_.all_reduce_on_host(-1, DataGroup::world, Role::step_sums, step_.step_sums);
    builder_.on_host(Operation::loss, Lane::cpu, -1, -1, {{Role::step_sums, &step_.step_sums, Access::read}});
  }

  const Model& model_;
  const Strategy& strategy_;
  std::shared_ptr<const UnitCompute> compute_;
  std::int64_t microbatches_;
  std::int32_t unit_count_;
  std::vector<UnitWork> work_;
  StepBuilder builder_;
  StepValues step_;
  StateLayout state_;
  UpdateLowering updates_;
  Visit last_visit_ = {Pass::update};
};

}  // namespace

Program lower_training(const Model& model, const Strategy& strategy) {
  return Lowering(model, strategy, strategy.microbatches, strategy.microbatches * strategy.mesh.data())
      .training();
}

Program lower_validation(const Model& model, const Strategy& strategy) {
  return Lowering(model, strategy, per_rank(strategy.validation_microbatches, strategy.mesh),
                  strategy.validation_microbatches)
      .validation();
}

}  // namespace strata
