// What operations do to the state that steps keep: norms and scalars, packed forms, updates, and saving it.
#include <algorithm>
#include <cmath>
#include <utility>

#include "base/nth.h"
#include "engine/device/elementwise_calls.h"
#include "engine/device/state_calls.h"
#include "engine/model/model.h"
#include "engine/run/execute/operations.h"
#include "optim/gradient_norm.h"
#include "optim/packing.h"
#include "optim/update.h"

namespace strata {
namespace {

/// Calls on the device what makes `out`, a row, of a stretch that is packed at `from`, with its scales.
void run_unpack(Kernels& kernels, const PackedStretch& stretch, std::byte* from, std::byte* scales,
                const Matrix& out) {
  const auto* codes = reinterpret_cast<const std::uint8_t*>(from);
  if (stretch.has_blocks()) {
    const BlockFormat format = stretch.block_format();
    return kernels.run(
        DecodeBlocks{.format = format,
                     .codes = span_of(codes, code_bytes(format, stretch.count)),
                     .scales = span_of(reinterpret_cast<const float*>(scales), stretch.blocks()),
                     .block = stretch.block,
                     .first = stretch.before,
                     .out = out});
  }
  if (stretch.has_codes()) {
    return kernels.run(DecodeFloat8{.codes = span_of(codes, stretch.count),
                                    .scale = reinterpret_cast<const Float8Factors*>(scales),
                                    .out = out});
  }
  kernels.run(Cast{{from, out.dtype, 1, stretch.count}, out});
}

}  // namespace

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

/// For updates, by their number in the step, that are decided by the norm of gradients whose loss had a
/// scale.
void Operations::write_scalars(const Operand& scalars, double norm, double scale, std::int64_t step,
                               std::int64_t update) const {
  const StepScalars to(span<std::byte>(scalars).data());
  const OptimizerSettings& optimizer = setup_.optimizer;
  const bool skip = !std::isfinite(norm);
  *to.skip() = skip ? 1U : 0U;
  const double rate = learning_rate(optimizer.schedule, step);
  for (std::size_t p = 0; p < optimizer.policies.size(); ++p) {
    *to.of_policy(p) = coefficients(
        {.policy = optimizer.policies[p],
         .learning_rate = rate,
         .gradient_scale = skip ? 0 : static_cast<float>(clip_factor(norm, optimizer.clip_norm) / scale),
         .step = (counters_.updates + step - counters_.step) * setup_.program->updates + update + 1,
         .seed = optimizer.seed});
  }
}

void Operations::stash(const Instruction& instruction) {
  if (instruction.lane != Lane::cpu)
    return kernels_.run(Cast{flat(instruction.reads[0]), flat(instruction.writes[0])});
  const Operand &source = instruction.reads[0], &destination = instruction.writes[0];
  const std::byte* from = address(source.buffer);
  std::byte* to = address(destination.buffer);
  meter().touch(from, source.bytes());
  meter().touch(to, destination.bytes());
  constexpr std::int64_t kPart = 256 * KiB;
  workers_.execute([&] {
    for_ranges(source.bytes(), kPart, [&](std::int64_t first, std::int64_t last, int) {
      std::copy(from + first, from + last, to + first);
    });
  });
}

void Operations::pack(const Instruction& instruction) {
  const UnitShare& unit = share(instruction);
  const Packing& packing = unit.trained;
  const std::size_t part = unit.part_of(packing);
  const Operand &source = instruction.reads[0], &destination = instruction.writes[0];
  auto* from = reinterpret_cast<bfloat16*>(address(source.buffer));
  std::byte* to = address(destination.buffer);
  if (instruction.lane == Lane::cpu) {
    meter().touch(from, source.bytes());
    meter().touch(to, destination.bytes());
    return workers_.execute([&] { strata::pack(packing, part, from, to); });
  }
  const auto row_of = [](bfloat16* elements, std::int64_t count) {
    return Matrix{elements, DType::bf16, 1, count};
  };
  for (const PackedStretch& stretch : packing.parts[part]) {
    const Matrix elements = row_of(from + stretch.first, stretch.count);
    if (stretch.has_codes()) {
      kernels_.run(
          EncodeFloat8{.x = elements,
                       .codes = span_of(reinterpret_cast<std::uint8_t*>(to + stretch.at), stretch.count),
                       .scale = reinterpret_cast<Float8Factors*>(to + stretch.scales_at)});
    } else {
      kernels_.run(Cast{elements, row_of(reinterpret_cast<bfloat16*>(to + stretch.at), stretch.count)});
    }
  }
}

/// All parts' elements are neighbours.
void Operations::unpack(const Instruction& instruction) {
  const Operand& whole = instruction.writes[0];
  const Packing& packing =
      share(instruction).packing(whole.role == Role::frozen ? Flat::frozen : Flat::trained);
  std::byte* packed = address(instruction.reads[0].buffer);
  std::byte* elements = address(whole.buffer);
  const Bytes size = size_of(packing.precision);
  for (const std::vector<PackedStretch>& part : packing.parts) {
    for (const PackedStretch& stretch : part) {
      run_unpack(kernels_, stretch, packed + stretch.at, packed + stretch.scales_at,
                 {elements + stretch.first * size, packing.precision, 1, stretch.count});
    }
    packed += packing.part_bytes;
    elements += packing.part_elements * size;
  }
}

void Operations::step_scalars(const Instruction& instruction, std::int64_t step) {
  write_scalars(*instruction.find_operand(Role::step_scalars), std::sqrt(squares(instruction)), 1, step,
                std::max(instruction.microbatch, 0));
}

void Operations::grad_norm(const Instruction& instruction, std::int64_t step) {
  auto* loss_scale = value<LossScale>(instruction, Role::loss_scale);
  const double scale = loss_scale == nullptr ? 1 : loss_scale->scale;
  const double norm = std::sqrt(squares(instruction) / static_cast<double>(setup_.program->updates)) / scale;
  report_.grad_norm = norm;
  report_.loss_scale = scale;
  report_.skipped = !std::isfinite(norm);
  report_.learning_rate = learning_rate(setup_.optimizer.schedule, step);
  if (const Operand* scalars = instruction.find_operand(Role::step_scalars))
    write_scalars(*scalars, norm, scale, step, 0);
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
    const Buffer& from = setup_.program->buffer(id);
    setup_.saver->copy(room, address(id), from);
    return std::exchange(room, room + from.bytes);
  };
  const auto add = [&](StateKey key, Role role) {
    const Operand* values = instruction.find_operand(role);
    if (values == nullptr) return;
    const std::byte* data = on_host(role);
    // A parameter that is saved for its own master has all of the unit.
    const bool is_piece = setup_.program->buffer(values->buffer).kind == BufferKind::optimizer_state;
    if (!is_piece) data += instruction.piece.first * size_of(values->type);
    const auto* parameter = reinterpret_cast<const bfloat16*>(on_host(Role::parameter));
    const StoredValues stored = {
        .as = stored_as(values->type),
        .values = data,
        .parameter = parameter == nullptr ? nullptr : parameter + instruction.piece.first,
        .packing = &share(instruction).frozen,
        .part = share(instruction).part_of(share(instruction).frozen)};
    setup_.saver->add(step + 1, static_cast<std::size_t>(instruction.unit), instruction.piece, key, stored);
  };
  add(StateKey::master, Role::master);
  for (const Moment moment : kMoments) add(key_of(moment), role_of(moment));
  add(StateKey::frozen, Role::frozen);
}

