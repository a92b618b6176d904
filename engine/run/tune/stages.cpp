#include "engine/run/tune/stages.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <limits>
#include <optional>
#include <string>

#include "base/error.h"
#include "base/nth.h"
#include "engine/config/choices.h"
#include "engine/config/run_config.h"
#include "engine/model/graph/segment.h"
#include "engine/model/model.h"
#include "engine/plan/lower/pipeline.h"

namespace strata {
namespace {

/// Sums over stretches of units.
template <typename T>
class Sums {
 public:
  explicit Sums(std::span<const T> values) : up_to_(values.size() + 1, T{0}) {
    for (std::size_t i = 0; i < values.size(); ++i) up_to_[i + 1] = up_to_[i] + values[i];
  }
  T of(std::size_t first, std::size_t end) const { return up_to_[end] - up_to_[first]; }

 private:
  std::vector<T> up_to_;
};

/// The cut into `chunks` stretches of `units` whose costliest is cheapest; a stretch without a cost may not
/// be.
template <typename Cost>
std::vector<std::int32_t> cheapest_cut(std::size_t units, std::size_t chunks, const Cost& cost) {
  constexpr double kNone = std::numeric_limits<double>::infinity();
  // [chunks - 1][units]: the cost of the costliest of `chunks` stretches of the first `units` units, and
  // where the last stretch begins.
  std::vector<std::vector<double>> best(chunks, std::vector<double>(units + 1, kNone));
  std::vector<std::vector<std::size_t>> begin(chunks, std::vector<std::size_t>(units + 1, 0));
  for (std::size_t end = 1; end <= units; ++end) best[0][end] = cost(0, end).value_or(kNone);
  for (std::size_t c = 1; c < chunks; ++c) {
    for (std::size_t end = c + 1; end <= units; ++end) {
      for (std::size_t first = c; first < end; ++first) {
        const double costliest = std::max(best[c - 1][first], cost(first, end).value_or(kNone));
        if (costliest >= best[c][end]) continue;
        best[c][end] = costliest;
        begin[c][end] = first;
      }
    }
  }
  std::vector<std::int32_t> first_units(chunks, 0);
  for (std::size_t c = chunks - 1, end = units; c > 0; --c) {
    end = begin[c][end];
    first_units[c] = static_cast<std::int32_t>(end);
  }
  return first_units;
}

std::string listed(const std::vector<std::string>& texts) {
  return fmt::format("[{}]", fmt::join(texts, ", "));
}

std::optional<std::int64_t> count_in(const std::string& text) {
  std::int64_t count = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), count);
  return error == std::errc() && end == text.data() + text.size() ? std::optional(count) : std::nullopt;
}

/// From counts of units, or from the names of first ones.
std::vector<std::int32_t> cut_as_listed(const std::vector<std::string>& stages, const Model& model,
                                        std::size_t chunks) {
  const auto refuse = [&](const std::string& why) {
    throw ConfigError(fmt::format("parallel.stages: {} {}", listed(stages), why));
  };
  const auto units = static_cast<std::int64_t>(model.units.size());
  if (stages.size() != chunks)
    refuse(fmt::format("has {} entries, and parallel.pipeline and parallel.chunks make {} stretches of units",
                       stages.size(), chunks));
  std::vector<std::int32_t> first_units;
  if (count_in(stages[0])) {
    std::int64_t next = 0;
    for (const std::string& text : stages) {
      const std::optional<std::int64_t> count = count_in(text);
      if (!count || *count < 1 || *count > units) refuse("must be counts of at least 1 unit, or names");
      first_units.push_back(static_cast<std::int32_t>(next));
      next += *count;
    }
    if (next != units) refuse(fmt::format("is {} units, and the model has {}", next, units));
    return first_units;
  }
  for (const std::string& name : stages) {
    const auto found = std::ranges::find(model.units, name, &Unit::name);
    if (found == model.units.end())
      refuse(fmt::format("names {}, and the model's units are {} to {} and {}", name, model.units[0].name,
                         model.units[model.units.size() - 2].name, model.units.back().name));
    const auto unit = static_cast<std::int32_t>(found - model.units.begin());
    if (first_units.empty() ? unit != 0 : unit <= first_units.back())
      refuse(fmt::format("must begin with {} and continue in the model's order", model.units[0].name));
    first_units.push_back(unit);
  }
  return first_units;
}

}  // namespace

