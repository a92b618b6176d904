#include "engine/plan/lower/step_values.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>

#include "engine/model/graph/data_array.h"
#include "engine/model/kept_state.h"
#include "engine/model/model.h"
#include "engine/model/updated_matrices.h"
#include "optim/counters.h"
#include "optim/loss_scale.h"
#include "optim/step_scalars.h"

namespace strata {
namespace {

/// Elements that the program has room for of a moment of `piece`: as many as the rank with most of them has.
std::int64_t most_kept(const Unit& unit, Stretch kept, const Piece& piece, std::int64_t count,
                       const Mesh& mesh) {
  if (kept == Stretch{0, unit.elements}) return count;
  std::int64_t most = 0;
  for (std::int64_t rank = 0; rank < mesh.shard; ++rank) {
    const std::int64_t begin = shard_of(unit, mesh, rank).first + piece.first;
    most = std::max(most, std::min(begin + count, kept.first + kept.count) - std::max(begin, kept.first));
  }
  return most;
}

std::vector<StatePiece> state_of(const Model& model, const Unit& unit, Tier tier, const Strategy& strategy) {
  const StateFormat& format = strategy.state_format;
  const std::int64_t shard = strategy.mesh.shard_elements(unit.elements);
  const bool is_split = format.master == MasterFormat::split;
  std::vector<StatePiece> state;
  if (shard == 0) return state;
  for (const Piece& piece : tier == Tier::device ? std::vector<Piece>{{}} : state_pieces(shard, strategy)) {
    const std::string number = piece.is_all() ? "" : fmt::format("[piece={}]", state.size());
    const std::int64_t count = piece.is_all() ? shard : piece.count;
    const auto value = [&](std::string_view what, ElementType type, std::int64_t elements) {
      return make_value(fmt::format("{}/{}{}", unit.name, what, number), BufferKind::optimizer_state, type,
                        elements);
    };
    StatePiece& made = state.emplace_back(
        StatePiece{.piece = piece,
                   .master = value("master", is_split ? ElementType::low_half : ElementType::fp32,
                                   strategy.is_own_master() ? 0 : count),
                   .moments = {}});
    format.kept.for_each([&](Moment moment) {
      const std::int64_t kept =
          most_kept(unit, kept_stretch(model, unit, key_of(moment)), piece, count, strategy.mesh);
      if (kept == 0) return;
      const ElementType type = element_type(format.format_of(moment));
      const Bytes bytes = format.moment_bytes(moment, kept);
      made.moments.push_back({moment, value(name_of(moment), type, bytes / size_of(type))});
    });
  }
  return state;
}

/// How many copies of a unit's parameters are kept apart from those that updates write. Either all passes of
/// a step use parameters that are one step old, or a microbatch's backward pass uses those of its forward
/// pass.
std::int64_t stashes_of(const Unit& unit, const Strategy& strategy) {
  return unit.elements == 0 || strategy.updates_behind() == 0 ? 0 : strategy.updates();
}

/// The values of `unit`'s flat parameter, with `whole` elements as passes read them.
ParameterValues parameter_values(const Unit& unit, const char* name, std::int64_t whole, std::int64_t shard,
                                 const Packing& packing, const Strategy& strategy) {
  const auto named = [&](const char* prefix, const char* suffix, ElementType type, std::int64_t elements) {
    return make_value(fmt::format("{}/{}{}{}", unit.name, prefix, name, suffix), BufferKind::parameter, type,
                      elements);
  };
  const ElementType precision = element_type(strategy.precision);
  return {.whole = named("", "", precision, whole),
          .shard = named("", "_shard", precision, shard),
          .packed = named("packed_", "", ElementType::packed, packing.bytes()),
          .packed_shard = named("packed_", "_shard", ElementType::packed, packing.part_bytes)};
}

/// `rows` of its gradient are sent; `scalar_bytes` of its own are what its update needs of a step.
UnitValues values_of(const Model& model, std::size_t number, std::int64_t rows, std::int64_t scalar_bytes,
                     const Strategy& strategy, const UnitCompute& compute, std::int64_t microbatches) {
  const Unit& unit = model.units[number];
  const auto named = [&](const char* what, BufferKind kind, ElementType type, std::int64_t elements) {
    return make_value(fmt::format("{}/{}", unit.name, what), kind, type, elements);
  };
  const ElementType precision = element_type(strategy.precision),
                    reduced = element_type(strategy.reduce_dtype);
  const std::int64_t whole = strategy.mesh.gathered_elements(unit.elements);
  const std::int64_t shard = strategy.mesh.shard_elements(unit.elements);
  const std::int64_t cast = strategy.reduce_dtype == DType::fp32 ? shard : whole;

  const std::vector<UnitPasses::Level>& levels = compute.passes(unit).levels;
  const std::size_t level = std::min(strategy.saved_level[number], levels.size() - 1);
  UnitValues values;
  values.parameter = parameter_values(unit, "parameter", whole, shard,
                                      packing_of(model, strategy, number, Flat::trained), strategy);
  const std::int64_t frozen = unit.frozen_elements;
  values.frozen = parameter_values(
      unit, "frozen", strategy.gathers() ? strategy.mesh.gathered_elements(frozen) : frozen,
      strategy.mesh.shard_elements(frozen), packing_of(model, strategy, number, Flat::frozen), strategy);
  values.gradient = named("gradient", BufferKind::gradient, ElementType::fp32, whole);
  values.reduced_gradient = named("reduced_gradient", BufferKind::gradient, reduced, shard);
  values.cast_gradient = named("cast_gradient", BufferKind::gradient, precision, cast);
  values.state = state_of(model, unit, strategy.state[number], strategy);
  values.factors = named("factors", BufferKind::optimizer_state, ElementType::fp32, unit.factor_elements);
  Bytes workspace = 0;
  for (const UpdatedMatrix& matrix : updated_matrices(model, unit))
    workspace = std::max(workspace, workspace_bytes(matrix, strategy.precision));
  values.direction_workspace =
      named("direction_workspace", BufferKind::workspace, ElementType::byte, workspace);
  values.direction_workspace.scratch = true;
  values.directions = named("directions", BufferKind::gradient, precision,
                            workspace > 0 && strategy.is_sharded() ? whole : 0);
  values.all_directions = named("all_directions", BufferKind::gradient, precision,
                                workspace > 0 && strategy.mesh.tensor > 1 ? strategy.mesh.tensor * whole : 0);
  values.gradient.pinned = strategy.pins.gradients;
  for (std::int64_t update = 0; update < strategy.updates(); ++update) {
    const std::string number = strategy.updates() == 1 ? "" : fmt::format("[mb={}]", update);
    values.norms.push_back(make_value(fmt::format("{}/norm{}", unit.name, number), BufferKind::communication,
                                      ElementType::fp64, 1));
  }
  for (std::int64_t stash = 0; stash < stashes_of(unit, strategy); ++stash) {
    const std::string suffix = strategy.updates() == 1 ? "" : fmt::format("[mb={}]", stash);
    const auto stashed = [&](const char* what, std::int64_t elements) {
      Value value = make_value(fmt::format("{}/{}{}", unit.name, what, suffix), BufferKind::parameter,
                               precision, elements);
      value.pinned = strategy.pins.parameters;
      return value;
    };
    values.stashes.push_back({.whole = stashed("stashed_parameter", whole),
                              .shard = stashed("stashed_parameter_shard", shard),
                              .packed = {},
                              .packed_shard = {}});
  }
  values.step_scalars = named("step_scalars", BufferKind::communication, ElementType::byte, scalar_bytes);
  for (std::int64_t mb = 0; mb < microbatches; ++mb) {
    const auto of_microbatch = [&](const char* what, Bytes bytes) {
      Value value = make_value(fmt::format("{}/{}[mb={}]", unit.name, what, mb), BufferKind::activation,
                               ElementType::byte, bytes);
      value.pinned = strategy.pins.activations;
      return value;
    };
    values.input.push_back(of_microbatch("input", compute.input_bytes(unit)));
    values.input_gradient.push_back(of_microbatch("input_gradient", compute.input_bytes(unit)));
    values.saved.push_back(of_microbatch("saved", levels[level].saved_bytes));
    values.pending.push_back(of_microbatch("pending", levels[level].pending_bytes));
  }
  const std::int64_t ranks = strategy.mesh.reducing(), in_rows = rows * unit.sparse_row;
  values.rows = named("rows", BufferKind::communication, ElementType::int32, rows);
  values.row_values = named("row_values", BufferKind::communication, reduced, in_rows);
  values.all_rows = named("all_rows", BufferKind::communication, ElementType::int32, ranks * rows);
  values.all_row_values = named("all_row_values", BufferKind::communication, reduced, ranks * in_rows);
  return values;
}

/// What a stage has of the units of others: the input of one behind its own, to be sent, and a copy of
/// parameters that a unit of its own uses.
UnitValues values_of_other_stage(UnitValues values, bool is_behind, bool is_copied,
                                 const Strategy& strategy) {
  UnitValues kept;
  if (is_behind) {
    kept.input = std::move(values.input);
    kept.input_gradient = std::move(values.input_gradient);
  }
  if (is_copied) {
    kept.parameter = std::move(values.parameter);
    kept.frozen = std::move(values.frozen);
    if (!strategy.gathers()) {
      kept.parameter.shard.elements = 0;
      kept.frozen.shard.elements = 0;
    }
    kept.gradient = std::move(values.gradient);
  }
  return kept;
}

/// That the rank has.
std::int64_t columns_of_logits(const Model& model) {
  const UnitGraph& head = model.passes[model.head().kind].forward;
  return std::ranges::find(head.tensors, Region::logits, &Tensor::region)->columns.extent().count;
}

/// Whether a pass of a unit of the strategy's stage touches the region.
bool is_touched(Region region, const Model& model, const Strategy& strategy, const UnitCompute& compute) {
  for (std::size_t u = 0; u < model.units.size(); ++u) {
    const UnitPasses::Level& passes = compute.passes(model.units[u]).saving_nothing();
    if (strategy.has(static_cast<std::int32_t>(u)) &&
        (passes.forward.touches(region) || passes.backward.touches(region)))
      return true;
  }
  return false;
}

}  // namespace

StepValues make_step_values(const Model& model, const Strategy& strategy, const UnitCompute& compute,
                            std::int64_t microbatches) {
  const auto communication = [](std::string name, ElementType type, std::int64_t elements) {
    return make_value(std::move(name), BufferKind::communication, type, elements);
  };
  const auto plain = [&](std::string name, std::size_t bytes) {
    return communication(std::move(name), ElementType::byte, static_cast<std::int64_t>(bytes));
  };
  StepValues values;
  values.step_scalars = plain("step_scalars", StepScalars::bytes(model.policies.size()));
  for (std::size_t u = 0; u < model.units.size(); ++u) {
    const auto number = static_cast<std::int32_t>(u);
    UnitValues of_unit = values_of(model, u, sent_rows(model, strategy, u), values.step_scalars.elements,
                                   strategy, compute, microbatches);
    if (!strategy.has(number)) {
      of_unit = values_of_other_stage(std::move(of_unit), number > 0 && strategy.has(number - 1),
                                      strategy.has_copy() && number == strategy.pipeline.copy.unit, strategy);
    } else if (strategy.is_copied(number)) {
      of_unit.received_gradient =
          make_value(fmt::format("{}/received_gradient", model.units[u].name), BufferKind::gradient,
                     ElementType::fp32, of_unit.gradient.elements);
    }
    values.units.push_back(std::move(of_unit));
  }
  const auto is_here = [&](Region region) {
    return strategy.mesh.pipeline == 1 || is_touched(region, model, strategy, compute);
  };
  const auto of_microbatches = [&](const std::string& name, ElementType type, const Extent& extent) {
    std::vector<Value> all;
    for (std::int64_t mb = 0; mb < microbatches; ++mb)
      all.push_back(communication(fmt::format("{}[mb={}]", name, mb), type, extent.in(strategy.microbatch)));
    return all;
  };
  for (const DataArray& array : data_of(model.graphs)) {
    const ElementType type = array.type == TensorType::int32 ? ElementType::int32 : ElementType::fp32;
    const Region region = data_region(values.data.size());
    values.data.push_back(is_here(region) ? of_microbatches(array.name, type, array.elements)
                                          : std::vector<Value>());
  }
  if (!model.is_sampled && is_here(Region::losses))
    values.losses = of_microbatches("losses", ElementType::fp32, loss_terms_of(model.graphs));
  if (model.is_sampled) {
    const std::int64_t rows = strategy.microbatch.batch;
    const bool has_head = is_here(Region::logits);
    values.logits = communication("logits", element_type(strategy.precision),
                                  has_head ? rows * columns_of_logits(model) : 0);
    values.all_logits =
        communication("all_logits", ElementType::fp32, has_head ? rows * model.architecture.vocabulary : 0);
    values.next_tokens =
        communication("next_tokens", ElementType::fp64, next_token_numbers(strategy.samples));
  }
  values.tally = of_microbatches("tally", ElementType::fp32, fixed(compute.tally_elements()));
  values.constants = make_value("constants", BufferKind::workspace, ElementType::byte,
                                is_here(Region::constants) ? compute.constant_bytes() : 0);
  values.stage_norm = communication("stage_norm", ElementType::fp64, 1);
  values.loss_scale = plain("loss_scale", strategy.scales_loss() ? sizeof(LossScale) : 0);
  values.step_sums = communication("step_sums", ElementType::fp64, sizeof(StepSums) / sizeof(double));
  values.step_record = plain("step_record", sizeof(StepRecord));
  return values;
}

}  // namespace strata
