// The memory of a run: one piece per tier, as large as its programs need, and the training state in it, which checkpoints reach
// wherever it lives. Used while no program runs.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "engine/checkpoint/state_access.h"
#include "engine/device/device.h"
#include "engine/plan/planner.h"
#include "offload/arena.h"
#include "optim/loss_scale.h"

namespace strata {

/// The tiers' memory; a buffer is at its tier's base plus its offset.
struct TierMemory {
  std::byte* device = nullptr;
  std::byte* host = nullptr;

  std::byte* at(const Buffer& buffer) const { return (buffer.tier == Tier::device ? device : host) + buffer.offset; }
};

class RunState {
 public:
  RunState(const Plan& plan, const Model& model, Device& device);

  TierMemory memory() const { return {device_memory_->data(), host_arena_.data()}; }
  Bytes device_resident_bytes() const { return device_memory_->resident_bytes(); }

  /// A unit's flat master parameter or moment, [unit.elements], wherever it lives; valid until the next call.
  std::span<const float> read(std::size_t unit, StateKind kind);
  /// `fill` gets the buffer to write all of. A master brings its copy in the compute dtype with it.
  void write(std::size_t unit, StateKind kind, const std::function<void(std::span<float>)>& fill);
  StateAccess access();

  /// The bytes of a buffer of the training program; valid until the next call.
  std::span<const std::byte> read(BufferId id);
  void write(BufferId id, std::span<const std::byte> bytes);

  /// The scale of the next step's loss; 1 where the run has none.
  LossScale loss_scale();
  void write_loss_scale(const LossScale& scale);

  /// Tables that units read (rotary positions), where the model has any.
  void write_constants();

 private:
  /// The buffers of a unit's state in the training program.
  struct UnitBuffers {
    BufferId parameter = -1, master = -1, exp_avg = -1, exp_avg_sq = -1;
  };

  static std::vector<UnitBuffers> find_buffers(const Program& program, std::size_t units);
  BufferId buffer_of(std::size_t unit, StateKind kind) const;
  const Buffer& buffer(BufferId id) const { return plan_.training.program.buffer(id); }
  /// The buffer's own bytes, or nothing where the host cannot address them.
  std::byte* address(BufferId id) const;
  void wait_for_copy(BufferId id);
  void write_parameter(std::size_t unit, std::span<const float> master);

  const Plan& plan_;
  const Model& model_;
  bool addressable_;
  std::vector<UnitBuffers> buffers_;
  BufferId loss_scale_;
  Arena host_arena_;
  std::unique_ptr<PinnedHostMemory> pinned_;
  std::unique_ptr<DeviceMemory> device_memory_;
  std::unique_ptr<Stream> stream_;  ///< of this object's own copies
  std::unique_ptr<Event> copied_;
  std::vector<std::byte> staging_;           ///< what comes from a device that the host cannot address
  std::vector<float> staged_state_;          ///< what goes there
  std::vector<std::byte> staged_parameter_;
};

}  // namespace strata
