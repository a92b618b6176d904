#include "engine/run/tune/changes.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string_view>
#include <utility>

#include "engine/config/choices.h"
#include "engine/config/run_config.h"
#include "engine/plan/program/program.h"

namespace strata {
namespace {

constexpr double kFaster = 2;  // of links and drives

/// Rounded up to what a person would write: three binary digits behind the first.
Bytes rounded_up(double bytes) {
  const auto whole = static_cast<Bytes>(bytes);
  const auto digits = static_cast<int>(std::bit_width(static_cast<std::uint64_t>(whole)));
  return align_up(whole, std::max(kBufferAlignment, Bytes{1} << std::max(digits - 4, 0)));
}

/// Sizes above `now`, up to `enough`.
std::vector<Bytes> sizes_between(Bytes now, Bytes enough, bool few) {
  const auto factors = few ? std::vector{2.0, 8.0} : std::vector{1.25, 1.5, 2.0, 3.0, 4.0, 8.0, 16.0};
  std::vector<Bytes> sizes;
  for (const double factor : factors) {
    const Bytes size = rounded_up(factor * static_cast<double>(now));
    if (size < enough) sizes.push_back(size);
  }
  sizes.push_back(rounded_up(static_cast<double>(enough)));
  return sizes;
}

/// Collects changes of keys in which all models agree.
class Collector {
 public:
  explicit Collector(const std::vector<RunConfig>& configs) : configs_(configs) {}

  const RunConfig& run() const { return configs_.front(); }

  /// Whether value(config) is the same of all models.
  template <typename Value>
  bool agree(const Value& value) const {
    return std::ranges::all_of(configs_,
                               [&](const RunConfig& config) { return value(config) == value(run()); });
  }

  void add(std::string setting, ChangeEffect effect = ChangeEffect::none) {
    changes_.push_back({.settings = {std::move(setting)}, .effect = effect});
  }
  void add(Change change) { changes_.push_back(std::move(change)); }

  /// train.batch and train.microbatch times 2^power, if that is a whole number.
  void add_times(std::string_view key, std::int64_t TrainSection::*value, int power, ChangeEffect effect) {
    if (!agree([&](const RunConfig& config) { return config.train.*value; })) return;
    const std::int64_t now = run().train.*value, divisor = power < 0 ? std::int64_t{1} << -power : 1;
    if (now % divisor != 0) return;
    add(fmt::format("{}={}", key, power < 0 ? now / divisor : now << power), effect);
  }

  std::vector<Change> take() { return std::move(changes_); }

