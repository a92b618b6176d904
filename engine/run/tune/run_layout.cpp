#include "engine/run/tune/run_layout.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>

#include "engine/config/choices.h"
#include "engine/config/describe.h"
#include "engine/config/keys.h"
#include "engine/config/load.h"
#include "engine/config/run_config.h"
#include "engine/config/searched_keys.h"

namespace strata {
namespace {

constexpr std::int64_t kLeastTokens = 4096;  // of a sequence, on each of the ranks that share it
constexpr std::int64_t kMostChunks = 8;      // of a stage

std::vector<std::int64_t> divisors(std::int64_t number) {
  std::vector<std::int64_t> result;
  for (std::int64_t divisor = 1; divisor <= number; ++divisor)
    if (number % divisor == 0) result.push_back(divisor);
  return result;
}

/// The values of a key that are tried: what the run file says, or those given.
class Choices {
 public:
  explicit Choices(const RunConfig& open) : open_(open) {}

  bool is_open(std::string_view key) const {
    return std::ranges::find(open_.plan.open, key) != open_.plan.open.end();
  }
  template <typename T>
  std::vector<T> of(std::string_view key, const T& given, std::vector<T> all) const {
    return is_open(key) ? std::move(all) : std::vector<T>{given};
  }

 private:
  const RunConfig& open_;
};

class Enumeration {
 public:
  Enumeration(const RunConfig& open, std::int64_t ranks, std::int64_t node_ranks)
      : open_(open), choices_(open), ranks_(ranks), node_ranks_(node_ranks == 0 ? ranks : node_ranks) {}

  std::vector<RunLayout> take() {
    const ParallelSection& given = open_.parallel;
    RunLayout layout = {.parallel = given};
    for (const std::int64_t context : choices_.of("parallel.context", given.context, divisors(ranks_))) {
      const bool is_short = open_.data.sequence_length / context < kLeastTokens;
      if (context > 1 && is_short && choices_.is_open("parallel.context")) continue;
      if (ranks_ % context != 0) continue;
      layout.parallel.context = context;
      const std::int64_t others = ranks_ / context;
      for (const std::int64_t tensor : choices_.of("parallel.tensor", given.tensor, divisors(others))) {
        if (others % tensor != 0) continue;
        layout.parallel.tensor = tensor;
        for (const std::int64_t pipeline :
             choices_.of("parallel.pipeline", given.pipeline, divisors(others / tensor))) {
          if (others / tensor % pipeline != 0) continue;
          layout.parallel.pipeline = pipeline;
          layout.parallel.data = others / tensor / pipeline;
          if (choices_.is_open("parallel.data") || layout.parallel.data == given.data) add_holders(layout);
        }
      }
    }
    return std::move(layouts_);
  }

 private:
  /// Who holds which state.
  void add_holders(RunLayout layout) {
    const ParallelSection& given = open_.parallel;
    const std::int64_t holders = layout.parallel.data * layout.parallel.context;
    std::set<std::int64_t> replicas = {1};
    // Shards within a node: each node has all of them.
    const std::int64_t in_node = node_ranks_ / (layout.parallel.tensor * layout.parallel.pipeline);
    if (in_node > 1 && in_node < holders && holders % in_node == 0) replicas.insert(holders / in_node);
    layout.parallel.shard.reset();
    for (const int zero : choices_.of("parallel.zero_stage", given.zero_stage,
                                      holders == 1 ? std::vector{3} : std::vector{1, 2, 3})) {
      layout.parallel.zero_stage = zero;
      const bool is_free = choices_.is_open("parallel.replicate") && choices_.is_open("parallel.shard");
      const std::int64_t by_shard = given.shard ? holders / *given.shard : given.replicate;
      for (const std::int64_t replicate :
           is_free ? std::vector(replicas.begin(), replicas.end()) : std::vector{by_shard}) {
        layout.parallel.replicate = replicate;
        add_microbatches(layout);
      }
    }
  }

  void add_microbatches(RunLayout layout) {
    if (open_.train.batch % layout.parallel.data != 0) return;
    const std::int64_t samples = open_.train.batch / layout.parallel.data;
    for (const std::int64_t microbatch :
         choices_.of("train.microbatch", open_.train.microbatch, divisors(samples))) {
      if (samples % microbatch != 0) continue;
      layout.microbatch = microbatch;
      add_schedules(layout, samples / microbatch);
    }
  }

