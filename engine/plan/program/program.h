// The program of a training step: buffers and instructions as plain values. Program order is the meaning: a
// program computes what its instructions compute one at a time, in order. It holds all that the executor
// needs to know of the model and its training, except what differs between ranks. Passes rewrite it, the
// executor runs it, print() shows it.
#pragma once

#include <array>
#include <boost/container/small_vector.hpp>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "base/enum_array.h"
#include "base/nth.h"
#include "base/shared_text.h"
#include "engine/plan/program/element_type.h"
#include "engine/plan/program/work.h"
#include "optim/state_key.h"
#include "optim/update_rule.h"

namespace strata {

/// From the nearest to the farthest.
enum class Tier : std::uint8_t { device, host, nvme };
inline constexpr std::array kTiers = {Tier::device, Tier::host, Tier::nvme};
constexpr const auto& values_of(Tier) {
  return kTiers;
}

/// What works by itself. A lane runs its instructions in program order.
enum class Lane : std::uint8_t {
  compute,
  h2d,
  d2h,
  comm,     ///< between ranks, together
  send,     ///< to another stage of a pipeline
  receive,  ///< from one; if it waits, nothing else does
  tensor,   ///< between ranks that share a unit's passes
  context,  ///< between ranks that share sequences
  read,     ///< from the nvme tier
  write,    ///< to it
  data,     ///< loads what microbatches bring
  cpu,
  save  ///< writes checkpoints
};
inline constexpr std::array kLanes = {Lane::compute, Lane::h2d,    Lane::d2h,     Lane::comm, Lane::send,
                                      Lane::receive, Lane::tensor, Lane::context, Lane::read, Lane::write,
                                      Lane::data,    Lane::cpu,    Lane::save};
constexpr const auto& values_of(Lane) {
  return kLanes;
}

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
constexpr const auto& values_of(BufferKind) {
  return kBufferKinds;
}

enum class Operation : std::uint8_t {
  load_data,       ///< read the microbatch's data into host memory
  copy_to_device,  ///< source → destination
  copy_to_host,
  read,  ///< nvme source → host destination
  write,
  forward,          ///< of one unit and microbatch
  backward,         ///< recomputes what was not saved; the last unit's includes its forward and the loss. A
                    ///< gradient of parameters that it only writes holds nothing before: a step's first pass
  input_gradient,   ///< a backward pass without what only gradients of parameters need,
  weight_gradient,  ///< and that
  cast_gradient,    ///< fp32 accumulator → the dtype that travels
  list_rows,       ///< numbers in the microbatches' data → the rows of the unit's gradient that have values
  copy_rows,       ///< those rows of the gradient, in the dtype in which ranks add them
  sum_rows,        ///< the group's rows → this rank's part of the sum of their gradients
  sum_of_squares,  ///< of the unit's gradient
  all_gather,      ///< shards → the whole
  reduce_scatter,  ///< every rank's whole → shards of the sum
  all_reduce,      ///< every rank's → the sum, in place
  ring_shift,      ///< every rank's → the next rank's, and the last one's → the first's
  send,            ///< to one rank of the group, which receives it
  receive,
  add_gradient,   ///< what another stage has given → the unit's accumulator
  sum_norms,      ///< the sums of squares of this stage's units → their sum
  sum_losses,     ///< the microbatches' losses → the step's sums
  loss,           ///< the step's mean loss, from the sums of all ranks
  join_logits,    ///< this rank's columns of logits → all of them in fp32, zeros where others' are
  choose_tokens,  ///< logits → the tokens that follow this rank's samples, zeros for those of others
  take_tokens,    ///< the tokens of all ranks → the samples, each longer by one
  step_scalars,   ///< learning rate and skip of one unit's update, from its own norm
  stash,          ///< a unit's parameters as they are → a copy for passes behind their next update
  pack,           ///< the parameters that an update has made → what the rank keeps of them
  unpack,         ///< what is kept, of all ranks → the parameters that passes read
  grad_norm,      ///< the global norm; if updates wait for it also their scalars
  mix_momentum,  ///< of a unit's matrices: the gradient → the momentum buffer, and a direction in its place
  precondition,  ///< makes the directions of whole tensors
  update,        ///< of one unit's state and parameters, by their rules
  save,          ///< one part of a unit's state, or the step's record, → the checkpoint being written
  finish_checkpoint,  ///< it is on the disk and whole
};

inline constexpr std::size_t kOperations = ordinal(Operation::finish_checkpoint) + 1;

/// Whether it brings one buffer's contents to another tier.
constexpr bool is_transfer(Operation operation) {
  return operation == Operation::copy_to_device || operation == Operation::copy_to_host ||
         operation == Operation::read || operation == Operation::write;
}

/// Whether it goes from one rank to another.
constexpr bool is_message(Operation operation) {
  return operation == Operation::send || operation == Operation::receive;
}

/// Which steps perform an instruction; in the others it does nothing, in its order and with its dependencies.
enum class When : std::uint8_t { every_step, saving };

/// Which step an instruction works for, of the two that meet in a round of the program: rounds.h.
enum class Serves : std::uint8_t {
  step,         ///< the round's own
  step_before,  ///< what it leaves to the round behind its own: updates right before the next forward pass,
                ///< or all that its first forward passes of a round are followed by
  both,         ///< a fetch for instructions of either
  first_step    ///< a fetch of what in other rounds an instruction of the step before makes
};

/// What an instruction is to the run, besides what it writes.
enum class Effect : std::uint8_t {
  none,
  decides,  ///< from here on the step is finished, whatever happens
  reports   ///< decides, and what the run tells of the step is complete
};

/// What a buffer is to an instruction.
enum class Role : std::uint8_t {
  source,
  destination,
  parameter,
  shared_parameter,
  frozen,
  shared_frozen,
  gradient,
  shared_gradient,
  rows,        ///< their numbers
  row_values,  ///< what stands in them
  input,
  output,
  output_gradient,
  input_gradient,
  saved,
  pending,
  workspace,
  constants,
  data_0,  ///< in the order of Region
  data_1,
  data_2,
  data_3,
  losses,
  logits,
  master,
  factors,
  moment,  ///< the first; the others follow, in the order of Moment
  norm = moment + kMoments.size(),
  step_sums,
  step_scalars,
  loss_scale,
  step_record,
  tally,   ///< what a microbatch's forward passes add up for its later passes
  ring_0,  ///< what goes from rank to rank within a pass, in the order of Region
  ring_1,
  ring_2,
  ring_3,
};

constexpr Role role_of(Moment moment) {
  return static_cast<Role>(static_cast<int>(Role::moment) + static_cast<int>(moment));
}

std::string_view name_of(Tier tier);
std::string_view name_of(Lane lane);
std::string_view name_of(BufferKind kind);
std::string_view name_of(Operation operation);
std::string_view name_of(Role role);
std::string_view name_of(Effect effect);
/// As it is appended to what serves; empty for the round's own step.
std::string_view text_of(Serves serves);

using BufferId = std::int32_t;

/// Offsets and sizes of all buffers are multiples of it: what files that bypass the page cache ask for, so
/// that a buffer can live on any tier.
constexpr Bytes kBufferAlignment = 4096;

/// Where a plan before has put what stays from step to step.
struct Pin {
  Tier tier = Tier::device;
  Bytes offset = -1;
  friend bool operator==(const Pin&, const Pin&) = default;
};

struct Buffer {
  SharedText name;  ///< "unit.7/parameter", "unit.7/input[mb=2]"
  Tier tier = Tier::device;
  BufferKind kind = BufferKind::activation;
  Bytes bytes = 0;
  bool persistent =
      false;          ///< keeps its contents from step to step, and its place in every program of the run
  Bytes offset = -1;  ///< in its tier's arena; the memory pass sets it
  /// Keeps its contents from where a step makes them to where the next round uses them for that step.
  bool carried = false;
  /// Persistent, but made anew by each step behind its last use in that: others may have its place meanwhile.
  bool renewed = false;
  bool apart = false;  ///< shares no bytes with others, so that nothing but its contents is waited for
  std::optional<Pin> pin = {};  ///< of a persistent buffer that must be in its place already
  friend bool operator==(const Buffer&, const Buffer&) = default;
};

/// The beginning of a buffer, or a stretch of a workspace; what is behind the elements is of no meaning.
struct Operand {
  Role role;
  ElementType type = ElementType::byte;
  BufferId buffer = -1;
  std::int64_t elements = 0;
  Bytes offset = 0;  ///< from the buffer's start

