#include "engine/run/tune/request_of_run.h"

#include <algorithm>
#include <numeric>

#include "base/resolved_path.h"
#include "engine/config/describe.h"
#include "engine/config/run_config.h"
#include "engine/model/model.h"
#include "engine/run/tune/size_limit.h"
#include "engine/run/tune/stages.h"

namespace strata {
namespace {

/// All that the run file decides, for the first stage.
Strategy decided(const RunConfig& config, const Model& model) {
  Strategy strategy;
  strategy.mesh = mesh_of(config.parallel, model);
  strategy.pipeline = {config.parallel.schedule, cut_into_stages(config, model)};
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
      .master = config.optimizer.master,
      .moments = config.optimizer.moments,
      .average = config.ema.format == AverageFormat::bf16 ? MomentFormat::bf16 : MomentFormat::fp32,
      .kept = model.moments()};
  strategy.packed = {.trained = config.memory.trained_as, .frozen = config.memory.frozen_as};
  strategy.microbatch = microbatch_of_rank(config);
  strategy.microbatches = config.microbatches();
  strategy.validation_microbatches = config.train.validate_every > 0 ? config.train.validation_batches : 0;
  strategy.samples = samples_of(config);
  strategy.saves = !config.checkpoint.path.empty() && config.checkpoint.every > 0;
  strategy.names_frozen = model.adapts();
  strategy.global_norm = config.waits_for_norm();
  strategy.saved_level.assign(model.units.size(), config.train.recompute == Recompute::none ? kAllSaved : 0);
  const auto pinned = [](TierChoice choice) { return choice == TierChoice::device; };
  strategy.pins = {pinned(config.memory.parameters), pinned(config.memory.gradients),
                   pinned(config.memory.activations)};
  strategy.state.assign(model.units.size(), Tier::host);
  if (!config.memory.nvme_path.empty()) strategy.piece_bytes = kDrivePiece;
  return strategy;
}

/// The planner takes one of them.
std::vector<Order> open_orders(const RunConfig& config) {
  if (config.plan.order) return {*config.plan.order};
  if (config.parallel.pipeline > 1) return {Order::layer_major};  // its schedule is the order
  return {Order::layer_major, Order::microbatch_major};
}

/// ModelToPlan::shape.
std::string shape_of(RunConfig config) {
  const RunConfig none;
  OptimizerSection& optimizer = config.optimizer;
  optimizer.learning_rate = none.optimizer.learning_rate;
  optimizer.betas = none.optimizer.betas;
  optimizer.epsilon = none.optimizer.epsilon;
  optimizer.alpha = none.optimizer.alpha;
  optimizer.beta3 = none.optimizer.beta3;
  optimizer.slow_warmup = none.optimizer.slow_warmup;
  optimizer.weight_decay = none.optimizer.weight_decay;
  config.schedule = none.schedule;
  config.ema.every = none.ema.every;
  config.spike.window = none.spike.window;
  if (config.ema.decay > 0) config.ema.decay = 0.5;
  config.train.seed = none.train.seed;
  config.train.steps = none.train.steps;
  config.checkpoint.path = config.checkpoint.path.empty() ? "" : "some";
  config.report = none.report;
  config.data.path.clear();
  config.data.sources.clear();
  config.data.validation.clear();
  return dump(config);
}

}  // namespace

MicrobatchShape microbatch_of_rank(const RunConfig& config) {
  return {config.train.microbatch, config.data.sequence_length / config.parallel.context};
}

SampleShape samples_of(const RunConfig& config) {
  const ParallelSection& parallel = config.parallel;
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

Mesh mesh_of(const ParallelSection& parallel, const Model& model) {
  const bool shares_out = parallel.zero_stage > 0;
  const std::int64_t holders = parallel.data * parallel.context;
  return {.replicate = shares_out ? parallel.replicate : holders,
          .shard = shares_out ? holders / parallel.replicate : 1,
          .pipeline = parallel.pipeline,
          .tensor = parallel.tensor,
          .key_copies = model.key_copies,
          .context = parallel.context};
}

MemoryRequest memory_request(const MemorySection& memory) {
  MemoryRequest request = {.device = memory.device, .host = memory.host};
  if (!memory.nvme_path.empty()) request.nvme = memory.nvme_size;
  request.wanted[BufferKind::parameter] = memory.parameters;
  request.wanted[BufferKind::gradient] = memory.gradients;
  request.wanted[BufferKind::optimizer_state] = memory.optimizer_state;
  request.wanted[BufferKind::activation] = memory.activations;
  return request;
}

PlanRequest plan_request(const RunConfig& config, const Model& model) {
  check_size(config, model);
  return {.strategy = decided(config, model),
          .orders = open_orders(config),
          .chooses_saved = config.train.recompute == Recompute::automatic,
          .memory = memory_request(config.memory),
          .lanes = config.plan.lanes};
}

ModelToPlan model_to_plan(const ConfiguredModel& model) {
  const RunConfig& config = *model.config;
  const bool has_weights = !config.model.path.empty();
  return {.name = model.name,
          .model = model.model,
          .request = plan_request(config, *model.model),
          .steps = config.train.steps,
          .shape = shape_of(config),
          .weights = has_weights ? resolved(config.model.path).string() : ""};
}

std::vector<ModelToPlan> models_to_plan(const std::vector<ConfiguredModel>& models) {
  std::vector<ModelToPlan> all;
  all.reserve(models.size());
  for (const ConfiguredModel& model : models) all.push_back(model_to_plan(model));
  return all;
}

}  // namespace strata
