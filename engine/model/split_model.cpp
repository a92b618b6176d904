#include "engine/model/split_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "engine/model/build_model.h"
#include "engine/model/factors.h"
#include "engine/model/model.h"
#include "engine/model/sampling_model.h"

namespace strata {
namespace {

/// The model with one head of keys for each rank: neighbouring ranks have copies of one head.
Model with_copied_keys(const Model& whole, std::int64_t ranks) {
  Architecture architecture = whole.architecture;
  if (ranks % architecture.kv_heads != 0 || architecture.heads % ranks != 0)
    throw ConfigError(fmt::format(
        "{} heads with {} of keys do not divide among {} ranks; take a divisor of {}, or a "
        "multiple of it that divides {}",
        architecture.heads, architecture.kv_heads, ranks, architecture.kv_heads, architecture.heads));
  architecture.kv_heads = ranks;
  Model model = build_model(
      architecture,
      {.rounding = whole.rounding, .adapter = whole.adapter, .form = whole.form, .freeze = whole.freeze});
  if (whole.is_sampled) model = sampling_model(std::move(model), whole.table_positions);
  model.max_chunk_bytes = whole.max_chunk_bytes;
  model.key_copies = ranks / whole.architecture.kv_heads;
  return model;
}

/// Makes a rank's part of a tensor with copied heads of keys its part of the whole one.
void take_copy(TensorSpec& own, const TensorSpec& whole, const AxisSplit& split, std::int64_t copies) {
  Stretch& heads = own.hf_shape.size() == 1 ? own.columns.front() : own.rows.front();
  if (own.hf_shape.front() != copies * whole.hf_shape.front())
    throw ConfigError(
        fmt::format("{} has queries and keys in one, so {} ranks cannot have copies of its keys", own.hf_name,
                    split.ranks));
  heads.first = split.rank / copies * heads.count;
  own.hf_shape = whole.hf_shape;
  own.is_copy = split.rank % copies != 0;
  own.summed_ranks = copies;
}

void take_copies(Unit& own, const Unit& whole, const AxisSplit& split, std::int64_t copies) {
  own.parameters = whole.parameters;
  for (TensorSpec& spec : own.tensors) {
    const TensorSpec& tensor = *std::ranges::find(whole.tensors, spec.hf_name, &TensorSpec::hf_name);
    spec.policy = tensor.policy;
    spec.whole_offset = tensor.offset;
    if (spec.hf_shape != tensor.hf_shape) take_copy(spec, tensor, split, copies);
  }
}

}  // namespace

AxisSplit tensor_split(std::int64_t ranks, std::int64_t rank, bool sequence) {
  AxisSplit split{{"kv_heads", "intermediate", "vocabulary"}, ranks, rank, {"vocabulary"}};
  if (sequence) split.axes.push_back(kTokens);
  return split;
}

Model split_model(const Model& whole, const AxisSplit& split) {
  if (split.ranks == 1) return whole;
  const bool copies_keys = split.ranks > whole.architecture.kv_heads;
  Model part = copies_keys ? with_copied_keys(whole, split.ranks) : whole;
  std::vector<DerivedGraph> passes;
  for (const UnitGraph& graph : part.graphs) passes.push_back(derive_shared(graph, split));
  for (std::size_t u = 0; u < part.units.size(); ++u) {
    SplitUnit of_rank = split_unit(part.units[u], passes[part.units[u].kind], split);
    part.passes[part.units[u].kind] = std::move(of_rank.graph);
    part.units[u] = std::move(of_rank.unit);
    if (copies_keys) take_copies(part.units[u], whole.units[u], split, part.key_copies);
  }
  part.architecture = whole.architecture;
  part.policies = whole.policies;
  part.averages = whole.averages;
  for (Unit& unit : part.units) {
    find_factors(unit, part.policies);
    for (TensorSpec& factor : unit.factors) factor.is_copy = split.rank > 0;
  }
  part.graphs = whole.graphs;
  if (part.is_sampled) keep_forward_passes(part);
  if (whole.sampling) {
    Model sampling = split_model(*whole.sampling, split);
    sampling.units = part.units;
    part.sampling = std::make_shared<const Model>(std::move(sampling));
  }
  return part;
}

}  // namespace strata