  Bytes bytes() const { return elements * size_of(type); }
  friend bool operator==(const Operand&, const Operand&) = default;
};

/// Most instructions have one or two of a kind.
using OperandList = boost::container::small_vector<Operand, 2>;

/// Ranks that exchange values: those along one axis of the mesh. A group is all `sets` of ranks that do the
/// same at once, and each rank is in one of them.
struct RankGroup {
  std::string name;
  std::int64_t sets = 1;
  std::int64_t ranks = 1;   ///< of each set
  std::int64_t stride = 1;  ///< from one rank of a set to the next
  friend bool operator==(const RankGroup&, const RankGroup&) = default;

  std::int64_t set_of(std::int64_t rank) const { return rank / (stride * ranks) * stride + rank % stride; }
  /// The rank's place in its set.
  std::int64_t part_of(std::int64_t rank) const { return rank / stride % ranks; }
};

/// A stretch of the elements that a rank has of a unit; without a count all of them.
struct Piece {
  std::int64_t first = 0, count = 0;
  friend bool operator==(const Piece&, const Piece&) = default;

  bool is_all() const { return count == 0; }
};

struct Exchange {
  std::int32_t group = -1;  ///< index in Program::groups, or -1
  std::int32_t peer = -1;   ///< of a message: the other's part of the group
  Bytes sent = 0;           ///< by each rank of the group; 0: the instruction works on what was sent
  friend bool operator==(const Exchange&, const Exchange&) = default;
};

struct Instruction {
  Operation operation = Operation::forward;
  Lane lane = Lane::compute;
  std::int32_t unit = -1;               ///< index in Program::units, or -1
  std::int32_t microbatch = -1;         ///< or -1
  OperandList reads = {}, writes = {};  ///< a buffer that is updated in place stands in both
  When when = When::every_step;
  Exchange exchange = {};
  Effect effect = Effect::none;
  double flops = 0;        ///< that it executes
  std::int32_t work = -1;  ///< of a pass: its number in Program::works
  /// How much of the unit's activations a forward or backward pass saves or finds saved: a number in
  /// UnitPasses::levels.
  std::int32_t saved_level = 0;
  std::int32_t segment = 0;  ///< of the pass
  Serves serves = Serves::step;
  /// What it updates or saves. Its operands of optimizer state have that alone, others have all of the unit.
  Piece piece = {};
  std::int32_t model = 0;  ///< whose step it is part of, if the program is one of several models
  friend bool operator==(const Instruction&, const Instruction&) = default;