 private:
  const std::vector<RunConfig>& configs_;
  std::vector<Change> changes_;
};

/// Larger budgets. Of those that a run leaves to the machine the other tier gets less.
void add_budgets(Collector& changes, const ChangeFacts& facts) {
  const MemorySection& memory = changes.run().memory;
  if (!facts.memory_helps) return;
  if (memory.device < facts.enough_device) {
    // How much a GPU has is its machine's; on the CPU it is a part of the host's memory.
    const ChangeEffect effect =
        changes.run().device.kind == DeviceKind::cpu ? ChangeEffect::none : ChangeEffect::machine;
    for (const Bytes size : sizes_between(memory.device, facts.enough_device, facts.is_large))
      changes.add(fmt::format("memory.device={}", exact_bytes(size)), effect);
  }
  if (memory.host && *memory.host < facts.enough_host) {
    for (const Bytes size : sizes_between(*memory.host, facts.enough_host, facts.is_large))
      changes.add(fmt::format("memory.host={}", exact_bytes(size)));
  }
}

/// Gives the planner back what the run file decides.
void add_freedom(Collector& changes) {
  const RunConfig& run = changes.run();
  if (run.plan.order && run.parallel.pipeline == 1) {
    const bool is_layer_major = *run.plan.order == Order::layer_major;
    changes.add(
        fmt::format("plan.order={}", word_of(is_layer_major ? Order::microbatch_major : Order::layer_major)));
  }
  if (run.plan.lanes == LaneMode::serial) changes.add("plan.lanes=overlapped");
  if (run.train.recompute != Recompute::automatic) changes.add("train.recompute=auto");
  const auto place = [&](std::string_view kind, TierChoice choice) {
    if (choice != TierChoice::automatic) changes.add(fmt::format("memory.placement.{}=auto", kind));
  };
  place("parameters", run.memory.parameters);
  place("optimizer_state", run.memory.optimizer_state);
  place("gradients", run.memory.gradients);
  place("activations", run.memory.activations);
}

void add_formats(Collector& changes) {
  const RunConfig& run = changes.run();
  if (run.optimizer.master == MasterFormat::fp32 && run.precision() == DType::bf16)
    changes.add("optimizer.master=split", ChangeEffect::rounding);
  if (run.optimizer.master != MasterFormat::none && run.precision() == DType::bf16)
    changes.add("optimizer.master=none", ChangeEffect::learning);
  if (run.rounding() == Rounding::e4m3) {
    const bool is_sharded = run.parallel.data * run.parallel.context > 1 && run.parallel.zero_stage > 0;
    if (run.memory.trained_as == ParameterFormat::precision && !is_asynchronous(run.parallel.schedule))
      changes.add("memory.trained_as=fp8", is_sharded ? ChangeEffect::rounding : ChangeEffect::none);
    if (run.memory.frozen_as == ParameterFormat::precision && run.freezes())
      changes.add("memory.frozen_as=fp8", ChangeEffect::rounding);
  }
  if (run.freezes() && run.memory.frozen_as != ParameterFormat::nf4) {
    if (run.memory.frozen_as != ParameterFormat::int8)
      changes.add("memory.frozen_as=int8", ChangeEffect::learning);
    changes.add("memory.frozen_as=nf4", ChangeEffect::learning);
  }
  if (run.optimizer.moments == MomentFormat::fp32)
    changes.add("optimizer.moments=bf16", ChangeEffect::learning);
  if (run.optimizer.moments != MomentFormat::coded)
    changes.add("optimizer.moments=8bit", ChangeEffect::learning);
  if (run.precision() == DType::fp32) changes.add("train.precision=bf16", ChangeEffect::learning);
}

/// Formats of the state that may be small enough together where neither is alone.
void add_smallest_state(Collector& changes) {
  const RunConfig& run = changes.run();
  if (run.optimizer.master != MasterFormat::fp32 || run.precision() != DType::bf16) return;
  for (const auto& [format, setting] : {std::pair{MomentFormat::bf16, "optimizer.moments=bf16"},
                                        std::pair{MomentFormat::coded, "optimizer.moments=8bit"}}) {
    if (run.optimizer.moments < format)
      changes.add(Change{.settings = {"optimizer.master=none", setting}, .effect = ChangeEffect::learning});
  }
}

void add_ranks(Collector& changes) {
  const ParallelSection& parallel = changes.run().parallel;
  if (parallel.data * parallel.context > 1 && parallel.zero_stage > 0) {
    for (const int stage : {1, 2, 3}) {
      if (stage != parallel.zero_stage)
        changes.add(fmt::format("parallel.zero_stage={}", stage), ChangeEffect::rounding);
    }
    if (parallel.reduce_dtype == ReduceDtype::fp32 && changes.run().precision() == DType::bf16)
      changes.add("parallel.reduce_dtype=bf16", ChangeEffect::learning);
  }
  if (parallel.pipeline == 1 || is_asynchronous(parallel.schedule) || parallel.chunks > 1) return;
  for (const PipelineSchedule schedule :
       {PipelineSchedule::gpipe, PipelineSchedule::one_f_one_b, PipelineSchedule::zero_bubble}) {
    if (schedule != parallel.schedule) changes.add(fmt::format("parallel.schedule={}", word_of(schedule)));
  }
}

struct Limit {
  std::string_view key;
  std::optional<Bytes> per_second;
};

/// The settings that raise the limits that the run file gives, `kFaster` times.
std::vector<std::string> raised(std::initializer_list<Limit> limits) {
  std::vector<std::string> settings;
  for (const auto& [key, per_second] : limits) {
    if (!per_second) continue;
    settings.push_back(fmt::format("{}={}/s", key, exact_bytes(static_cast<Bytes>(kFaster) * *per_second)));
  }
  return settings;
}

/// Faster links and drives: where the run file holds them up, by its keys.
void add_machines(Collector& changes, bool uses_drives) {
  const RunConfig& run = changes.run();
  if (run.device.kind == DeviceKind::cuda)
    changes.add(Change{.effect = ChangeEffect::machine, .link = kFaster});
  Change link = {.settings = raised({{"device.link.h2d", run.device.h2d_per_second},
                                     {"device.link.d2h", run.device.d2h_per_second}}),
                 .effect = ChangeEffect::machine};
  if (!link.settings.empty()) changes.add(std::move(link));
  if (!uses_drives) return;
  Change drive = {.settings = raised({{"memory.nvme.limit.read", run.memory.nvme_read_per_second},
                                      {"memory.nvme.limit.write", run.memory.nvme_write_per_second}}),
                  .effect = ChangeEffect::machine};
  if (drive.settings.empty()) drive.drive = kFaster;
  changes.add(std::move(drive));
}

}  // namespace

std::string_view name_of(ChangeEffect effect) {
  switch (effect) {
    case ChangeEffect::none:
      return "none";
    case ChangeEffect::rounding:
      return "rounding";
    case ChangeEffect::machine:
      return "machine";
    case ChangeEffect::learning:
      return "learning";
  }
  return "";
}

bool Change::is_part_of(const Change& other) const {
  return !settings.empty() && settings.size() < other.settings.size() &&
         std::ranges::all_of(settings, [&](const std::string& setting) {
           return std::ranges::count(other.settings, setting) > 0;
         });
}

std::string Change::kind() const {
  if (link != 1) return "link";
  if (drive != 1) return "drive";
  std::string keys;
  for (const std::string& setting : settings)
    keys += fmt::format("{}{}", keys.empty() ? "" : " ", setting.substr(0, setting.find('=')));
  return keys;
}

MachineRates Change::rates(MachineRates rates) const {
  rates.h2d_bytes_per_second *= link;
  rates.d2h_bytes_per_second *= link;
  rates.nvme_read_bytes_per_second *= drive;
  rates.nvme_write_bytes_per_second *= drive;
  return rates;
}

/// Updates under the backward pass, where a run can have them.
void add_clipping(Collector& changes) {
  const RunConfig& run = changes.run();
  RunConfig changed = run;
  changed.optimizer.clip_by = ClipBy::previous_step;
  if (run.waits_for_norm() && !changed.waits_for_norm() && !is_asynchronous(run.parallel.schedule))
    changes.add("optimizer.clip_by=previous_step", ChangeEffect::learning);
}

std::vector<Change> faster_changes(const std::vector<RunConfig>& configs, const ChangeFacts& facts) {
  Collector changes(configs);
  add_budgets(changes, facts);
  add_freedom(changes);
  const auto times = [&](std::string_view key, std::int64_t TrainSection::*value, int power,
                         ChangeEffect effect) {
    if (power == 1 || !facts.is_large) changes.add_times(key, value, power, effect);
  };
  for (const int power : {1, 2, -1})
    times("train.microbatch", &TrainSection::microbatch, power, ChangeEffect::rounding);
  for (const int power : {1, 2}) times("train.batch", &TrainSection::batch, power, ChangeEffect::learning);
  add_formats(changes);
  add_clipping(changes);
  add_ranks(changes);
  add_machines(changes, facts.uses_drives);
  return changes.take();
}

std::vector<Change> smaller_changes(const std::vector<RunConfig>& configs, const ChangeFacts& facts) {
  Collector changes(configs);
  add_budgets(changes, facts);
  const MemorySection& memory = changes.run().memory;
  if (!memory.host) changes.add("memory.host=unlimited");
  if (memory.host && memory.nvme_path.empty()) changes.add(fmt::format("memory.nvme.path={}", kSomeFolder));
  add_freedom(changes);
  for (const int power : {-1, -2, -3})
    changes.add_times("train.microbatch", &TrainSection::microbatch, power, ChangeEffect::rounding);
  changes.add_times("train.batch", &TrainSection::batch, -1, ChangeEffect::learning);
  add_formats(changes);
  add_smallest_state(changes);
  add_clipping(changes);
  add_ranks(changes);
  return changes.take();
}

}  // namespace strata