  void add_schedules(RunLayout layout, std::int64_t microbatches) {
    const ParallelSection& given = open_.parallel;
    const std::int64_t pipeline = layout.parallel.pipeline;
    std::vector<PipelineSchedule> schedules = {PipelineSchedule::one_f_one_b};
    if (pipeline > 1) {
      schedules.push_back(PipelineSchedule::zero_bubble);
      if (microbatches % pipeline == 0) schedules.push_back(PipelineSchedule::interleaved);
    }
    for (const PipelineSchedule schedule :
         choices_.of("parallel.schedule", given.schedule, std::move(schedules))) {
      layout.parallel.schedule = schedule;
      const bool has_chunks =
          schedule == PipelineSchedule::interleaved || schedule == PipelineSchedule::breadth_first;
      std::vector<std::int64_t> chunks = {1};
      if (has_chunks) chunks = {2, 3, 4, 5, 6, kMostChunks};
      for (const std::int64_t count : choices_.of("parallel.chunks", given.chunks, std::move(chunks))) {
        layout.parallel.chunks = count;
        add_sequences(layout);
      }
    }
  }

  /// Sequence parallelism saves memory wherever it is possible.
  void add_sequences(RunLayout layout) {
    const ParallelSection& given = open_.parallel;
    const bool is_shared = layout.parallel.tensor > 1;
    for (const bool sequence : choices_.of("parallel.sequence", given.sequence, {is_shared, false})) {
      layout.parallel.sequence = sequence;
      if (!is_allowed(layout)) continue;
      layouts_.push_back(layout);
      return;
    }
  }

  bool is_allowed(const RunLayout& layout) const {
    const RunConfig config = with_layout(open_, layout);
    return std::ranges::all_of(config_keys(), [&](const Key& key) { return key.check(config).empty(); });
  }

  const RunConfig& open_;
  Choices choices_;
  std::int64_t ranks_, node_ranks_;
  std::vector<RunLayout> layouts_;
};

}  // namespace

std::vector<std::string> settings_of(const RunLayout& layout, const RunConfig& open) {
  const RunConfig config = with_layout(open, layout);
  std::vector<std::string> settings;
  for (const std::string& path : open.plan.open) {
    const std::string value = find_path(config_keys(), path)->get(config);
    if (!value.empty()) settings.push_back(fmt::format("{}={}", path, value));
  }
  return settings;
}

std::string describe(const RunLayout& layout) {
  const ParallelSection& parallel = layout.parallel;
  std::string text;
  const auto add = [&](std::string_view name, std::int64_t ranks) {
    if (ranks > 1) text += fmt::format("{}{} {}", text.empty() ? "" : " x ", name, ranks);
  };
  add("tensor", parallel.tensor);
  add("context", parallel.context);
  add("pipeline", parallel.pipeline);
  if (parallel.pipeline > 1) {
    text += fmt::format(" ({}{})", word_of(parallel.schedule),
                        parallel.chunks > 1 ? fmt::format(", {} chunks", parallel.chunks) : "");
  }
  add("data", parallel.data);
  if (parallel.data * parallel.context > 1) {
    text += fmt::format(", zero {}", parallel.zero_stage);
    if (parallel.replicate > 1) text += fmt::format(" in {} replicas", parallel.replicate);
  }
  return fmt::format("{}{}microbatch {}", text, text.empty() ? "" : ", ", layout.microbatch);
}

RunConfig with_layout(RunConfig open, const RunLayout& layout) {
  open.parallel = layout.parallel;
  open.train.microbatch = layout.microbatch;
  open.plan.search = PlanSearch::none;
  open.plan.open.clear();
  return open;
}

RunConfig with_settings(const RunConfig& open, const std::vector<std::string>& settings) {
  std::vector<std::string> all = settings;
  all.emplace_back("plan.search=none");
  return parse_run_config(dump(open), "the run file", all);
}

std::vector<RunLayout> layouts_of(const RunConfig& open, std::int64_t ranks, std::int64_t node_ranks) {
  return Enumeration(open, ranks, node_ranks).take();
}

}  // namespace strata
