// What a unit computes, written once against Kernels: forward, and backward that recomputes what was not
// saved. The planner asks for sizes, the executor passes memory; both use the same functions, so they cannot
// disagree.
#pragma once

#include <cstddef>
#include <optional>
#include <span>

#include "base/bytes.h"
#include "engine/device/kernels.h"
#include "engine/model/compute_block.h"
#include "engine/model/compute_head.h"
#include "engine/model/model.h"
#include "engine/model/unit_memory.h"

namespace strata {

/// Computes the units of one model on one lane. Stateless between calls.
class UnitCompute {
 public:
  UnitCompute(const Model& model, DType dtype, MicrobatchShape shape);

  Bytes boundary_bytes() const;  ///< of one [tokens, hidden] activation or its gradient
  Bytes constant_bytes() const;  ///< tables every unit may read; zero if the family has none
  void fill_constants(std::span<std::byte> host) const;

  /// Bytes of saved activations per microbatch when the unit is not recomputed. Zero for embedding and head.
  Bytes saved_bytes(const Unit& unit) const;
  Bytes forward_workspace_bytes(const Unit& unit, bool save) const;
  /// `saved`: activations come from forward; otherwise backward recomputes them into its workspace.
  Bytes backward_workspace_bytes(const Unit& unit, bool saved) const;

  /// Embedding, blocks: writes memory.output (and memory.saved if given). Head: losses only (validation).
  void forward(Kernels& kernels, UnitKind unit, const UnitMemory& memory) const;
  /// Adds parameter gradients and writes input_gradient. Head: computes losses too, its forward being part of
  /// its backward. `gradient_scale` multiplies the loss: 1 / tokens of the whole batch.
  void backward(Kernels& kernels, UnitKind unit, const UnitMemory& memory, float gradient_scale) const;

  /// FLOPs that the unit's forward, or backward with or without recomputation, executes on one microbatch.
  double forward_flops(const Unit& unit) const;
  double backward_flops(const Unit& unit, bool saved) const;

 private:
  Bytes boundary_bytes_;
  std::optional<Architecture> rotary_;  ///< the architecture whose rotary tables are the constants, if any
  MicrobatchShape shape_;
  EmbeddingCompute embedding_;
  BlockCompute block_;
  HeadCompute head_;
};

}  // namespace strata