/// What the instruction's piece of a unit has.
OptimizerState Operations::state_of_piece(const Instruction& instruction) const {
  const Operand& parameter = *instruction.find_operand(Role::parameter);
  const Operand& gradient = *instruction.find_operand(Role::gradient);
  const Operand* master = instruction.find_operand(Role::master);
  const bool is_split = master != nullptr && master->type == ElementType::low_half;
  const std::int64_t first = instruction.piece.first;
  std::byte* updated = address(parameter.buffer) + first * size_of(parameter.type);
  OptimizerState state = {
      .precision = dtype_of(parameter.type),
      .format = {.split_master = is_split},
      .elements = instruction.piece.is_all() ? parameter.elements : instruction.piece.count,
      .master = master == nullptr ? updated : address(master->buffer),
      .gradient = address(gradient.buffer) + first * size_of(gradient.type),
      .parameter = updated,
      .unit = static_cast<std::uint32_t>(instruction.unit),
      .first = share(instruction).first + first};
  for (const Moment moment : kMoments) {
    const Operand* stored = instruction.find_operand(role_of(moment));
    if (stored == nullptr) continue;
    state.format.moments = dtype_of(stored->type);
    state.of(moment) = address(stored->buffer);
  }
  return state;
}

/// Calls update(state, number of the policy) for each part of the instruction's unit that one policy updates,
/// as far as it lies in the instruction's piece of this rank's shard.
template <typename Update>
void Operations::update_parts(const Instruction& instruction, const Update& update) const {
  const OptimizerState piece = state_of_piece(instruction);
  const std::int64_t begin = instruction.piece.first, end = begin + piece.elements;
  for (const UpdatedPart& part : share(instruction).parts) {
    const std::int64_t first = std::max(part.at, begin), last = std::min(part.end(), end);
    if (first >= last) continue;
    OptimizerState state = piece.part(first - begin, last - first);
    state.rule = setup_.optimizer.policies[part.policy].rule;
    update(state, part.policy);
  }
}

void Operations::update_on_device(const Instruction& instruction) {
  const StepScalars scalars(operand<std::byte>(instruction, Role::step_scalars));
  update_parts(instruction, [&](const OptimizerState& state, std::size_t policy) {
    kernels_.run(ParameterUpdate{.skip = scalars.skip(), .step = scalars.of_policy(policy), .state = state});
  });
}

void Operations::update_on_host(const Instruction& instruction) {
  const StepScalars scalars(span<std::byte>(*instruction.find_operand(Role::step_scalars)).data());
  workers_.execute([&] {
    update_parts(instruction, [&](const OptimizerState& state, std::size_t policy) {
      meter().touch(state);
      if (*scalars.skip() != 0) return round_masters(state);
      update(*scalars.of_policy(policy), state);
    });
  });
}

}  // namespace strata
