// Updates of a piece of a unit, on the host and on the device, and what comes before those of whole tensors.
#include <algorithm>
#include <optional>

#include "engine/device/direction.h"
#include "engine/device/elementwise_calls.h"
#include "engine/device/state_calls.h"
#include "engine/run/execute/operations/kinds.h"
#include "optim/momentum.h"
#include "optim/update.h"

namespace strata::operations {
namespace {

/// How an update finds masters. A parameter without one is its own.
MasterFormat format_of(const Operand* master, DType precision) {
  if (master == nullptr) return precision == DType::fp32 ? MasterFormat::fp32 : MasterFormat::none;
  return master->type == ElementType::low_half ? MasterFormat::split : MasterFormat::fp32;
}

/// The instruction's piece of a unit, without moments. Only an update has a parameter and its master.
OptimizerState state_of_piece(const OperationContext& on, const Instruction& instruction) {
  const Operand* parameter = instruction.find_operand(Role::parameter);
  const Operand& gradient = *instruction.find_operand(Role::gradient);
  const Operand* master = instruction.find_operand(Role::master);
  const std::int64_t first = instruction.piece.first;
  std::byte* updated =
      parameter == nullptr ? nullptr : on.address(parameter->buffer) + first * size_of(parameter->type);
  return {.precision = dtype_of(gradient.type),
          .format = {.master = format_of(master, dtype_of(gradient.type))},
          .elements = instruction.piece.is_all() ? gradient.elements : instruction.piece.count,
          .master = master == nullptr ? updated : on.address(master->buffer),
          .gradient = on.address(gradient.buffer) + first * size_of(gradient.type),
          .parameter = updated,
          .unit = static_cast<std::uint32_t>(instruction.unit),
          .first = on.share(instruction).first + first};
}

/// Gives a part of a piece, `at` elements behind the shard's first, those moments that are among the
/// instruction's operands.
void add_moments(const OperationContext& on, const Instruction& instruction, Moments moments, std::int64_t at,
                 OptimizerState& state) {
  moments.for_each([&](Moment moment) {
    const Operand* stored = instruction.find_operand(role_of(moment));
    if (stored == nullptr) return;
    const std::int64_t begin = std::max(on.share(instruction).kept[moment].first, instruction.piece.first);
    MomentFormat& format = moment == Moment::ema ? state.format.average : state.format.moments;
    format = std::max(format, moment_format_of(stored->type));  // a slow mean may have more bits than others
    state.of(moment) = on.address(stored->buffer) + state.format.moment_offset(moment, begin, at);
  });
}

/// Calls update(state, number of the policy) for each part of the instruction's unit that one policy updates,
/// as far as it lies in the instruction's piece of this rank's shard. The state has those `moments_of(rule)`
/// that are among the operands.
template <typename Update, typename MomentsOf>
void update_parts(const OperationContext& on, const Instruction& instruction, const MomentsOf& moments_of,
                  const Update& update) {
  const OptimizerState piece = state_of_piece(on, instruction);
  const std::int64_t begin = instruction.piece.first, end = begin + piece.elements;
  for (const UpdatedPart& part : on.share(instruction).parts) {
    const std::int64_t first = std::max(part.at, begin), last = std::min(part.end(), end);
    const UpdateRule rule = on.setup.optimizer.policies[part.policy].rule;
    const std::optional<Moments> moments = moments_of(rule);
    if (first >= last || !moments) continue;
    OptimizerState state = piece.part(first - begin, last - first);
    state.rule = rule;
    add_moments(on, instruction, *moments, first, state);
    update(state, part.policy);
  }
}

/// In the gradient's place.
Matrix direction_of(const OptimizerState& state) {
  return {const_cast<void*>(state.gradient), state.precision, 1, state.elements};
}

/// Calls visit(block of a rank's part, the same block of the whole matrix). The rank has its part at `data`.
template <typename Visit>
void for_each_block(const MatrixPart& part, const Matrix& whole, std::byte* data, const Visit& visit) {
  std::int64_t columns = 0;
  for (const Stretch& stretch : part.columns) columns += stretch.count;
  std::int64_t row = 0;
  for (const Stretch& rows : part.rows) {
    const Matrix of_rank(data + row * columns * size_of(whole.dtype), whole.dtype, rows.count, columns);
    std::int64_t column = 0;
    for (const Stretch& stretch : part.columns) {
      visit(of_rank.column_slice(column, stretch.count),
            whole.row_slice(rows.first, rows.count).column_slice(stretch.first, stretch.count));
      column += stretch.count;
    }
    row += rows.count;
  }
}

/// So that their sum over ranks has each factor from the rank that has changed it.
void zero_factors_of_others(OperationContext& on, const UnitShare& share, const Operand& factors) {
  const Matrix all = on.flat(factors);
  std::int64_t begin = 0;
  const auto zero_up_to = [&](std::int64_t end) {
    if (begin < end) on.kernels.run(Zero{all.column_slice(begin, end - begin)});
  };
  for (const UpdatedMatrix& matrix : share.matrices) {
    if (matrix.own_factors == 0) continue;
    zero_up_to(matrix.factors);
    begin = matrix.factors + matrix.own_factors;
  }
  zero_up_to(all.columns);
}

std::optional<Moments> moments_of_step(UpdateRule rule) {
  return stepped_moments(rule) | Moments{Moment::ema};
}

/// Nothing for a rule that has no momentum of matrices.
std::optional<Moments> moments_of_mix(UpdateRule rule) {
  return orthogonalizes(rule) ? std::optional(Moments{kMixedMoment}) : std::nullopt;
}

}  // namespace

void update_on_device(OperationContext& on, const Instruction& instruction) {
  const StepScalars scalars(on.operand<std::byte>(instruction, Role::step_scalars));
  update_parts(on, instruction, moments_of_step, [&](const OptimizerState& state, std::size_t policy) {
    on.kernels.run(ParameterUpdate{.skip = scalars.skip(),
                                   .step = scalars.of_policy(policy),
                                   .average = scalars.average(),
                                   .state = state});
  });
}

void update_on_host(OperationContext& on, const Instruction& instruction) {
  const StepScalars scalars(on.span<std::byte>(*instruction.find_operand(Role::step_scalars)).data());
  on.workers.execute([&] {
    update_parts(on, instruction, moments_of_step, [&](const OptimizerState& state, std::size_t policy) {
      on.meter().touch(state);
      if (*scalars.skip() != 0) return round_masters(state);
      update(*scalars.of_policy(policy), state, *scalars.average());
    });
  });
}

void mix_momentum_on_device(OperationContext& on, const Instruction& instruction) {
  const StepScalars scalars(on.operand<std::byte>(instruction, Role::step_scalars));
  update_parts(on, instruction, moments_of_mix, [&](const OptimizerState& state, std::size_t policy) {
    on.kernels.run(MomentumMix{.skip = scalars.skip(),
                               .step = scalars.of_policy(policy),
                               .state = state,
                               .direction = direction_of(state)});
  });
}

void mix_momentum_on_host(OperationContext& on, const Instruction& instruction) {
  const StepScalars scalars(on.span<std::byte>(*instruction.find_operand(Role::step_scalars)).data());
  on.workers.execute([&] {
    update_parts(on, instruction, moments_of_mix, [&](const OptimizerState& state, std::size_t policy) {
      on.meter().touch(state);
      if (*scalars.skip() == 0) mix_momentum(*scalars.of_policy(policy), state, direction_of(state).data);
    });
  });
}

void precondition(OperationContext& on, const Instruction& instruction) {
  const UnitShare& share = on.share(instruction);
  const Operand& gradient = *instruction.find_operand(Role::gradient);
  const Operand* gathered = instruction.find_operand(Role::source);
  const Operand& source = gathered == nullptr ? gradient : *gathered;
  const Bytes element = size_of(source.type);
  const std::int64_t elements =
      source.elements / (gathered == nullptr ? 1 : share.tensor_ranks);  // of a rank
  std::byte* all = on.address(source.buffer);
  const auto directions_of = [&](std::int64_t rank) { return all + rank * elements * element; };
  std::byte* own = gathered == nullptr ? all : directions_of(share.tensor_rank);
  auto* workspace = on.operand<std::byte>(instruction, Role::workspace);
  const std::int64_t begin = share.of_others ? 0 : share.first;  // of the operand `gradient`, in the unit
  auto* factors = on.operand<float>(instruction, Role::factors);
  const StepScalars scalars(on.operand<std::byte>(instruction, Role::step_scalars));
  const auto direct = [&](const UpdatedMatrix& matrix, const Matrix& whole, std::byte* free) {
    DirectionRule rule = {.rule = matrix.rule, .is_vector = matrix.is_vector};
    if (keeps_factors(matrix.rule)) {
      rule.skip = scalars.skip();
      rule.step = scalars.of_policy(matrix.policy);
      rule.factors = factors + matrix.factors;
    }
    find_direction(on.kernels, rule, whole, free);
  };
  for (const UpdatedMatrix& matrix : share.matrices) {
    const DType dtype = dtype_of(source.type);
    if (matrix.is_whole()) {
      direct(matrix, {own + matrix.offset * element, dtype, matrix.rows, matrix.columns}, workspace);
    } else {
      const Matrix whole(workspace, dtype, matrix.rows, matrix.columns);
      for (std::int64_t rank = 0; rank < share.tensor_ranks; ++rank) {
        const MatrixPart part = matrix.part_of(rank, share.tensor_rank, share.tensor_ranks);
        for_each_block(part, whole, directions_of(rank) + matrix.offset * element,
                       [&](const Matrix& of_rank, const Matrix& of_whole) {
                         on.kernels.run(Cast{of_rank, of_whole});
                       });
      }
      direct(matrix, whole, workspace + assembled_bytes(matrix, dtype));
      for_each_block(matrix.part, whole, own + matrix.offset * element,
                     [&](const Matrix& of_rank, const Matrix& of_whole) {
                       on.kernels.run(Cast{of_whole, of_rank});
                     });
    }
    if (gathered == nullptr) continue;
    const std::int64_t first = std::max(matrix.offset, begin),
                       end = std::min(matrix.offset + matrix.own_elements(), begin + gradient.elements);
    if (first >= end) continue;
    const Matrix to = on.flat(gradient).column_slice(first - begin, end - first);
    on.kernels.run(Cast{{own + first * element, dtype, 1, end - first}, to});
  }
  if (!share.of_others) return;
  if (factors != nullptr) zero_factors_of_others(on, share, *instruction.find_operand(Role::factors));
  for (const auto [first, count] : *share.of_others)
    on.kernels.run(Zero{on.flat(gradient).column_slice(first, count)});
}

}  // namespace strata::operations
