// How a model is trained: everything lowering needs besides the model, as plain values. The planner chooses
// what its request leaves open.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "base/nth.h"
#include "base/precision.h"
#include "engine/config/choices.h"
#include "engine/model/compute.h"
#include "engine/model/flat_range.h"
#include "engine/model/packing.h"
#include "engine/plan/program/program.h"
#include "optim/state_format.h"

namespace strata {

/// Arrangement of ranks: data-parallel ones × context × pipeline × tensor; the last vary first. The state of
/// a stage of the pipeline is shared out among its *holders*. These have different tokens, of other
/// sequences, or of the same sequences if there are several context ranks. The state is cut into `shard`
/// shards. Each shard is on `replicate` holders.
struct Mesh {
  std::int64_t replicate = 1, shard = 1, pipeline = 1, tensor = 1;
  /// How many neighbours, among the ranks that share layers, have the same heads of keys.
  std::int64_t key_copies = 1;
  std::int64_t context = 1;  ///< neighbouring holders that have parts of the same sequences

  std::int64_t holders() const { return replicate * shard; }
  std::int64_t data() const { return holders() / context; }
  std::int64_t ranks() const { return holders() * pipeline * tensor; }
  /// Ranks from one of a stage to the next.
  std::int64_t holder_stride() const { return pipeline * tensor; }
  std::int64_t stage(std::int64_t rank) const { return rank / tensor % pipeline; }
  std::int64_t tensor_rank(std::int64_t rank) const { return rank % tensor; }
  std::int64_t holder(std::int64_t rank) const { return rank / holder_stride(); }
  std::int64_t data_rank(std::int64_t rank) const { return holder(rank) / context; }
  std::int64_t context_rank(std::int64_t rank) const { return holder(rank) % context; }
  /// Which shard a rank has, and which of the groups that have all of them it is in.
  std::int64_t shard_rank(std::int64_t rank) const { return holder(rank) % shard; }
  std::int64_t replica(std::int64_t rank) const { return holder(rank) / shard; }
  /// Ranks that add up their gradients first: those of different shards, or if there are none the
  /// replicas.
  std::int64_t reducing() const { return shard > 1 ? shard : replicate; }
  /// Elements of a shard of a flat parameter of `elements`: equally many on all ranks, the last ones' padded.
  std::int64_t shard_elements(std::int64_t elements) const {
    return shard == 1 ? elements : align_up((elements + shard - 1) / shard, kShardAlignment);
  }
  /// Elements of all shards together.
  std::int64_t gathered_elements(std::int64_t elements) const { return shard * shard_elements(elements); }

  static constexpr std::int64_t kShardAlignment = 64;
  static_assert(kShardAlignment % kCodedBlock == 0, "a block of a coded moment lies in one shard");
};

/// Kinds that stay on the device from their first use to their last, however little is left for others.
struct DevicePins {
  bool parameters = false, gradients = false, activations = false;
};

/// How the model's units are cut into stages, and the stage of a program. All other values of this file are
/// the same for all programs of a run.
struct PipelinePart {
  PipelineSchedule schedule = PipelineSchedule::one_f_one_b;
  /// The first unit of each chunk; chunk c is of stage c mod Mesh::pipeline.
  std::vector<std::int32_t> first_units = {0};
  std::int32_t stage = 0;
  /// A unit whose parameters one of another stage uses: that stage has a copy of them and adds to their
  /// gradient.
  struct Copy {
    std::int32_t unit = -1, stage = -1;
  } copy = {};

  std::int32_t chunk_of(std::int32_t unit) const {
    return static_cast<std::int32_t>(std::ranges::upper_bound(first_units, unit) - first_units.begin()) - 1;
  }
};

/// How flat parameters are kept and travel: in their packed form (optim/packing.h), where a unit's has one.
struct PackedParameters {
  ParameterFormat trained = ParameterFormat::precision, frozen = ParameterFormat::precision;

  ParameterFormat format_of(Flat flat) const { return flat == Flat::trained ? trained : frozen; }
  bool has(Flat flat) const { return format_of(flat) != ParameterFormat::precision; }
};

/// Samples that a run takes between its steps.
struct SampleShape {
  std::int64_t prompts = 0;  ///< of all ranks; 0: the run takes none
  std::int64_t longest = 0;  ///< tokens at which one ends, its prompt included
  MicrobatchShape of_rank;   ///< which data-parallel ranks have in turns, the last of them fewer
};

/// What ranks add up for each token of samples: the token of each, and how many ranks were asked to stop.
constexpr std::int64_t next_token_numbers(const SampleShape& samples) {
  return samples.prompts + 1;
}

/// The last of a unit's levels.
constexpr std::size_t kAllSaved = SIZE_MAX;

struct Strategy {
  Mesh mesh;
  PipelinePart pipeline;
  int zero_stage = 3;                ///< of sharded ranks: 1, 2 or 3
  DType reduce_dtype = DType::fp32;  ///< of gradients on their way between ranks
  bool sparse_gradients =
      true;  ///< gradients with values in few rows go between ranks as those if that is less
  Order order = Order::layer_major;
  DType precision = DType::bf16;       ///< of what is stored
  Rounding rounding = Rounding::none;  ///< what the model's products round
  StateFormat state_format = {};
  PackedParameters packed;
  bool delays_reduction =
      false;  ///< a unit's gradient goes to other ranks under the next unit's backward pass
  /// Segments of two microbatches' passes take turns, so that one computes while another's values travel
  /// between ranks that share the passes. It takes a second workspace.
  bool interleaves = false;
  /// Ranks that have shards share out the matrices that a unit's update orthogonalizes, and send the results.
  /// Otherwise each orthogonalizes all of them. REQUIRES: is_sharded().
  bool shares_out_matrices = false;
  bool divides_backward = false;  ///< gradients of a unit's input and of its weights are passes of their own
  MicrobatchShape microbatch;     ///< of one rank
  std::int64_t microbatches = 1;  ///< of a training step on each rank: gradient accumulation
  std::int64_t validation_microbatches = 0;  ///< of a validation, on all ranks together; 0: the run has none
  SampleShape samples;
  bool global_norm = true;    ///< updates wait for the norm of all gradients
  bool updates_late = false;  ///< with a global norm, units of the host are updated before the next step's
                              ///< forward passes, each right before its own
  bool saves = false;         ///< some steps save the state, beside the next one's work
  bool names_frozen = false;  ///< without what is frozen: checkpoints only name what adapters stand beside
  /// By unit, how much of its activations is saved for the backward pass instead of made again: a number in
  /// UnitPasses::levels, or kAllSaved.
  std::vector<std::size_t> saved_level;
  DevicePins pins;
  std::vector<Tier> state;  ///< per unit: where parameter, master and moments live
  /// Most of each part of a unit's optimizer state on the host that one update works on.
  Bytes piece_bytes = kUnlimited;

