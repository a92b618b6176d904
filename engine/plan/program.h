// The program of a training step: buffers and instructions as plain values. Program order is the meaning: a
// program computes what its instructions compute one at a time, in order. Passes rewrite it, the executor
// runs it, print() shows it.
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"

namespace strata {

/// From the nearest to the farthest.
enum class Tier : std::uint8_t { device, host, nvme };
inline constexpr std::array kTiers = {Tier::device, Tier::host, Tier::nvme};

/// What works by itself. A lane runs its instructions in program order.
enum class Lane : std::uint8_t {
  compute,
  h2d,
  d2h,
  comm,   ///< between ranks
  read,   ///< from the nvme tier
  write,  ///< to it
  data,   ///< loads tokens
  cpu,
  save  ///< writes checkpoints
};
inline constexpr std::array kLanes = {Lane::compute, Lane::h2d,  Lane::d2h, Lane::comm, Lane::read,
                                      Lane::write,   Lane::data, Lane::cpu, Lane::save};

enum class BufferKind : std::uint8_t {
  parameter,
  gradient,
  optimizer_state,
  activation,
  workspace,
  communication
};
inline constexpr std::array kBufferKinds = {BufferKind::parameter,       BufferKind::gradient,
                                            BufferKind::optimizer_state, BufferKind::activation,
                                            BufferKind::workspace,       BufferKind::communication};

enum class Operation : std::uint8_t {
  load_tokens,     ///< read the microbatch's tokens and targets into host memory
  copy_to_device,  ///< source → destination
  copy_to_host,
  read,  ///< nvme source → host destination
  write,
  zero,               ///< clear the unit's gradient accumulator
  forward,            ///< of one unit and microbatch
  backward,           ///< recomputes what was not saved; the head's includes its forward and the loss
  cast_gradient,      ///< fp32 accumulator → the dtype that travels
  list_rows,          ///< the microbatches' tokens → the rows of the embedding that they touch
  copy_rows,          ///< those rows of its gradient, in the dtype in which ranks add them
  sum_rows,           ///< all ranks' rows → the sum of their gradients
  sum_of_squares,     ///< of the unit's gradient
  all_gather,         ///< shards → the whole
  reduce_scatter,     ///< every rank's whole → shards of the sum
  all_reduce,         ///< every rank's → the sum, in place
  sum_losses,         ///< tokens' losses → the step's sums
  loss,               ///< the step's mean loss, from the sums of all ranks
  step_scalars,       ///< learning rate and skip of one unit's update, from its own norm
  grad_norm,          ///< the global norm; where updates wait for it also their scalars
  adamw,              ///< of one unit's state
  save,               ///< one part of a unit's state, or the step's record, → the checkpoint being written
  finish_checkpoint,  ///< it is on the disk and whole
};

/// Whether it brings one buffer's contents to another tier.
constexpr bool is_transfer(Operation operation) {
  return operation == Operation::copy_to_device || operation == Operation::copy_to_host ||
         operation == Operation::read || operation == Operation::write;
}

/// Which steps perform an instruction; in the others it does nothing, in its order and with its dependencies.
enum class When : std::uint8_t { every_step, saving };

/// What a buffer is to an instruction.
enum class Role : std::uint8_t {
  source,
  destination,
  parameter,
  shared_parameter,
  gradient,
  shared_gradient,
  rows,        ///< their numbers
  row_values,  ///< what stands in them
  input,
  output,
  output_gradient,
  input_gradient,
  saved,
  workspace,
  constants,
  tokens,
  targets,
  losses,
  master,
  exp_avg,
  exp_avg_sq,
  norm,
  step_sums,
  step_scalars,
  loss_scale,
  step_record,
};

/// Which ranks an instruction exchanges values with, if any.
enum class Group : std::uint8_t {
  none,
  shard,      ///< those that hold the other shards of the same state
  replicate,  ///< those that hold the same shard
  world
};

std::string_view name_of(Tier tier);
std::string_view name_of(Lane lane);
std::string_view name_of(BufferKind kind);
std::string_view name_of(Operation operation);
std::string_view name_of(Role role);
std::string_view name_of(Group group);

using BufferId = std::int32_t;

/// Offsets and sizes of all buffers are multiples of it: what files that bypass the page cache ask for, so
/// that a buffer can live on any tier.
constexpr Bytes kBufferAlignment = 4096;

struct Buffer {
  std::string name;  ///< "block.7/parameter", "block.7/input[mb=2]"
  Tier tier = Tier::device;
  BufferKind kind = BufferKind::activation;
  Bytes bytes = 0;
  bool persistent =
      false;          ///< keeps its contents from step to step, and its place in every program of the run
  Bytes offset = -1;  ///< in its tier's arena; the memory pass sets it
  friend bool operator==(const Buffer&, const Buffer&) = default;
};

struct Operand {
  Role role;
  BufferId buffer;
  friend bool operator==(const Operand&, const Operand&) = default;
};

struct Exchange {
  Group group = Group::none;
  Bytes sent = 0;  ///< by each rank of the group
  friend bool operator==(const Exchange&, const Exchange&) = default;
};

struct Instruction {
  Operation operation = Operation::forward;
  Lane lane = Lane::compute;
  std::int32_t unit = -1;                        ///< index in Model::units, or -1
  std::int32_t microbatch = -1;                  ///< or -1
  std::vector<Operand> reads = {}, writes = {};  ///< a buffer that is updated in place stands in both
  When when = When::every_step;
  Exchange exchange = {};
  friend bool operator==(const Instruction&, const Instruction&) = default;

  /// The buffer in `role`, or -1. A role stands for one buffer per instruction, whether read or written.
  BufferId find(Role role) const;
};

struct Program {
  std::vector<Buffer> buffers;
  std::vector<Instruction> instructions;
  std::vector<std::string> units;  ///< names, for printing

  const Buffer& buffer(BufferId id) const { return buffers[static_cast<std::size_t>(id)]; }
  Buffer& buffer(BufferId id) { return buffers[static_cast<std::size_t>(id)]; }
  BufferId add(Buffer buffer);
  friend bool operator==(const Program&, const Program&) = default;
};

/// Calls visit(operand, writes) for every operand; a buffer read and written is visited twice.
template <typename Visit>
void for_each_operand(const Instruction& instruction, Visit&& visit) {
  for (const Operand& operand : instruction.reads) visit(operand, false);
  for (const Operand& operand : instruction.writes) visit(operand, true);
}

/// First and last instruction that touches each buffer; persistent buffers live throughout; {0, -1}: never
/// touched.
struct Lifetime {
  std::int32_t first = 0, last = -1;
  bool overlaps(const Lifetime& other) const { return first <= other.last && other.first <= last; }
};
std::vector<Lifetime> lifetimes(const Program& program);

/// One instruction per line: "forward block.3 mb=2 | parameter=block.3/parameter#12 … ->
/// output=block.4/input[mb=2]#40".
std::string print(const Program& program);
std::string print(const Program& program, const Instruction& instruction);

}  // namespace strata
