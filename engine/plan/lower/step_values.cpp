#include "engine/plan/lower/step_values.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>

#include "optim/counters.h"
#include "optim/loss_scale.h"
#include "optim/step_scalars.h"

namespace strata {
namespace {

std::vector<StatePiece> state_of(const Unit& unit, Tier tier, const Strategy& strategy) {
  const StateFormat& format = strategy.state_format;
  const std::int64_t shard = strategy.mesh.shard_elements(unit.elements);
  const bool is_own_master = strategy.precision == DType::fp32;
  std::vector<StatePiece> state;
  for (const Piece& piece : tier == Tier::device ? std::vector<Piece>{{}} : state_pieces(shard, strategy)) {
    const std::string number = piece.is_all() ? "" : fmt::format("[piece={}]", state.size());
    const std::int64_t count = piece.is_all() ? shard : piece.count;
    const auto value = [&](const char* what, ElementType type, std::int64_t elements) {
      return make_value(fmt::format("{}/{}{}", unit.name, what, number), BufferKind::optimizer_state, type,
                        elements);
    };
    state.push_back(
        {.piece = piece,
         .master = value("master", format.split_master ? ElementType::low_half : ElementType::fp32,
                         is_own_master ? 0 : count),
         .exp_avg = value("exp_avg", element_type(format.moments), count),
         .exp_avg_sq = value("exp_avg_sq", element_type(format.moments), count)});
  }
  return state;
}

UnitValues values_of(const Unit& unit, Tier tier, std::size_t saved_level, const Strategy& strategy,
                     const UnitCompute& compute, std::int64_t microbatches) {
  const auto named = [&](const char* what, BufferKind kind, ElementType type, std::int64_t elements) {
    return make_value(fmt::format("{}/{}", unit.name, what), kind, type, elements);
  };
  const ElementType precision = element_type(strategy.precision),
                    reduced = element_type(strategy.reduce_dtype);
  const std::int64_t whole = strategy.mesh.gathered_elements(unit.elements);
  const std::int64_t shard = strategy.mesh.shard_elements(unit.elements);
  const std::int64_t cast = strategy.reduce_dtype == DType::fp32 ? shard : whole;

  const std::vector<UnitPasses::Level>& levels = compute.passes(unit).levels;
  const std::size_t level = std::min(saved_level, levels.size() - 1);
  UnitValues values;
  values.parameter = named("parameter", BufferKind::parameter, precision, whole);
  values.parameter_shard = named("parameter_shard", BufferKind::parameter, precision, shard);
  values.gradient = named("gradient", BufferKind::gradient, ElementType::fp32, whole);
  values.reduced_gradient = named("reduced_gradient", BufferKind::gradient, reduced, shard);
  values.cast_gradient = named("cast_gradient", BufferKind::gradient, precision, cast);
  values.state = state_of(unit, tier, strategy);
  values.gradient.pinned = strategy.pins.gradients;
  values.norm = named("norm", BufferKind::communication, ElementType::fp64, 1);
  values.step_scalars =
      named("step_scalars", BufferKind::communication, ElementType::byte, sizeof(StepScalars));
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
  }
  return values;
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
  for (std::size_t u = 0; u < model.units.size(); ++u)
    values.units.push_back(values_of(model.units[u], strategy.state[u], strategy.saved_level[u], strategy,
                                     compute, microbatches));
  const std::int64_t tokens = strategy.microbatch.tokens();
  for (std::int64_t mb = 0; mb < microbatches; ++mb) {
    values.tokens.push_back(communication(fmt::format("tokens[mb={}]", mb), ElementType::int32, tokens));
    values.targets.push_back(communication(fmt::format("targets[mb={}]", mb), ElementType::int32, tokens));
    values.losses.push_back(communication(fmt::format("losses[mb={}]", mb), ElementType::fp32, tokens));
    values.tally.push_back(
        communication(fmt::format("tally[mb={}]", mb), ElementType::fp32, compute.tally_elements()));
  }
  const std::int64_t rows = sent_rows(model, strategy), ranks = strategy.mesh.reducing();
  const std::int64_t in_rows = rows * model.units.front().sparse_row;
  const ElementType reduced = element_type(strategy.reduce_dtype);
  values.rows = communication("embedding/rows", ElementType::int32, rows);
  values.row_values = communication("embedding/row_values", reduced, in_rows);
  values.all_rows = communication("embedding/all_rows", ElementType::int32, ranks * rows);
  values.all_row_values = communication("embedding/all_row_values", reduced, ranks * in_rows);
  values.constants =
      make_value("constants", BufferKind::workspace, ElementType::byte, compute.constant_bytes());
  values.loss_scale = plain("loss_scale", strategy.scales_loss() ? sizeof(LossScale) : 0);
  values.step_sums = communication("step_sums", ElementType::fp64, sizeof(StepSums) / sizeof(double));
  values.step_scalars = plain("step_scalars", sizeof(StepScalars));
  values.step_record = plain("step_record", sizeof(StepRecord));
  return values;
}

}  // namespace strata
