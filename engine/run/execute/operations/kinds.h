// What each operation does, in a file for each kind. An operation of a device's lane is issued to that lane's
// stream; one of a host's lane is done when its function returns.
#pragma once

#include <cstdint>

#include "engine/run/execute/operations/context.h"

namespace strata::operations {

// moves.cpp
void copy(OperationContext& on, const Instruction& instruction);
void read(OperationContext& on, const Instruction& instruction);
void write(OperationContext& on, const Instruction& instruction);
void stash(OperationContext& on, const Instruction& instruction);

// passes.cpp
void run_pass(OperationContext& on, const Instruction& instruction, std::int64_t step);
void cast_gradient(OperationContext& on, const Instruction& instruction);
void add_gradient(OperationContext& on, const Instruction& instruction);

// rows.cpp
void list_rows(OperationContext& on, const Instruction& instruction);
void copy_rows(OperationContext& on, const Instruction& instruction);
void sum_rows(OperationContext& on, const Instruction& instruction);

// exchanges.cpp
void pass_on(OperationContext& on, const Instruction& instruction);
void pass_around(OperationContext& on, const Instruction& instruction);
void exchange(OperationContext& on, const Instruction& instruction);

// losses.cpp
void load_data(OperationContext& on, const Instruction& instruction, std::int64_t step);
void sum_losses(OperationContext& on, const Instruction& instruction, std::int64_t step);
void loss(OperationContext& on, const Instruction& instruction, std::int64_t step);

// samples.cpp
void join_logits(OperationContext& on, const Instruction& instruction);
void choose_tokens(OperationContext& on, const Instruction& instruction);
void take_tokens(OperationContext& on, const Instruction& instruction);

// norms.cpp
void sum_squares(OperationContext& on, const Instruction& instruction);
void sum_norms(OperationContext& on, const Instruction& instruction);
void step_scalars(OperationContext& on, const Instruction& instruction, std::int64_t step);
void grad_norm(OperationContext& on, const Instruction& instruction, std::int64_t step);

// packing.cpp
void pack(OperationContext& on, const Instruction& instruction);
void unpack(OperationContext& on, const Instruction& instruction);

// saving.cpp
void save(OperationContext& on, const Instruction& instruction, std::int64_t step);

// updates.cpp
void update_on_device(OperationContext& on, const Instruction& instruction);
void update_on_host(OperationContext& on, const Instruction& instruction);
void mix_momentum_on_device(OperationContext& on, const Instruction& instruction);
void mix_momentum_on_host(OperationContext& on, const Instruction& instruction);
void precondition(OperationContext& on, const Instruction& instruction);

}  // namespace strata::operations
