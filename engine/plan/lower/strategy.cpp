#include "engine/plan/lower/strategy.h"

#include <algorithm>
#include <numeric>

#include "collectives/sent_bytes.h"
#include "engine/graph/data_array.h"
#include "engine/plan/lower/stages.h"

namespace strata {

std::vector<RankGroup> groups_of(const Mesh& mesh) {
  if (mesh.ranks() == 1) return {};
  const auto group = [&](const char* name, std::int64_t ranks, std::int64_t stride) {
    return RankGroup{.name = name, .sets = mesh.ranks() / ranks, .ranks = ranks, .stride = stride};
  };
  const std::int64_t neighbour = mesh.holder_stride();
  std::vector<RankGroup> groups = {group("shard", mesh.shard, neighbour),
                                   group("replicate", mesh.replicate, mesh.shard * neighbour),
                                   group("world", mesh.ranks(), 1)};
  const bool shares_sequences = mesh.context > 1, shares_passes = mesh.tensor > 1 || shares_sequences;
  const bool shares_keys = mesh.key_copies > 1 && mesh.key_copies < mesh.tensor;
  if (mesh.pipeline > 1 || shares_passes) groups.push_back(group("pipeline", mesh.pipeline, mesh.tensor));
  if (shares_passes) groups.push_back(group("tensor", mesh.tensor, 1));
  if (shares_keys || shares_sequences) groups.push_back(group("keys", mesh.key_copies, 1));
  if (shares_sequences) groups.push_back(group("context", mesh.context, neighbour));
  return groups;
}

FlatRange shard_of(const Unit& unit, const Mesh& mesh, std::int64_t shard_rank, Flat flat) {
  const std::int64_t all = unit.elements_of(flat), elements = mesh.shard_elements(all);
  const std::int64_t first = std::min(shard_rank * elements, all);
  return {first, std::min(elements, all - first), flat};
}

std::vector<Piece> state_pieces(std::int64_t elements, const Strategy& strategy) {
  if (strategy.piece_bytes == kUnlimited) return {{}};
  const std::int64_t most = strategy.piece_bytes / size_of(DType::fp32);
  if (elements <= most) return {{}};
  const std::int64_t count = (elements + most - 1) / most;
  // Whole pages of the narrowest part, so that a part takes no more memory in pieces than in one.
  constexpr std::int64_t kPage = kBufferAlignment / 2;
  const std::int64_t size =
      align_up((elements + count - 1) / count, most % kPage == 0 ? kPage : Mesh::kShardAlignment);
  std::vector<Piece> pieces;
  for (std::int64_t first = 0; first < elements; first += size)
    pieces.push_back({first, std::min(size, elements - first)});
  return pieces;
}

std::int64_t sent_rows(const Model& model, const Strategy& strategy, std::size_t u) {
  const Unit& unit = model.units[u];
  const std::int64_t ranks = strategy.mesh.reducing();
  const bool is_shared = std::ranges::any_of(
      model.units, [&](const Unit& other) { return other.shares == static_cast<std::int32_t>(u); });
  if (!strategy.sparse_gradients || unit.sparse_row == 0 || is_shared || ranks == 1) return 0;
  const Extent numbers = data_of(model.graphs)[unit.row_numbers].elements;
  const std::int64_t rows = strategy.microbatches * numbers.in(strategy.microbatch);
  const Bytes element = size_of(strategy.reduce_dtype);
  const Bytes row = unit.sparse_row * element + Bytes{sizeof(std::int32_t)};
  const std::int64_t shard = strategy.mesh.shard_elements(unit.elements);
  const Bytes sparse = sent_in_parts(rows * row, ranks);
  const Bytes dense =
      strategy.mesh.shard > 1 ? sent_in_parts(shard * element, ranks) : sent_in_sum(shard, element, ranks);
  // All ranks' rows lie beside the gradient that they are summed into. In the backward pass of a last unit
  // with weights of its own the parameter lies there. If the rows are no larger, no budget has to be larger.
  const bool have_room =
      strategy.mesh.shard > 1 || ranks * rows * row <= unit.elements * size_of(strategy.precision);
  return sparse < dense && have_room ? rows : 0;
}

Packing packing_of(const Model& model, const Strategy& strategy, std::size_t unit, Flat flat) {
  const bool is_trained = flat == Flat::trained;
  const bool stays = is_trained && !strategy.is_sharded() && strategy.state[unit] == Tier::device;
  if (!strategy.packed.has(flat) || stays) return {};
  const Unit& packed = model.units[unit];
  const std::int64_t elements = packed.elements_of(flat);
  // Every rank has all of what is frozen, unless ranks gather it.
  const PackingFormat format = {strategy.packed.format_of(flat), strategy.precision};
  if (!is_trained && !strategy.gathers()) return packing_of(model, packed, flat, format, elements, 1);
  return packing_of(model, packed, flat, format, strategy.mesh.shard_elements(elements), strategy.mesh.shard);
}

MicrobatchShape microbatch_of_rank(const RunConfig& config) {
  return {config.train.microbatch, config.data.sequence_length / config.parallel.context};
}

SampleShape samples_of(const RunConfig& config) {
  const RunConfig::ParallelSection& parallel = config.parallel;
  const auto prompts = std::ssize(config.samples.prompts);
  // Ranks of a layer may share out a microbatch's tokens.
  const std::int64_t parts = parallel.sequence ? parallel.tensor : 1;
  const auto up_to_multiple = [](std::int64_t value, std::int64_t of) { return (value + of - 1) / of * of; };
  std::int64_t length = config.data.sequence_length / parallel.context;
  if (parallel.context == 1) length = std::min(length, up_to_multiple(config.samples.max_length, parts));
  const std::int64_t of_rank = (prompts + parallel.data - 1) / parallel.data;
  return {.prompts = prompts,
          .longest = std::min(config.samples.max_length, config.data.sequence_length),
          .of_rank = {up_to_multiple(of_rank, parts / std::gcd(parts, length)), length}};
}

Mesh mesh_of(const RunConfig::ParallelSection& parallel, const Model& model) {
  const bool shares_out = parallel.zero_stage > 0;
  const std::int64_t holders = parallel.data * parallel.context;
  return {.replicate = shares_out ? parallel.replicate : holders,
          .shard = shares_out ? holders / parallel.replicate : 1,
          .pipeline = parallel.pipeline,
          .tensor = parallel.tensor,
          .key_copies = model.key_copies,
          .context = parallel.context};
}

Strategy make_strategy(const RunConfig& config, const Model& model, std::int32_t stage) {
  Strategy strategy;
  strategy.mesh = mesh_of(config.parallel, model);
  strategy.pipeline = {config.parallel.schedule, cut_into_stages(config, model), stage};
  strategy.divides_backward =
      config.parallel.pipeline > 1 && config.parallel.schedule == PipelineSchedule::zero_bubble;
  for (std::size_t u = 0; u < model.units.size(); ++u) {
    const std::int32_t shared = model.units[u].shares, own = strategy.stage_of(static_cast<std::int32_t>(u));
    if (shared >= 0 && strategy.stage_of(shared) != own) strategy.pipeline.copy = {shared, own};
  }
  if (strategy.is_asynchronous()) check_asynchronous(config, model, strategy.pipeline.copy.unit);
  strategy.zero_stage = config.parallel.zero_stage;
  strategy.reduce_dtype = config.parallel.reduce_dtype == ReduceDtype::bf16 ? DType::bf16 : DType::fp32;
  // Rows are listed for a whole step, whose data are there only one microbatch after another.
  strategy.sparse_gradients = config.parallel.sparse_gradients && !strategy.is_asynchronous();
  strategy.order = config.plan.order.value_or(Order::layer_major);
  strategy.precision = config.precision();
  strategy.rounding = model.rounding;
  strategy.state_format = {
      .split_master = config.optimizer.master == MasterFormat::split,
      .moments = config.optimizer.moments == MomentFormat::bf16 ? DType::bf16 : DType::fp32,
      .kept = moments_of(model.rule())};
  strategy.packed = {.trained = config.memory.trained_as, .frozen = config.memory.frozen_as};
  strategy.microbatch = microbatch_of_rank(config);
  strategy.microbatches = config.microbatches();
  strategy.validation_microbatches = config.train.validate_every > 0 ? config.train.validation_batches : 0;
  strategy.samples = samples_of(config);
  strategy.saves = !config.checkpoint.path.empty() && config.checkpoint.every > 0;
  strategy.names_frozen = model.adapts();
  strategy.global_norm = config.optimizer.clip_norm > 0 || config.precision() == DType::fp16;
  strategy.saved_level.assign(model.units.size(), config.train.recompute == Recompute::none ? kAllSaved : 0);
  const auto pinned = [](TierChoice choice) { return choice == TierChoice::device; };
  strategy.pins = {pinned(config.memory.parameters), pinned(config.memory.gradients),
                   pinned(config.memory.activations)};
  strategy.state.assign(model.units.size(), Tier::host);
  if (!config.memory.nvme_path.empty()) strategy.piece_bytes = config.memory.nvme_piece;
  return strategy;
}

}  // namespace strata