std::vector<std::int32_t> balanced_cut(std::span<const double> work, std::span<const Bytes> bytes,
                                       std::size_t chunks) {
  const Sums<double> work_of(work);
  const Sums<Bytes> bytes_of(bytes);
  const auto by_work = [&](std::size_t first, std::size_t end) {
    return std::optional(work_of.of(first, end));
  };
  const std::vector<std::int32_t> fastest = cheapest_cut(work.size(), chunks, by_work);
  double slowest = 0;
  for (std::size_t c = 0; c < chunks; ++c) {
    const auto end = c + 1 < chunks ? static_cast<std::size_t>(fastest[c + 1]) : work.size();
    slowest = std::max(slowest, work_of.of(static_cast<std::size_t>(fastest[c]), end));
  }
  return cheapest_cut(work.size(), chunks, [&](std::size_t first, std::size_t end) {
    return work_of.of(first, end) <= slowest ? std::optional(static_cast<double>(bytes_of.of(first, end)))
                                             : std::nullopt;
  });
}

std::vector<std::int32_t> cut_into_stages(const RunConfig& config, const Model& model) {
  const ParallelSection& parallel = config.parallel;
  if (parallel.pipeline == 1) {
    if (!parallel.stages.empty())
      throw ConfigError(
          "parallel.stages: is of a pipeline; give parallel.pipeline, more than 1 stage, or leave it out");
    return {0};
  }
  const std::size_t units = model.units.size();
  const auto chunks = static_cast<std::size_t>(parallel.pipeline * parallel.chunks);
  if (chunks > units)
    throw ConfigError(fmt::format(
        "parallel.pipeline: {} stages of {} chunk{} need {} units, and the model has {} ({} to {}); at most "
        "parallel.pipeline {} would fit",
        parallel.pipeline, parallel.chunks, parallel.chunks == 1 ? "" : "s", chunks, units,
        model.units.front().name, model.units.back().name, std::ssize(model.units) / parallel.chunks));
  const PipelineShape shape = {parallel.schedule, static_cast<std::int32_t>(parallel.pipeline),
                               static_cast<std::int32_t>(parallel.chunks),
                               static_cast<std::int32_t>(config.microbatches())};
  if (const std::string problem = check_pipeline(shape); !problem.empty())
    throw ConfigError("parallel.schedule: " + problem);
  if (!parallel.stages.empty()) return cut_as_listed(parallel.stages, model, chunks);
  const GraphShape graph_shape = {.precision = config.precision(),
                                  .microbatch = {config.train.microbatch, config.data.sequence_length}};
  std::vector<double> work;
  std::vector<Bytes> bytes;
  for (const Unit& unit : model.units) {
    const UnitGraph& graph = model.graph_of(unit);
    work.push_back(forward_flops(graph, graph_shape) + backward_flops(graph, graph_shape));
    bytes.push_back(unit.elements + unit.frozen_elements);
  }
  return balanced_cut(work, bytes, chunks);
}

void check_asynchronous(const RunConfig& config, const Model& model, std::int32_t copied) {
  const std::string_view schedule = word_of(config.parallel.schedule);
  if (copied >= 0)
    throw ConfigError(fmt::format(
        "parallel.schedule: {} keeps versions of its weights on each stage, and {} shares those of {}, on "
        "another one; take a model with weights of its own there, or 1f1b",
        schedule, model.units.back().name, nth(model.units, copied).name));
  if (config.precision() == DType::fp16)
    throw ConfigError(fmt::format(
        "parallel.schedule: {} waits for no step, and the loss scale of fp16 for each one's gradients; take "
        "train.precision bf16 or fp32, or 1f1b",
        schedule));
  if (config.parallel.schedule != PipelineSchedule::pipedream) return;
  const bool guards = config.spike.factor > 0;
  if (guards || config.optimizer.clip_norm > 0)
    throw ConfigError(fmt::format(
        "parallel.schedule: pipedream updates each stage before others have their gradients, so there is no "
        "norm of all to {}; set {} to 0, or take pipedream_2bw",
        guards ? "tell spikes by" : "clip by", guards ? "train.spike.factor" : "optimizer.clip_norm"));
}

}  // namespace strata
