#include "engine/run/tune/layout_cost.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/nth.h"
#include "collectives/sent_bytes.h"
#include "engine/config/run_config.h"
#include "engine/model/compute.h"
#include "engine/model/run_model.h"
#include "engine/plan/bound/step_facts.h"
#include "engine/plan/cost/timeline.h"
#include "engine/run/tune/request_of_run.h"
#include "engine/run/tune/stages.h"

namespace strata {
namespace {

/// What a pass's exchanges take that are between ranks which share layers, or sequences.
double exchange_seconds(const UnitPass& pass, SharedBy shared, const Mesh& mesh, const RankLinks& links) {
  const std::vector<RankGroup> groups = groups_of(mesh);
  double seconds = 0;
  for (const PlacedExchange& exchange : pass.exchanges()) {
    if (exchange.shared != shared) continue;
    const RankGroup& group = nth(groups, shared == SharedBy::layer ? DataGroup::tensor : DataGroup::context);
    const Matrix& source = exchange.source.size;
    const Bytes bytes = source.elements() * size_of(element_type(source.dtype));
    Bytes sent = bytes;  // of a ring_shift
    if (exchange.kind == ExchangeKind::all_reduce)
      sent = sent_in_sum(source.elements(), size_of(element_type(source.dtype)), group.ranks);
    if (exchange.kind == ExchangeKind::all_gather) sent = sent_in_parts(bytes, group.ranks);
    if (exchange.kind == ExchangeKind::reduce_scatter) sent = sent_in_parts(bytes / group.ranks, group.ranks);
    seconds += exchange_seconds(links, group, {.group = 0, .sent = sent});
  }
  return seconds;
}

std::int64_t instructions_of(const UnitPass& pass) {
  return std::ssize(pass.segments()) + std::ssize(pass.exchanges());
}

/// Sums over the units of a stage.
struct StageCost {
  double passes = 0, again = 0, exchanges = 0, rings = 0;
  Bytes saved = 0, inputs = 0;
  std::int64_t elements = 0;  ///< of parameters
  std::int64_t trained = 0;   ///< of them, those that are updated
  std::int64_t summed = 0;    ///< of these, those whose gradients certainly go to other ranks whole
  std::int64_t units = 0;
};

/// What a chunk does for a microbatch.
struct ChunkCost {
  double passes = 0, forward = 0;
};

/// What other stages do for the first microbatch before it reaches the stage, and for the last one behind it:
/// by their first chunks. If backward passes are in two, what the last one leaves behind may run beside that,
/// and without a norm of all gradients even under the next step.
double fill_and_drain(const std::vector<ChunkCost>& chunks, std::size_t stage, const RunConfig& config) {
  const PipelineSchedule schedule = config.parallel.schedule;
  if (is_asynchronous(schedule)) return 0;
  const bool is_divided = schedule == PipelineSchedule::zero_bubble;
  if (is_divided && !config.waits_for_norm()) return 0;
  double seconds = 0;
  for (std::size_t before = 0; before < stage; ++before)
    seconds += is_divided ? chunks[before].forward : chunks[before].passes;
  return seconds;
}

/// Microbatches whose activations the first stage keeps at once.
double microbatches_kept(const RunConfig& config) {
  const auto all = static_cast<double>(config.microbatches());
  const auto stages = static_cast<double>(config.parallel.pipeline);
  const auto chunks = static_cast<double>(config.parallel.chunks);
  if (config.parallel.pipeline == 1) return 1;
  switch (config.parallel.schedule) {
    case PipelineSchedule::gpipe:
    case PipelineSchedule::breadth_first:
      return all;
    case PipelineSchedule::interleaved:
      return std::min(all, stages * (1 + (stages - 1) / (stages * chunks)));
    default:
      return std::min(all, stages);
  }
}

/// Bytes of each element of parameters, gradients and state on a rank: each where its ZeRO stage shares it
/// out.
struct StateBytes {
  double parameters = 0, gradients = 0, state = 0;
};

StateBytes state_bytes(const RunConfig& config, const Mesh& mesh) {
  const double shard = 1.0 / static_cast<double>(mesh.shard);
  const int zero = config.parallel.zero_stage;
  return {.parameters = static_cast<double>(size_of(config.precision())) * (zero >= 3 ? shard : 1),
          .gradients = 4 * (zero >= 2 ? shard : 1),
          .state = 12 * (zero >= 1 ? shard : 1)};
}

/// What an element of most parameters takes between ranks.
Bytes travelling_bytes(const RunConfig& config) {
  return config.memory.trained_as == ParameterFormat::fp8 ? 1 : size_of(config.precision());
}

}  // namespace

double LayoutCost::bound() const {
  return std::max({passes + bubble, exchanges, rings, state});
}

double LayoutCost::guess() const {
  const double sent = state + gathers;
  return std::max({passes + bubble + again + exchanges + sent / 2, rings, sent, moved});
}

LayoutCosts::ShareKey LayoutCosts::share_of(const RunConfig& config) {
  return {config.parallel.tensor, config.parallel.context, config.parallel.sequence};
}

const Model* LayoutCosts::model_of(const RunConfig& config) {
  const auto [found, is_new] = models_.try_emplace(share_of(config));
  if (is_new) {
    try {
      found->second = std::make_unique<Model>(model_of_rank(architecture_, config, 0));
    } catch (const ConfigError&) {  // heads that do not divide
    }
  }
  return found->second.get();
}

const std::vector<LayoutCosts::UnitCost>& LayoutCosts::units_of(const RunConfig& config, const Model& model) {
  const auto [found, is_new] =
      units_.try_emplace({share_of(config), config.parallel.pipeline, config.train.microbatch});
  if (!is_new) return found->second;
  const auto compute = unit_compute(model, config.precision(), microbatch_of_rank(config));
  const Mesh mesh = mesh_of(config.parallel, model);
  std::vector<std::optional<UnitCost>> of_kind(model.graphs.size());
  for (std::size_t u = 0; u < model.units.size(); ++u) {
    const Unit& unit = model.units[u];
    const bool is_last = u + 1 == model.units.size();
    std::optional<UnitCost>& kind = of_kind[unit.kind];
    if (!kind) {
      const UnitPasses& passes = compute->passes(unit);
      const UnitPasses::Level &all = passes.saving_all(), &nothing = passes.saving_nothing();
      kind = UnitCost{.passes = least_pass_seconds(passes, is_last, rates_),
                      .forward = is_last ? 0 : seconds_of_pass(nothing.forward, rates_),
                      .exchanges = exchange_seconds(all.forward, SharedBy::layer, mesh, links_) +
                                   exchange_seconds(all.backward, SharedBy::layer, mesh, links_),
                      .rings = exchange_seconds(all.forward, SharedBy::sequence, mesh, links_) +
                               exchange_seconds(all.backward, SharedBy::sequence, mesh, links_),
                      .saved = all.saved_bytes,
                      .input = compute->input_bytes(unit),
                      .instructions = instructions_of(all.forward) + instructions_of(all.backward)};
      kind->again = kind->forward + seconds_of_pass(nothing.backward, rates_) - kind->passes;
    }
    found->second.push_back(*kind);
  }
  return found->second;
}

const std::vector<std::int32_t>& LayoutCosts::cut_of(const RunConfig& config, const Model& model) {
  const std::int64_t chunks = config.parallel.pipeline * config.parallel.chunks;
  const auto [found, is_new] = cuts_.try_emplace({share_of(config), config.train.microbatch, chunks});
  if (is_new) {
    try {
      found->second = cut_into_stages(config, model);
    } catch (const ConfigError&) {
      // Too many chunks for its units. A schedule's own demands are met by the layouts that are tried.
    }
  }
  return found->second;
}

std::optional<LayoutCost> LayoutCosts::cost_of(const RunConfig& config) {
  const Model* const model = model_of(config);
  if (model == nullptr) return std::nullopt;
  const std::vector<std::int32_t>& cut = cut_of(config, *model);
  if (cut.empty()) return std::nullopt;
  const std::vector<UnitCost>& units = units_of(config, *model);
  const Mesh mesh = mesh_of(config.parallel, *model);
  LayoutCost cost;
  std::vector<ChunkCost> chunks(cut.size());
  auto stages = sized<std::vector<StageCost>>(config.parallel.pipeline);
  for (std::size_t u = 0, chunk = 0; u < units.size(); ++u) {
    while (chunk + 1 < cut.size() && cut[chunk + 1] <= static_cast<std::int32_t>(u)) ++chunk;
    chunks[chunk].passes += units[u].passes;
    chunks[chunk].forward += units[u].forward;
    StageCost& stage = stages[chunk % stages.size()];
    stage.passes += units[u].passes;
    stage.again += units[u].again;
    stage.exchanges += units[u].exchanges;
    stage.rings += units[u].rings;
    stage.saved += units[u].saved;
    stage.inputs += units[u].input;
    const Unit& unit = model->units[u];
    stage.elements += unit.elements + unit.frozen_elements;
    stage.trained += unit.elements;
    if (unit.sparse_row == 0) stage.summed += unit.elements;
    cost.instructions += units[u].instructions;
    ++stage.units;
  }
  const std::vector<RankGroup> groups = groups_of(mesh);
  const auto microbatches = static_cast<double>(config.microbatches());
  const StateBytes bytes = state_bytes(config, mesh);
  const Bytes reduced = config.parallel.reduce_dtype == ReduceDtype::bf16 ? 2 : 4;
  double longest = 0;
  for (std::size_t s = 0; s < stages.size(); ++s) {
    const StageCost& stage = stages[s];
    const double passes = microbatches * stage.passes, bubble = fill_and_drain(chunks, s, config);
    if (passes + bubble > longest) {
      longest = passes + bubble;
      cost.passes = passes;
      cost.bubble = bubble;
    }
    cost.exchanges = std::max(cost.exchanges, microbatches * stage.exchanges);
    cost.rings = std::max(cost.rings, microbatches * stage.rings);
    const auto collective = [&](DataGroup group, Bytes sent) {
      const Exchange exchange = {.group = static_cast<std::int32_t>(group), .sent = sent / stage.units};
      return static_cast<double>(stage.units) * exchange_seconds(links_, nth(groups, group), exchange);
    };
    const auto gathered = [&](std::int64_t elements) {
      const Bytes bytes = mesh.shard_elements(elements) * travelling_bytes(config);
      return collective(DataGroup::shard, sent_in_parts(bytes, mesh.shard));
    };
    const std::int64_t shard = mesh.shard_elements(stage.summed);
    double state = 0, gather = 0;
    if (mesh.shard > 1) {
      gather = gathered(stage.elements);
      state +=
          collective(DataGroup::shard, sent_in_parts(shard * reduced, mesh.shard)) + gathered(stage.trained);
    }
    if (mesh.replicate > 1)
      state += collective(DataGroup::replicate, sent_in_sum(shard, reduced, mesh.replicate));
    cost.state = std::max(cost.state, state);
    const auto elements = static_cast<double>(stage.elements);
    const double kept = s == 0 ? microbatches_kept(config) : 1;
    const double resident = elements * (bytes.parameters + bytes.gradients + bytes.state) +
                            kept * static_cast<double>(stage.inputs);
    const double saved = kept * static_cast<double>(stage.saved);
    if (config.memory.device == kUnlimited) continue;
    const auto room = static_cast<double>(config.memory.device);
    const double whole = elements * static_cast<double>(size_of(config.precision()));
    if (config.parallel.zero_stage == 3 && resident + saved + whole > room) {
      // For the forward pass and the backward pass; of a pipeline for each microbatch.
      const double times = config.parallel.pipeline > 1 ? 2 * microbatches : 2;
      cost.gathers = std::max(cost.gathers, (times - 1) * gather);
    }
    const double missing = std::clamp(resident + saved - room, 0.0, saved);
    if (saved > 0) cost.again = std::max(cost.again, microbatches * stage.again * missing / saved);
    // What has no room is mostly state, whose parameters come and whose gradients go.
    const double away = std::max(0.0, resident - room);
    cost.moved = std::max(cost.moved, away / 4 / rates_.d2h_bytes_per_second);
  }
  return cost;
}

}  // namespace strata
