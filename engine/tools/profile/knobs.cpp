#include "engine/tools/profile/knobs.h"

#include <vector>

namespace strata {
namespace {

constexpr Knob kFewerOnDevice = {"memory.device", "less: what does not fit waits on the host"};
constexpr Knob kFewerOnHost = {"memory.host", "less, with memory.nvme: what does not fit goes to the drives"};
constexpr Knob kMoreOnHost = {"memory.host", "more: the host takes what is on the drives"};
constexpr Knob kShardState = {"parallel.shard", "more ranks share out the state"};
constexpr Knob kTensor = {"parallel.tensor", "more ranks share each layer"};
constexpr Knob kMicrobatch = {"train.microbatch", "fewer sequences pass the model at once"};
constexpr Knob kSequence = {"data.sequence_length", "shorter sequences"};
constexpr Knob kContext = {"parallel.context", "more ranks share each sequence"};
constexpr Knob kFreeze = {"train.freeze", "tensors that are not trained have no gradient and no state"};
constexpr Knob kPrecision = {"train.precision", "bf16 or fp16: half of fp32"};

/// Those of the kind, without what only says where it lives.
std::vector<Knob> knobs_of_size(BufferKind kind) {
  switch (kind) {
    case BufferKind::parameter:
      return {kShardState, kTensor, kPrecision};
    case BufferKind::gradient:
      return {kShardState, kTensor, kFreeze};
    case BufferKind::optimizer_state:
      return {{"optimizer.moments", "bf16 or 8bit: 2 or 2.94 bytes per parameter less for each"},
              {"optimizer.master", "split or none, with bf16: 2 or 4 bytes per parameter less"},
              kShardState,
              kFreeze};
    case BufferKind::activation:
      return {{"train.recompute", "full: computed again in the backward pass instead of saved"},
              kMicrobatch,
              kSequence,
              kContext};
    case BufferKind::workspace:
      return {kMicrobatch, kSequence, kTensor, kContext};
    case BufferKind::communication:
      return {kMicrobatch, {"parallel.reduce_dtype", "bf16: gradients travel in half the bytes"}};
  }
  return {};
}

std::string_view placement_key(BufferKind kind) {
  switch (kind) {
    case BufferKind::parameter:
      return "memory.placement.parameters";
    case BufferKind::gradient:
      return "memory.placement.gradients";
    case BufferKind::optimizer_state:
      return "memory.placement.optimizer_state";
    case BufferKind::activation:
      return "memory.placement.activations";
    default:
      return {};  // stays where it is worked on
  }
}

std::vector<Knob> make_knobs(BufferKind kind, Tier tier) {
  std::vector<Knob> knobs = knobs_of_size(kind);
  const std::string_view placement = placement_key(kind);
  if (placement.empty()) return knobs;
  constexpr EnumTable<Tier, std::string_view> kFarther = {"host: only what is being used is on the device",
                                                          "nvme: only what is being used is on the host",
                                                          "host: off the drives, if memory.host holds it"};
  knobs.insert(knobs.begin() + 1, {placement, kFarther[tier]});
  knobs.push_back(tier == Tier::device ? kFewerOnDevice : tier == Tier::host ? kFewerOnHost : kMoreOnHost);
  return knobs;
}

using KnobTable = EnumArray<BufferKind, EnumArray<Tier, std::vector<Knob>>>;

KnobTable make_table() {
  KnobTable table;
  for (const BufferKind kind : kBufferKinds) {
    for (const Tier tier : kTiers) table[kind][tier] = make_knobs(kind, tier);
  }
  return table;
}

}  // namespace

std::span<const Knob> knobs_of(BufferKind kind, Tier tier) {
  static const KnobTable table = make_table();
  return table[kind][tier];
}

}  // namespace strata
