#include "engine/execute/operations.h"

#include <cmath>
#include <stdexcept>

#include "optim/adamw.h"
#include "optim/gradient_norm.h"

namespace strata {

Operations::Operations(Setup setup)
    : setup_(std::move(setup)),
      compute_(*setup_.model, setup_.plan->strategy.precision, setup_.plan->strategy.microbatch),
      workers_(setup_.threads),
      device_workers_(setup_.threads) {}

std::byte* Operations::address(BufferId id) const {
  const Buffer& buffer = setup_.program->program.buffer(id);
  return (buffer.tier == Tier::device ? setup_.memory.device : setup_.memory.host) + buffer.offset;
}

template <typename T>
T* Operations::operand(const Instruction& instruction, Role role) const {
  const BufferId id = instruction.find(role);
  return id < 0 ? nullptr : reinterpret_cast<T*>(address(id));
}

const Unit& Operations::unit(const Instruction& instruction) const {
  return setup_.model->units[static_cast<std::size_t>(instruction.unit)];
}

void Operations::perform(const Instruction& instruction, std::int64_t step) {
  const auto tokens = static_cast<std::size_t>(setup_.plan->strategy.microbatch.tokens());
  switch (instruction.operation) {
    case Operation::load_tokens:
      setup_.load(step, instruction.microbatch, {operand<std::int32_t>(instruction, Role::tokens), tokens},
                  {operand<std::int32_t>(instruction, Role::targets), tokens});
      return;
    case Operation::copy_to_device:
    case Operation::copy_to_host: {
      const BufferId source = instruction.reads[0].buffer, destination = instruction.writes[0].buffer;
      const Bytes bytes = setup_.program->program.buffer(source).bytes;
      if (instruction.operation == Operation::copy_to_device) {
        setup_.device->copy_to_device(address(destination), address(source), bytes);
      } else {
        setup_.device->copy_to_host(address(destination), address(source), bytes);
      }
      return;
    }
    case Operation::zero:
      setup_.kernels->zero({operand<float>(instruction, Role::gradient), DType::fp32, 1, unit(instruction).elements});
      return;
    case Operation::forward:
      compute_.forward(*setup_.kernels, unit(instruction), unit_memory(instruction));
      return;
    case Operation::backward:
      compute_.backward(*setup_.kernels, unit(instruction), unit_memory(instruction),
                        1.0F / static_cast<float>(setup_.plan->tokens_per_step));
      return;
    case Operation::cast_gradient: return cast_gradient(instruction);
    case Operation::sum_of_squares: return sum_squares(instruction);
    case Operation::loss: return loss(instruction, step);
    case Operation::grad_norm: return grad_norm(instruction, step);
    case Operation::adamw: return update(instruction);
  }
}

UnitMemory Operations::unit_memory(const Instruction& instruction) const {
  UnitMemory memory;
  memory.parameter = operand<std::byte>(instruction, Role::parameter);
  memory.shared_parameter = operand<std::byte>(instruction, Role::shared_parameter);
  memory.gradient = operand<float>(instruction, Role::gradient);
  memory.shared_gradient = operand<float>(instruction, Role::shared_gradient);
  memory.input = operand<std::byte>(instruction, Role::input);
  memory.output = operand<std::byte>(instruction, Role::output);
  memory.output_gradient = operand<std::byte>(instruction, Role::output_gradient);
  memory.input_gradient = operand<std::byte>(instruction, Role::input_gradient);
  memory.saved = operand<std::byte>(instruction, Role::saved);
  memory.workspace = operand<std::byte>(instruction, Role::workspace);
  memory.constants = operand<std::byte>(instruction, Role::constants);
  memory.tokens = operand<std::int32_t>(instruction, Role::tokens);
  memory.targets = operand<std::int32_t>(instruction, Role::targets);
  memory.losses = operand<float>(instruction, Role::losses);
  return memory;
}

void Operations::cast_gradient(const Instruction& instruction) {
  const std::int64_t elements = unit(instruction).elements;
  setup_.kernels->cast({operand<float>(instruction, Role::source), DType::fp32, 1, elements},
                 {operand<std::byte>(instruction, Role::destination), setup_.plan->strategy.precision, 1, elements});
}

void Operations::sum_squares(const Instruction& instruction) {
  HostWorkers& workers = instruction.lane == Lane::cpu ? workers_ : device_workers_;
  workers.run([&] {
    *operand<double>(instruction, Role::norm) = sum_of_squares(operand<std::byte>(instruction, Role::gradient),
                                                               setup_.plan->strategy.precision, unit(instruction).elements);
  });
}

void Operations::loss(const Instruction& instruction, std::int64_t step) {
  const auto tokens = static_cast<std::size_t>(setup_.plan->strategy.microbatch.tokens());
  double sum = 0;
  for (const Operand& losses : instruction.reads) {
    for (const float loss : std::span(reinterpret_cast<const float*>(address(losses.buffer)), tokens)) sum += loss;
  }
  report_.step = step;
  report_.loss = sum / static_cast<double>(tokens * instruction.reads.size());
}

void Operations::grad_norm(const Instruction& instruction, std::int64_t step) {
  double sum = 0;
  for (const Operand& norm : instruction.reads) sum += *reinterpret_cast<const double*>(address(norm.buffer));
  const double norm = std::sqrt(sum);
  report_.grad_norm = norm;
  report_.skipped = !std::isfinite(norm);
  report_.learning_rate = learning_rate(setup_.optimizer.schedule, step);
  ++counters_.step;
  ++(report_.skipped ? counters_.skipped : counters_.updates);
  *operand<StepScalars>(instruction, Role::step_scalars) = {
      .learning_rate = static_cast<float>(report_.learning_rate),
      .gradient_scale = report_.skipped ? 0 : clip_factor(norm, setup_.optimizer.clip_norm),
      .update = counters_.updates,
      .skip = report_.skipped,
  };
}

void Operations::update(const Instruction& instruction) {
  const StepScalars scalars = *operand<StepScalars>(instruction, Role::step_scalars);
  if (scalars.skip) return;
  const bool low_precision = setup_.plan->strategy.precision == DType::bf16;
  const auto* gradient = operand<std::byte>(instruction, Role::gradient);
  auto* parameter = operand<std::byte>(instruction, Role::parameter);
  float* master = low_precision ? operand<float>(instruction, Role::master) : reinterpret_cast<float*>(parameter);
  auto* exp_avg = operand<float>(instruction, Role::exp_avg);
  auto* exp_avg_sq = operand<float>(instruction, Role::exp_avg_sq);
  AdamWStep step{.learning_rate = scalars.learning_rate,
                 .beta1 = static_cast<float>(setup_.optimizer.beta1),
                 .beta2 = static_cast<float>(setup_.optimizer.beta2),
                 .epsilon = static_cast<float>(setup_.optimizer.epsilon),
                 .weight_decay = 0,
                 .gradient_scale = scalars.gradient_scale,
                 .step = scalars.update};
  HostWorkers& workers = instruction.lane == Lane::cpu ? workers_ : device_workers_;
  workers.run([&] {
    for (const TensorSpec& tensor : unit(instruction).tensors) {
      const auto count = static_cast<std::size_t>(tensor.elements);
      const bool decays = setup_.optimizer.decay_all || tensor.decay;
      step.weight_decay = decays ? static_cast<float>(setup_.optimizer.weight_decay) : 0;
      adamw(step, {.master = {master + tensor.offset, count},
                   .exp_avg = {exp_avg + tensor.offset, count},
                   .exp_avg_sq = {exp_avg_sq + tensor.offset, count},
                   .gradient = gradient + tensor.offset * size_of(setup_.plan->strategy.precision),
                   .gradient_dtype = setup_.plan->strategy.precision,
                   .parameter = low_precision ? reinterpret_cast<bfloat16*>(parameter) + tensor.offset : nullptr});
    }
  });
}

}  // namespace strata