  /// The buffer in `role`, or -1. A role stands for one buffer per instruction, whether read or written.
  BufferId find(Role role) const;
  /// The operand in `role`, or null.
  const Operand* find_operand(Role role) const;
  /// Whether other ranks have a part in it, by a message or an exchange.
  bool meets_ranks() const { return is_message(operation) || exchange.sent > 0; }
  /// Whether steps that save nothing perform it, too, and not only the first.
  bool is_of_every_step() const { return when == When::every_step && serves != Serves::first_step; }
};

/// A persistent buffer, and what is in it.
struct StateEntry {
  StateKey part = StateKey::parameter;  ///< a parameter that is its own master is a master
  std::int32_t unit = -1;               ///< or -1
  bool is_whole = false;                ///< all of a unit's elements, though each rank has a shard
  ElementType type = ElementType::byte;
  BufferId buffer = -1;
  Piece piece = {};        ///< of what the rank has; a part's pieces follow one another
  std::int32_t model = 0;  ///< as an instruction's
  friend bool operator==(const StateEntry&, const StateEntry&) = default;
};

struct Program {
  std::vector<Buffer> buffers;
  std::vector<Instruction> instructions;
  std::vector<std::string> units;  ///< names, for printing
  Works works;
  std::vector<RankGroup> groups;
  /// Where state lives. Of a unit's parameter, the places that updates write come first.
  std::vector<StateEntry> state;
  std::int64_t loss_terms = 0;  ///< of all ranks: the loss is the mean over them; 0 of several models'
  std::int64_t updates = 1;     ///< of each unit in a step, each of equally many of the loss's terms

