// The training state of a model in the memory of its run, which checkpoints reach wherever it lives. Used
// while no program runs; what is written to it is converted by the threads of the arena that the caller runs
// in.
#pragma once

#include <array>
#include <memory>
#include <span>
#include <vector>

#include "base/arena.h"
#include "base/nth.h"
#include "engine/plan/place/plan.h"
#include "engine/run/checkpoint/state_access.h"
#include "engine/run/execute/device_copy.h"
#include "engine/run/execute/run_memory.h"
#include "optim/loss_scale.h"
#include "optim/stored_values.h"

namespace strata {

/// How values lie in an operand of optimizer state.
StoredAs stored_as(ElementType type);

class RunState {
 public:
  /// A copy of one buffer from or to the device takes `watchdog_seconds` at most. REQUIRES: all but `device`
  /// outlive this.
  RunState(const ModelPlan& plan, const Model& model, RunMemory& memory, Device& device, std::int64_t rank,
           double watchdog_seconds);

  /// What this rank has of what is trained or frozen of a unit, and what it gives to checkpoints: ranks that
  /// hold the same share that out. Of a unit of another stage it has nothing, or a copy that nobody saves.
  FlatRange held(std::size_t unit, Flat flat) const;
  FlatRange saved(std::size_t unit, Flat flat) const;
  /// What of that there is of this state.
  FlatRange held(std::size_t unit, StateKey key) const { return kept(unit, key, held(unit, flat_of(key))); }
  FlatRange saved(std::size_t unit, StateKey key) const { return kept(unit, key, saved(unit, flat_of(key))); }
  /// What it must be given: all of a master if it keeps the parameter whole.
  FlatRange loaded(std::size_t unit, StateKey key) const;

  /// The values of saved(unit, key), wherever they live and however they are stored; valid until
  /// the next call.
  std::span<const float> read(std::size_t unit, StateKey key);
  /// As StateAccess::write: `fill` is not called if this rank wants nothing.
  /// A master brings its parameter in the compute dtype with it; moments that are stored in bf16 are rounded
  /// to nearest, which leaves what such a run has saved as it was.
  void write(std::size_t unit, StateKey key, const std::function<void(std::span<float>)>& fill,
             const ReadTensor& read_tensor = {});
  StateAccess access();
  /// Writes zeros to the moments of every unit, wherever they live: no tier's memory holds anything certain
  /// before.
  void clear_moments();

  /// The bytes of a buffer of the training program; valid until the next call.
  std::span<const std::byte> read(BufferId id) { return read(id, stored_); }
  void write(BufferId id, std::span<const std::byte> bytes);

  /// The scale of the next step's loss; 1 if the run has none.
  LossScale loss_scale();
  void write_loss_scale(const LossScale& scale);

  /// Gives back the memory that loading took besides the plan's.
  void release_scratch() {
    for (Arena* memory : {&stored_, &stored_parameter_, &values_}) *memory = Arena();
  }

  /// Tables that units read (rotary positions), if the model has any.
  void write_constants();

 private:
  /// Where a unit's state lives.
  struct UnitPlaces {
    EnumArray<StateKey, std::vector<StateEntry>> pieces;  ///< of each StateKey, in their order
    std::vector<StateEntry>& of(StateKey key) { return pieces[key]; }
    std::vector<StateEntry> copies;  ///< of the parameter, besides a master that is itself one
    bool is_empty() const;
  };

  /// Whether each rank that has a unit has all of it.
  bool is_on_all(Flat flat) const;
  FlatRange kept(std::size_t unit, StateKey key, FlatRange range) const;
  /// Those of `values`, which are all of held(unit, key), that a place has.
  template <typename Value>
  std::span<Value> part_of(const StateEntry& place, std::span<Value> values) const;
  static std::vector<BufferId> find_instances(const Program& program);
  static std::vector<UnitPlaces> find_places(const Program& program);
  const Mesh& mesh() const { return plan_.strategy.mesh; }
  /// The run's own, or null.
  const StateEntry* find_place(StateKey part) const;
  BufferId high_halves(std::size_t unit) const;
  const Buffer& buffer(BufferId id) const { return plan_.training.program.buffer(id); }
  /// The buffer's own bytes, or nothing if the host cannot address them.
  std::byte* address(BufferId id) const;
  /// Host memory for the contents of a buffer that has no address: where a step has those of the nvme tier
  /// when it updates them, and `memory`, as large as need be, for others.
  std::span<std::byte> stage(BufferId id, Arena& memory) const;
  /// The contents of a buffer. They are read into `memory` if the host cannot address the buffer.
  std::span<const std::byte> read(BufferId id, Arena& memory);
  StoredValues stored_values(const StateEntry& place);
  /// Memory for values that are stored otherwise, or in pieces.
  std::span<float> values_of(std::int64_t elements);
  std::span<const float> read_pieces(std::size_t unit, StateKey key);
  /// fill(its bytes) writes all of a buffer, wherever it lives.
  template <typename Fill>
  void fill(BufferId id, const Fill& fill);
  /// Writes a buffer of `convert`ed values.
  template <typename Stored, typename Convert>
  void store(BufferId id, std::span<const float> values, const Convert& convert);
  /// How one of a unit's flat parameters is packed, and the part of it that this rank has.
  Packing packing_of(std::size_t unit, Flat flat) const;
  std::size_t packed_part(const Packing& packing) const;
  /// Packs what `convert` makes of the values, which are those of tensors that `read_tensor` reads.
  template <typename Stored, typename Convert>
  void store_packed(const StateEntry& place, Flat flat, std::span<const float> values, const Convert& convert,
                    const ReadTensor& read_tensor = {});
  void store_coded(const StateEntry& place, std::span<const float> values);
  /// Rounded to the place's type, coded, or rounded to the run's precision and packed.
  void store(const StateEntry& place, std::span<const float> values, const ReadTensor& read_tensor = {});
  /// `whole` is what is_whole copies get.
  void write_copies(std::size_t unit, std::span<const float> whole, std::span<const float> shard);

  const ModelPlan& plan_;
  const Model& model_;
  RunMemory& memory_;
  std::int64_t rank_;
  bool addressable_;
  std::vector<BufferId> instances_;  ///< by home on the nvme tier: a buffer on the host that is written to
                                     ///< it, or at least read from it
  std::vector<UnitPlaces> places_;
  DeviceCopy copy_;
  Arena stored_,
      stored_parameter_;  ///< for what is on a device that the host cannot address, as it is stored
  Arena values_;          ///< for values that no buffer on the host holds as floats
};

}  // namespace strata
