#include "engine/plan/step_values.h"

#include <fmt/format.h>

#include <string>
#include <utility>

#include "optim/counters.h"
#include "optim/loss_scale.h"
#include "optim/step_scalars.h"

namespace strata {
namespace {

UnitValues values_of(const Unit& unit, const Strategy& strategy, const UnitCompute& compute,
                     std::int64_t microbatches) {
  const auto named = [&](const char* what, BufferKind kind, Bytes bytes) {
    return make_value(fmt::format("{}/{}", unit.name, what), kind, bytes);
  };
  const Bytes element = size_of(strategy.precision);
  const StateFormat& format = strategy.state_format;
  const std::int64_t whole = strategy.mesh.gathered_elements(unit.elements);
  const std::int64_t shard = strategy.mesh.shard_elements(unit.elements);
  const std::int64_t cast = strategy.reduce_dtype == DType::fp32 ? shard : whole;

  UnitValues values;
  values.parameter = named("parameter", BufferKind::parameter, whole * element);
  values.parameter_shard = named("parameter_shard", BufferKind::parameter, shard * element);
  values.gradient = named("gradient", BufferKind::gradient, whole * size_of(DType::fp32));
  values.reduced_gradient =
      named("reduced_gradient", BufferKind::gradient, shard * size_of(strategy.reduce_dtype));
  values.cast_gradient = named("cast_gradient", BufferKind::gradient, cast * element);
  values.master =
      named("master", BufferKind::optimizer_state, shard * format.master_bytes(strategy.precision));
  values.exp_avg = named("exp_avg", BufferKind::optimizer_state, shard * format.moment_bytes());
  values.exp_avg_sq = named("exp_avg_sq", BufferKind::optimizer_state, shard * format.moment_bytes());
  values.gradient.pinned = strategy.pins.gradients;
  values.norm = named("norm", BufferKind::communication, sizeof(double));
  values.step_scalars = named("step_scalars", BufferKind::communication, sizeof(StepScalars));
  for (std::int64_t mb = 0; mb < microbatches; ++mb) {
    const auto of_microbatch = [&](const char* what, Bytes bytes) {
      Value value =
          make_value(fmt::format("{}/{}[mb={}]", unit.name, what, mb), BufferKind::activation, bytes);
      value.pinned = strategy.pins.activations;
      return value;
    };
    values.input.push_back(of_microbatch("input", compute.boundary_bytes()));
    values.input_gradient.push_back(of_microbatch("input_gradient", compute.boundary_bytes()));
    values.saved.push_back(of_microbatch("saved", compute.saved_bytes(unit)));
  }
  return values;
}

}  // namespace

StepValues make_step_values(const Model& model, const Strategy& strategy, const UnitCompute& compute,
                            std::int64_t microbatches) {
  const auto communication = [](std::string name, Bytes bytes) {
    return make_value(std::move(name), BufferKind::communication, bytes);
  };
  StepValues values;
  for (const Unit& unit : model.units)
    values.units.push_back(values_of(unit, strategy, compute, microbatches));
  const Bytes token_bytes = strategy.microbatch.tokens() * 4;
  for (std::int64_t mb = 0; mb < microbatches; ++mb) {
    values.tokens.push_back(communication(fmt::format("tokens[mb={}]", mb), token_bytes));
    values.targets.push_back(communication(fmt::format("targets[mb={}]", mb), token_bytes));
    values.losses.push_back(communication(fmt::format("losses[mb={}]", mb), token_bytes));
  }
  const std::int64_t rows = sent_rows(model, strategy), ranks = strategy.mesh.reducing();
  const Bytes row_bytes = rows * Bytes{sizeof(std::int32_t)};
  const Bytes row_value_bytes = rows * model.architecture.hidden * size_of(strategy.reduce_dtype);
  values.rows = communication("embedding/rows", row_bytes);
  values.row_values = communication("embedding/row_values", row_value_bytes);
  values.all_rows = communication("embedding/all_rows", ranks * row_bytes);
  values.all_row_values = communication("embedding/all_row_values", ranks * row_value_bytes);
  values.constants = make_value("constants", BufferKind::workspace, compute.constant_bytes());
  values.loss_scale = communication("loss_scale", strategy.scales_loss() ? sizeof(LossScale) : 0);
  values.step_sums = communication("step_sums", sizeof(StepSums));
  values.step_scalars = communication("step_scalars", sizeof(StepScalars));
  values.step_record = communication("step_record", sizeof(StepRecord));
  return values;
}

}  // namespace strata