  const Buffer& buffer(BufferId id) const { return nth(buffers, id); }
  Buffer& buffer(BufferId id) { return nth(buffers, id); }
  BufferId add(Buffer buffer);
  /// Everything but buffers and instructions.
  Program outline() const;
  friend bool operator==(const Program&, const Program&) = default;
};

/// Calls visit(operand, writes) for every operand; a buffer read and written is visited twice.
template <typename Visit>
void for_each_operand(const Instruction& instruction, Visit&& visit) {
  for (const Operand& operand : instruction.reads) visit(operand, false);
  for (const Operand& operand : instruction.writes) visit(operand, true);
}

/// Calls rename(id) for each buffer that instructions and state name, and puts what it returns there.
template <typename Rename>
void rename_buffers(Program& program, const Rename& rename) {
  for (Instruction& instruction : program.instructions) {
    for (Operand& operand : instruction.reads) operand.buffer = rename(operand.buffer);
    for (Operand& operand : instruction.writes) operand.buffer = rename(operand.buffer);
  }
  for (StateEntry& place : program.state) place.buffer = rename(place.buffer);
}

/// FLOPs of all instructions that run in every step, in whatever order.
double executed_flops(const Program& program);

/// First and last instruction that touches a buffer; {0, -1}: never touched. A carried buffer is first
/// touched by the step that makes it and last in the next round, before that: then `last` is less than
/// `first`. The same holds for a renewed buffer.
struct Lifetime {
  std::int32_t first = 0, last = -1;

  bool is_empty() const { return last < 0; }
  bool wraps() const { return !is_empty() && last < first; }
  /// Calls visit(first, last) for the stretches of a round of `count` instructions that it is made of.
  template <typename Visit>
  void for_each_stretch(std::int32_t count, Visit&& visit) const {
    if (is_empty()) return;
    if (wraps()) visit(0, last);
    visit(first, wraps() ? count - 1 : last);
  }
};

/// Persistent buffers that are not renewed, and those apart, live throughout.
std::vector<Lifetime> lifetimes(const Program& program);

/// Marks the persistent buffers of a plain program of one model that every round makes anew after their last
/// use. These are parameters that are rounded copies of masters, if updates are of the round's own step.
void mark_renewed(Program& program);

/// Whether others never have its place.
inline bool is_there_throughout(const Buffer& buffer, const Lifetime& live) {
  return buffer.apart || (buffer.persistent && !live.wraps());
}

/// Finds lifetimes from touches in any order, at positions that may be others than those of instructions.
class LifetimeFinder {
 public:
  /// REQUIRES: the program outlives this.
  explicit LifetimeFinder(const Program& program);

  void touch(BufferId id, std::int32_t position, Serves serves, bool writes);
  /// The lifetimes, at positions below `count`.
  std::vector<Lifetime> find(std::int32_t count) const;

 private:
  struct Touches {
    Lifetime of_step, of_step_before;
  };
  /// This is where a renewed buffer is touched.
  struct Use {
    BufferId buffer = -1;
    std::int32_t position = -1;
  };

  const Program& program_;
  std::vector<Touches> touches_;
  std::vector<std::int32_t> renewed_at_;  ///< by buffer
  std::vector<Use> uses_;                 ///< all those of renewed buffers
};

/// Groups, state and buffers, then one instruction per line:
/// "forward unit.3 mb=2 [compute] 2.1e+09 FLOP parameter=device:unit.3/parameter#12 bf16[4096] … ->
/// output=device:unit.4/input[mb=2]#40 bf16[1024]".
std::string print(const Program& program);
std::string print(const Program& program, const Instruction& instruction);
/// What it does, in few words: "forward block.3 mb=2".
std::string title_of(const Program& program, const Instruction& instruction);

}  // namespace strata
