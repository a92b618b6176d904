// A model as a list of units, each with its flat parameters. Pure sizes, names and graphs: nothing here
// touches memory.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/context_part.h"
#include "base/precision.h"
#include "base/sequence_form.h"
#include "engine/config/adapter_section.h"
#include "engine/model/architectures/architecture.h"
#include "engine/model/architectures/rotary.h"
#include "engine/model/graph/derive.h"
#include "engine/model/graph/graph_shape.h"
#include "engine/model/graph/unit.h"
#include "engine/model/unit_computes.h"
#include "optim/update_policy.h"

namespace strata {

struct Model {
  Architecture architecture;
  std::vector<UnitGraph> graphs;          ///< by Unit::kind, as architectures write them
  std::vector<DerivedGraph> passes = {};  ///< by Unit::kind, on a rank if ranks share each unit's passes
  std::vector<Unit> units;                ///< embedding, block.0 … block.L-1, head
  std::vector<Rotation> rotations;        ///< their tables are the constants, a cosine and a sine each
  std::vector<std::string> freeze = {};   ///< patterns of the names of tensors that are not trained
  AdapterSection adapter = {};            ///< if it has a type, all but adapters is frozen
  Rounding rounding = Rounding::none;     ///< of what linear layers of blocks multiply
  std::vector<UpdatePolicy> policies = std::vector<UpdatePolicy>(1);  ///< by TensorSpec::policy
  bool averages = false;     ///< keeps moving averages of what is trained
  SequenceForm form = {};    ///< of the texts that it computes
  ContextPart context = {};  ///< the tokens that a rank has of each sequence if ranks share sequences
  bool is_sampled = false;   ///< it gives logits in place of losses: sampling_model.h
  /// Positions that tables of rotations have, of such a model; 0: those of a microbatch's sequences.
  std::int64_t table_positions = 0;
  /// The same model as samples are taken of it; null if the run takes none.
  std::shared_ptr<const Model> sampling = {};

  /// GraphShape::max_chunk_bytes, by the kind of device that computes.
  Bytes max_chunk_bytes = GraphShape().max_chunk_bytes;

  std::int64_t key_copies = 1;  ///< neighbouring ranks with the same heads of keys, if ranks share layers

  UnitComputes computes = {};  ///< unit_compute() makes the passes at each shape once

  std::int64_t parameters() const;
  std::int64_t trained_parameters() const;
  /// How many trained tensors each rule updates.
  UpdateRules rules() const;
  /// Those of any of its rules.
  Moments moments() const { return kept_moments(rules(), averages); }
  bool adapts() const { return adapter.type != AdapterType::none; }
  bool freezes() const { return !freeze.empty() || adapts(); }
  const Unit& embedding() const { return units.front(); }
  const Unit& head() const { return units.back(); }
  const UnitGraph& graph_of(const Unit& unit) const { return graphs[unit.kind]; }
};

/// Each chunk of a head's rows reads and writes the fp32 gradient of the head's matrix once. A GPU's products
/// are fast, so it wants few chunks. For a vocabulary of 128k and 4096 columns on an H200, the gradient takes
/// 1 ms (2.1 GB each way at 4 TB/s). Beside it, a chunk of 512 MiB takes 9 ms of products, and a chunk of 64
/// MiB 1.2 ms (6 · rows · columns · vocabulary FLOPs at 700 TFLOP/s).
Bytes max_chunk_bytes(DeviceKind kind);

/// FLOPs of one forward pass per token at `sequence` (2 per multiply-add of products and of what attention
/// sees).
double forward_flops_per_token(const Model& model, std::int64_t sequence);
/// A backward pass's FLOPs as a multiple of those: 2 if all is trained.
double backward_share_of_flops(const Model& model, std::int64_t sequence);

/// The FLOPs that the mathematics asks of forward and backward passes of `microbatches` microbatches.
double training_flops(const Model& model, const MicrobatchShape& microbatch, std::int64_t microbatches);

}  // namespace strata
