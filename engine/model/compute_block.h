// One transformer block, for every family: x + attention(norm(x)), then + mlp(norm(·)). Families differ in
// their layers' values and in three choices (rotary positions, per-head norm, gated activation), not in
// structure.
#pragma once

#include <optional>

#include "engine/model/compute_layers.h"
#include "engine/model/compute_memory.h"
#include "engine/model/compute_rotary.h"

namespace strata {

/// A block's layers as offsets in its flat parameter; the same for all blocks of a model.
struct BlockLayers {
  NormLayer attention_norm;
  LinearLayer qkv;
  std::optional<NormLayer> query_norm, key_norm;  ///< over head_dimension
  LinearLayer attention_out;
  NormLayer mlp_norm;
  LinearLayer up;  ///< gate and up as one if the activation is gated
  LinearLayer down;
};

class BlockCompute {
 public:
  BlockCompute(const Model& model, DType dtype, MicrobatchShape shape);

  Bytes saved_bytes() const;
  Bytes forward_workspace_bytes(bool save) const;
  Bytes backward_workspace_bytes(bool saved) const;

  /// Keeps its activations in memory.saved if given.
  void forward(Kernels& kernels, const UnitMemory& memory) const;
  /// Takes its activations from memory.saved if given, otherwise recomputes them: the same bits.
  void backward(Kernels& kernels, const UnitMemory& memory) const;

  double forward_flops() const;
  double backward_flops(bool saved) const;

 private:
  /// What the steps of one call share.
  struct Call {
    Kernels& kernels;
    FlatParameter flat;
    RotaryTables rotary;
    Matrix input;
  };

  Call make_call(Kernels& kernels, const UnitMemory& memory) const;
  Matrix hidden_matrix(std::byte* data) const { return {data, sizes_.dtype, sizes_.tokens, sizes_.hidden}; }
  Matrix queries(const BlockActivations& activations, const BlockScratch& scratch) const;
  Matrix keys(const BlockActivations& activations, const BlockScratch& scratch) const;
  Matrix values(const Matrix& qkv) const;

  void compute_activations(const Call& call, const BlockActivations& activations,
                           const BlockScratch& scratch) const;
  void rotate(const Call& call, const BlockActivations& activations, const BlockScratch& scratch) const;
  void rotate_backward(const Call& call, const BlockActivations& activations, const BlockScratch& scratch,
                       const Matrix& qkv_gradient) const;
  void activate(const Call& call, const Matrix& pre_activation, const Matrix& activation) const;
  void mlp_backward(const Call& call, const BlockBackwardMemory& memory, const Matrix& output_gradient) const;
  void attention_backward(const Call& call, const BlockBackwardMemory& memory) const;
  double attention_product_flops() const;

  BlockSizes sizes_;
  BlockLayers layers_;
  AttentionShape attention_;
  std::optional<Architecture> rotary_;  ///< the architecture whose rotary tables apply, if any
};

}  // namespace strata
