#include "engine/execute/operations.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/error.h"
#include "base/watchdog.h"
#include "optim/adamw.h"
#include "optim/gradient_norm.h"

namespace strata {
namespace {

/// `transfer`, whose error names the file and then the buffer that was meant.
template <typename Transfer>
void for_buffer(const Buffer& buffer, const Transfer& transfer) {
  try {
    transfer();
  } catch (const IoError& error) {
    throw IoError(fmt::format("{}; it is {}", error.what(), buffer.name));
  }
}

}  // namespace

Operations::Operations(Setup setup)
    : setup_(std::move(setup)),
      compute_(*setup_.model, setup_.plan->strategy.precision, setup_.plan->strategy.microbatch),
      kernels_(setup_.streams->of(Lane::compute).kernels()),
      workers_(setup_.threads) {}

std::byte* Operations::address(BufferId id) const {
  return setup_.memory.at(setup_.program->program.buffer(id));
}

template <typename T>
T* Operations::operand(const Instruction& instruction, Role role) const {
  const BufferId id = instruction.find(role);
  return id < 0 ? nullptr : reinterpret_cast<T*>(address(id));
}

template <typename T>
T* Operations::value(const Instruction& instruction, Role role) const {
  T* const one = operand<T>(instruction, role);
  meter().touch(one, sizeof(T));
  return one;
}

MeterCount Operations::take_count() {
  for (StoreQueue* queue : {setup_.spill.reads, setup_.spill.writes}) {
    if (queue == nullptr) continue;
    const StoreCount moved = queue->take_count();
    meter().move(Link::nvme_read, moved.read);
    meter().move(Link::nvme_write, moved.written);
    meter().touch_nvme(moved.end);
  }
  return meter().take();
}

std::int64_t Operations::shard_elements(const Instruction& instruction) const {
  return mesh().shard_elements(unit(instruction).elements);
}

const Unit& Operations::unit(const Instruction& instruction) const {
  return setup_.model->units[static_cast<std::size_t>(instruction.unit)];
}

void Operations::perform(const Instruction& instruction, std::int64_t step) {
  const auto tokens = static_cast<std::size_t>(setup_.plan->strategy.microbatch.tokens());
  switch (instruction.operation) {
    case Operation::load_tokens: {
      const WatchedWait wait([] { return std::string("reading the training data (data.path)"); });
      const std::span inputs(operand<std::int32_t>(instruction, Role::tokens), tokens);
      const std::span targets(operand<std::int32_t>(instruction, Role::targets), tokens);
      meter().touch(inputs);
      meter().touch(targets);
      setup_.load(step, instruction.microbatch, inputs, targets);
      return;
    }
    case Operation::copy_to_device:
    case Operation::copy_to_host:
      return copy(instruction);
    case Operation::read:
      return read(instruction);
    case Operation::write:
      return write(instruction);
    case Operation::zero:
      kernels_.zero({operand<float>(instruction, Role::gradient), DType::fp32, 1,
                     mesh().gathered_elements(unit(instruction).elements)});
      return;
    case Operation::forward:
      return compute_.forward(kernels_, unit(instruction), unit_memory(instruction));
    case Operation::backward:
      compute_.backward(kernels_, unit(instruction), unit_memory(instruction),
                        1.0F / static_cast<float>(setup_.plan->tokens_per_step));
      return;
    case Operation::cast_gradient:
      return cast_gradient(instruction);
    case Operation::list_rows:
      return list_rows(instruction);
    case Operation::copy_rows:
      return copy_rows(instruction);
    case Operation::sum_rows:
      return sum_rows(instruction);
    case Operation::sum_of_squares:
      return sum_squares(instruction);
    case Operation::all_gather:
    case Operation::reduce_scatter:
    case Operation::all_reduce:
      return exchange(instruction);
    case Operation::sum_losses:
      return sum_losses(instruction);
    case Operation::loss:
      return loss(instruction, step);
    case Operation::step_scalars:
      return step_scalars(instruction, step);
    case Operation::grad_norm:
      return grad_norm(instruction, step);
    case Operation::adamw:
      return instruction.lane == Lane::cpu ? update_on_host(instruction) : update_on_device(instruction);
    case Operation::save:
      return save(instruction, step);
    case Operation::finish_checkpoint:
      return setup_.saver->finish();
  }
}

void Operations::copy(const Instruction& instruction) {
  const BufferId source = instruction.reads[0].buffer, destination = instruction.writes[0].buffer;
  const Bytes bytes = setup_.program->program.buffer(source).bytes;
  if (instruction.operation == Operation::copy_to_device) {
    setup_.streams->of(instruction.lane).copy_to_device(address(destination), address(source), bytes);
  } else {
    setup_.streams->of(instruction.lane).copy_to_host(address(destination), address(source), bytes);
  }
}

void Operations::read(const Instruction& instruction) {
  const Buffer& source = setup_.program->program.buffer(instruction.reads[0].buffer);
  const std::span to(address(instruction.writes[0].buffer), static_cast<std::size_t>(source.bytes));
  meter().touch(to);
  for_buffer(source, [&] { setup_.spill.reads->read(source.offset, to); });
}

void Operations::write(const Instruction& instruction) {
  const Buffer& destination = setup_.program->program.buffer(instruction.writes[0].buffer);
  const std::span from(address(instruction.reads[0].buffer), static_cast<std::size_t>(destination.bytes));
  meter().touch(from);
  for_buffer(destination, [&] { setup_.spill.writes->write(destination.offset, from); });
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
  memory.loss_scale = operand<float>(instruction, Role::loss_scale);
  return memory;
}

void Operations::cast_gradient(const Instruction& instruction) {
  const Strategy& strategy = setup_.plan->strategy;
  const std::int64_t elements = strategy.reduce_dtype == DType::fp32
                                    ? shard_elements(instruction)
                                    : mesh().gathered_elements(unit(instruction).elements);
  kernels_.cast({operand<float>(instruction, Role::source), DType::fp32, 1, elements},
                {operand<std::byte>(instruction, Role::destination), strategy.precision, 1, elements});
}

void Operations::list_rows(const Instruction& instruction) {
  const auto tokens = static_cast<std::size_t>(setup_.plan->strategy.microbatch.tokens());
  auto* const rows = operand<std::int32_t>(instruction, Role::rows);
  auto* end = rows;
  for (const Operand& microbatch : instruction.reads) {
    const std::span from(reinterpret_cast<const std::int32_t*>(address(microbatch.buffer)), tokens);
    meter().touch(from);
    end = std::ranges::copy(from, end).out;
  }
  meter().touch(std::span(rows, end));
  std::sort(rows, end);
  std::fill(std::unique(rows, end), end, kNoRow);
}

/// The instruction's row numbers, and a matrix of what stands in those rows.
std::pair<std::span<const std::int32_t>, Matrix> Operations::rows_of(const Instruction& instruction,
                                                                     std::int64_t ranks) const {
  const Strategy& strategy = setup_.plan->strategy;
  const std::int64_t count = ranks * sent_rows(*setup_.model, strategy);
  return {{operand<std::int32_t>(instruction, Role::rows), static_cast<std::size_t>(count)},
          {operand<std::byte>(instruction, Role::row_values), strategy.reduce_dtype, count,
           setup_.model->architecture.hidden}};
}

void Operations::copy_rows(const Instruction& instruction) {
  const Architecture& architecture = setup_.model->architecture;
  const auto [rows, values] = rows_of(instruction, 1);
  kernels_.copy_rows({operand<float>(instruction, Role::gradient), DType::fp32, architecture.vocabulary,
                      architecture.hidden},
                     rows, values);
}

void Operations::sum_rows(const Instruction& instruction) {
  const auto [rows, values] = rows_of(instruction, mesh().reducing());
  const std::int64_t elements = shard_elements(instruction);
  kernels_.sum_rows({.ranks = mesh().reducing(),
                     .rows = rows,
                     .values = values,
                     .first = mesh().shard_rank(setup_.rank) * elements,
                     .out = {operand<std::byte>(instruction, Role::destination), values.dtype, 1, elements}});
}

void Operations::sum_squares(const Instruction& instruction) {
  auto* gradient = operand<std::byte>(instruction, Role::gradient);
  auto* sum = operand<double>(instruction, Role::norm);
  const DType dtype = setup_.plan->strategy.precision;
  const std::int64_t elements = shard_elements(instruction);
  if (instruction.lane == Lane::cpu) {
    meter().touch(gradient, elements * size_of(dtype));
    meter().touch(sum, sizeof(*sum));
    workers_.execute([&] { *sum = sum_of_squares(gradient, dtype, elements); });
  } else {
    kernels_.sum_of_squares({gradient, dtype, 1, elements}, sum);
  }
}

Communicator& Operations::group_of(const Instruction& instruction) const {
  return setup_.ranks->group(instruction.exchange.group, instruction.lane);
}

Bytes Operations::sent_bytes(const Instruction& instruction) const {
  const bool exchanges = instruction.exchange.group != Group::none;
  return exchanges ? static_cast<Bytes>(group_of(instruction).sent_bytes()) : 0;
}

/// Of each rank.
Bytes Operations::gathered_bytes(const Instruction& instruction) const {
  const Strategy& strategy = setup_.plan->strategy;
  const Role role = instruction.reads[0].role;
  if (role == Role::source) return shard_elements(instruction) * size_of(strategy.precision);
  const std::int64_t rows = sent_rows(*setup_.model, strategy);
  return role == Role::rows ? rows * Bytes{sizeof(std::int32_t)}
                            : rows * setup_.model->architecture.hidden * size_of(strategy.reduce_dtype);
}

void Operations::exchange(const Instruction& instruction) {
  Communicator& group = group_of(instruction);
  std::byte* from = address(instruction.reads[0].buffer);
  std::byte* to = address(instruction.writes[0].buffer);
  const Strategy& strategy = setup_.plan->strategy;
  const Element reduced = strategy.reduce_dtype == DType::fp32 ? Element::fp32 : Element::bf16;
  const Role role = instruction.reads[0].role;
  const auto touch = [&](Bytes read, Bytes written) {
    meter().touch(from, read);
    meter().touch(to, written);
  };
  const Bytes shard_bytes = shard_elements(instruction) * size_of(strategy.reduce_dtype);
  if (instruction.operation == Operation::all_gather) {
    const Bytes own = gathered_bytes(instruction);
    touch(own, group.size() * own);
    group.all_gather(from, to, static_cast<std::size_t>(own), Element::byte);
  } else if (instruction.operation == Operation::reduce_scatter) {
    touch(group.size() * shard_bytes, shard_bytes);
    group.reduce_scatter(from, to, static_cast<std::size_t>(shard_elements(instruction)), reduced);
  } else if (role == Role::gradient) {
    touch(shard_bytes, shard_bytes);
    group.all_reduce(from, to, static_cast<std::size_t>(shard_elements(instruction)), reduced);
  } else {
    const std::size_t count = role == Role::norm ? 1 : sizeof(StepSums) / sizeof(double);
    const auto bytes = static_cast<Bytes>(count * sizeof(double));
    touch(bytes, bytes);
    group.all_reduce(from, to, count, Element::fp64);
  }
}

/// Of the tokens of this rank's microbatches; in a validation the last ranks' last ones may not count.
void Operations::sum_losses(const Instruction& instruction) {
  const auto tokens = static_cast<std::size_t>(setup_.plan->strategy.microbatch.tokens());
  double sum = 0;
  std::int64_t microbatch = setup_.rank;
  for (const Operand& losses : instruction.reads) {
    if (microbatch >= setup_.microbatches) break;
    const std::span values(reinterpret_cast<const float*>(address(losses.buffer)), tokens);
    meter().touch(values);
    for (const float loss : values) sum += loss;
    microbatch += mesh().data();
  }
  *value<StepSums>(instruction, Role::step_sums) = {
      .loss = sum / static_cast<double>(static_cast<std::int64_t>(tokens) * setup_.microbatches),
      .stops = setup_.stop_requested && setup_.stop_requested() ? 1.0 : 0.0};
}

void Operations::loss(const Instruction& instruction, std::int64_t step) {
  const StepSums& sums = *value<StepSums>(instruction, Role::step_sums);
  report_.step = step;
  report_.loss = sums.loss;
  if (sums.stops > 0) setup_.on_stop_agreed(step);
}

/// The sum over the norms that the instruction reads.
double Operations::squares(const Instruction& instruction) const {
  double sum = 0;
  for (const Operand& operand : instruction.reads) {
    if (operand.role != Role::norm) continue;
    const auto* norm = reinterpret_cast<const double*>(address(operand.buffer));
    meter().touch(norm, sizeof(*norm));
    sum += *norm;
  }
  return sum;
}

/// For an update that is decided by the norm of gradients whose loss had a scale.
StepScalars Operations::make_scalars(double norm, double scale, std::int64_t step) const {
  const bool skip = !std::isfinite(norm);
  AdamWStep scalars{
      .learning_rate = static_cast<float>(learning_rate(setup_.optimizer.schedule, step)),
      .beta1 = static_cast<float>(setup_.optimizer.beta1),
      .beta2 = static_cast<float>(setup_.optimizer.beta2),
      .epsilon = static_cast<float>(setup_.optimizer.epsilon),
      .weight_decay = static_cast<float>(setup_.optimizer.weight_decay),
      .gradient_scale = skip ? 0 : static_cast<float>(clip_factor(norm, setup_.optimizer.clip_norm) / scale),
      .step = counters_.updates + 1,
      .seed = setup_.optimizer.seed};
  const AdamWCoefficients decayed = coefficients(scalars);
  scalars.weight_decay = 0;
  return {.decayed = decayed, .plain = coefficients(scalars), .skip = skip ? 1U : 0U};
}

void Operations::step_scalars(const Instruction& instruction, std::int64_t step) {
  *value<StepScalars>(instruction, Role::step_scalars) =
      make_scalars(std::sqrt(squares(instruction)), 1, step);
}

void Operations::grad_norm(const Instruction& instruction, std::int64_t step) {
  auto* loss_scale = value<LossScale>(instruction, Role::loss_scale);
  const double scale = loss_scale == nullptr ? 1 : loss_scale->scale;
  const double norm = std::sqrt(squares(instruction)) / scale;
  report_.grad_norm = norm;
  report_.loss_scale = scale;
  report_.skipped = !std::isfinite(norm);
  report_.learning_rate = learning_rate(setup_.optimizer.schedule, step);
  if (auto* scalars = value<StepScalars>(instruction, Role::step_scalars))
    *scalars = make_scalars(norm, scale, step);
  if (loss_scale != nullptr)
    *loss_scale = next_loss_scale(*loss_scale, setup_.optimizer.loss_scale, !report_.skipped);
  ++counters_.step;
  ++(report_.skipped ? counters_.skipped : counters_.updates);
  if (auto* record = value<StepRecord>(instruction, Role::step_record))
    *record = {counters_, loss_scale == nullptr ? LossScale{} : *loss_scale};
}

void Operations::save(const Instruction& instruction, std::int64_t step) {
  if (const auto* record = value<StepRecord>(instruction, Role::step_record))
    return setup_.saver->set_record(*record);
  auto* room = operand<std::byte>(instruction, Role::workspace);
  const auto on_host = [&](Role role) -> const std::byte* {
    const BufferId id = instruction.find(role);
    if (id < 0 || room == nullptr) return id < 0 ? nullptr : address(id);
    const Buffer& from = setup_.program->program.buffer(id);
    setup_.saver->copy(room, address(id), from);
    return std::exchange(room, room + from.bytes);
  };
  const StateFormat& format = setup_.plan->strategy.state_format;
  const auto add = [&](StateKind kind, Role role, StoredAs as) {
    if (instruction.find(role) < 0) return;
    const StoredValues stored = {.as = as,
                                 .values = on_host(role),
                                 .parameter = reinterpret_cast<const bfloat16*>(on_host(Role::parameter))};
    setup_.saver->add(step + 1, static_cast<std::size_t>(instruction.unit), kind, stored);
  };
  add(StateKind::master, Role::master, masters_stored_as(format));
  add(StateKind::exp_avg, Role::exp_avg, moments_stored_as(format));
  add(StateKind::exp_avg_sq, Role::exp_avg_sq, moments_stored_as(format));
}

AdamWState Operations::state_of_unit(const Instruction& instruction) const {
  const Strategy& strategy = setup_.plan->strategy;
  auto* parameter = operand<std::byte>(instruction, Role::parameter);
  auto* master = operand<std::byte>(instruction, Role::master);
  return {.precision = strategy.precision,
          .format = strategy.state_format,
          .elements = shard_elements(instruction),
          .master = master == nullptr ? parameter : master,
          .exp_avg = operand<std::byte>(instruction, Role::exp_avg),
          .exp_avg_sq = operand<std::byte>(instruction, Role::exp_avg_sq),
          .gradient = operand<std::byte>(instruction, Role::gradient),
          .parameter = parameter,
          .unit = static_cast<std::uint32_t>(instruction.unit)};
}

/// Calls update(state, decays) for each tensor of the instruction's unit, or the part of it that lies in this
/// rank's shard.
template <typename Update>
void Operations::update_tensors(const Instruction& instruction, const Update& update) const {
  AdamWState shard = state_of_unit(instruction);
  const FlatRange range = shard_of(unit(instruction), mesh(), mesh().shard_rank(setup_.rank));
  shard.first = range.first;
  for (const TensorPiece& piece : pieces_in(unit(instruction), range))
    update(shard.part(piece.at, piece.count()), setup_.optimizer.decay_all || piece.tensor->decay);
}

void Operations::update_on_device(const Instruction& instruction) {
  const auto* scalars = operand<StepScalars>(instruction, Role::step_scalars);
  update_tensors(instruction, [&](const AdamWState& state, bool decays) {
    kernels_.adamw({.scalars = scalars, .decay = decays, .state = state});
  });
}

void Operations::update_on_host(const Instruction& instruction) {
  const StepScalars& scalars = *value<StepScalars>(instruction, Role::step_scalars);
  workers_.execute([&] {
    update_tensors(instruction, [&](const AdamWState& state, bool decays) {
      meter().touch(state);
      if (scalars.skip != 0) return round_masters(state);
      adamw(decays ? scalars.decayed : scalars.plain, state);
    });
  });
}

}  // namespace strata