  /// In a step of all ranks.
  std::int64_t tokens() const {
    return mesh.holders() * microbatches * microbatch.batch * microbatch.sequence;
  }
  Precision computes_in() const { return {precision, rounding}; }
  /// Small gradients vanish in fp16, and only there.
  bool scales_loss() const { return precision == DType::fp16; }
  std::int32_t stage_of(std::int32_t unit) const {
    return pipeline.chunk_of(unit) % static_cast<std::int32_t>(mesh.pipeline);
  }
  /// Whether the unit is of the program's stage.
  bool has(std::int32_t unit) const { return stage_of(unit) == pipeline.stage; }
  /// Whether that is so of a unit of its own, and whether the stage has such a copy.
  bool is_copied(std::int32_t unit) const { return unit == pipeline.copy.unit && has(unit); }
  bool has_copy() const { return pipeline.copy.unit >= 0 && pipeline.copy.stage == pipeline.stage; }
  bool on_device(std::int32_t unit) const { return nth(state, unit) == Tier::device; }
  /// Whether a unit's update, if it has one, belongs to the round behind its step's. If another stage waits
  /// for it, it does not.
  bool updates_late_of(std::int32_t unit) const {
    return updates_late && !on_device(unit) && unit != pipeline.copy.unit;
  }
  /// Forward passes go on while updates are still to be made.
  bool is_asynchronous() const { return mesh.pipeline > 1 && strata::is_asynchronous(pipeline.schedule); }
  /// How often a step updates each unit.
  std::int64_t updates() const {
    return is_asynchronous() && pipeline.schedule == PipelineSchedule::pipedream ? microbatches : 1;
  }
  /// How many updates the weights of a step's passes lack, or those of a microbatch's if each is updated for.
  std::int64_t updates_behind() const {
    if (!is_asynchronous()) return 0;
    return pipeline.schedule == PipelineSchedule::pipedream ? mesh.pipeline - 1 - pipeline.stage : 1;
  }
  bool travels_as_fp32() const { return precision == DType::fp32; }
  bool reduces_as_fp32() const { return reduce_dtype == DType::fp32; }
  bool is_own_master() const { return state_format.is_own_master(precision); }
  /// A parameter is its master, rounded.
  bool is_rounded_copy() const { return state_format.is_rounded_copy(precision); }
  bool is_sharded() const { return mesh.shard > 1; }
  /// Ranks hold shards of parameters only, and gather each unit's when they need it.
  bool gathers() const { return is_sharded() && zero_stage == 3; }
};

/// The groups of ranks that programs exchange values in, in this order; none if there is one rank only.
enum class DataGroup : std::int32_t {
  shard,      ///< ranks that hold the other shards of the same state
  replicate,  ///< ranks that hold the same shard
  world,
  pipeline,  ///< a rank of each stage, if there are several
  tensor,    ///< ranks that share units' passes, if there are several
  keys,      ///< those of them that have the same heads of keys, if they are neither one nor all
  context    ///< ranks that share sequences, if there are several
};
std::vector<RankGroup> groups_of(const Mesh& mesh);

/// How one of a unit's flat parameters is packed, that of all holders; empty if it is not. What is trained on
/// the device of a single holder travels nowhere, so it is not.
Packing packing_of(const Model& model, const Strategy& strategy, std::size_t unit, Flat flat);

/// What a rank of the sharding group has of one of a unit's flat parameters; the last ranks' padding left
/// out.
FlatRange shard_of(const Unit& unit, const Mesh& mesh, std::int64_t shard_rank, Flat flat = Flat::trained);

/// Strategy::piece_bytes of a run with drives: an update of so much still fills a drive's queue.
constexpr Bytes kDrivePiece = 32 * MiB;

/// The optimizer state of `elements` of a unit that lives on the host, in equal pieces but for the last; one
/// of all if that is small enough.
std::vector<Piece> state_pieces(std::int64_t elements, const Strategy& strategy);

/// Microbatches that each rank has a part in, if all ranks share `microbatches`; the last ranks' last ones
/// may not count.
inline std::int64_t per_rank(std::int64_t microbatches, const Mesh& mesh) {
  return (microbatches + mesh.data() - 1) / mesh.data();
}

/// How many rows of a unit's gradient, if only few have values, each rank sends in place of all of it: as
/// many as its microbatches of a step can name. 0 if it sends all of it, since that is less to send or to
/// hold, or since another unit adds to the gradient.
std::int64_t sent_rows(const Model& model, const Strategy& strategy, std::size_t unit);

}  // namespace strata
