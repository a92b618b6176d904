// Where a block's activations and scratch lie in the memory that the planner gives it. One description of
// each region serves the size functions (without memory) and execution (with it), so they cannot disagree.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "base/bytes.h"
#include "base/checked.h"
#include "engine/device/matrix.h"
#include "engine/model/compute_layers.h"
#include "engine/model/unit_memory.h"

namespace strata {

/// Hands out aligned matrices one after another; rewinding lets regions of disjoint lifetimes share bytes.
class Scratch {
 public:
  /// Without memory it only measures.
  explicit Scratch(std::byte* base) : base_(base) {}

  Matrix take(DType dtype, std::int64_t rows, std::int64_t columns) {
    std::byte* data = base_ == nullptr ? nullptr : base_ + position_;
    position_ += align_up(checked_product(rows, columns, size_of(dtype)));
    peak_ = std::max(peak_, position_);
    return {data, dtype, rows, columns};
  }
  Bytes position() const { return position_; }
  void move_to(Bytes position) { position_ = position; }
  Bytes peak() const { return peak_; }

 private:
  std::byte* base_;
  Bytes position_ = 0;
  Bytes peak_ = 0;
};

/// mean and reciprocal deviation of `rows` rows, as the norm needs them.
NormStatistics take_statistics(Scratch& scratch, const NormLayer& norm, std::int64_t rows);

/// Columns of a block's activations for one microbatch; all have a row per token.
struct BlockSizes {
  BlockSizes(const Architecture& architecture, DType dtype, MicrobatchShape shape);

  DType dtype;
  MicrobatchShape shape;
  std::int64_t tokens, hidden, heads;
  std::int64_t all_heads;  ///< query and key heads
  std::int64_t query, query_key, query_key_value;
  std::int64_t pre_activation;  ///< gate and up side by side if the activation is gated
  std::int64_t activation;
  bool gated;
  bool qk_norm;
};

/// What backward needs of forward and is expensive to recompute. Norm and activation outputs are cheap and
/// not here.
struct BlockActivations {
  Matrix qkv;        ///< rotated in place; before the per-head norm if there is one, whose gradient needs it
  Matrix attention;  ///< of [tokens, query]
  Matrix log_sum_exp;  ///< fp32 [batch · heads, sequence]
  Matrix mid;          ///< residual stream between attention and MLP
  Matrix pre_activation;
};

/// Scratch of a forward, beside the activations.
struct BlockScratch {
  NormStatistics statistics;
  Matrix head_statistics;  ///< qk_norm: reciprocal deviations, fp32 [all_heads, tokens]
  Matrix rotated;          ///< qk_norm: queries and keys after norm and rotation
  Matrix normalised;  ///< [tokens, hidden]: norm outputs and the attention branch; ends as the second norm's
                      ///< output
};

struct BlockForwardMemory {
  BlockActivations activations;
  BlockScratch scratch;
  Matrix activation;  ///< may be activations.pre_activation itself
};

struct BlockBackwardMemory {
  BlockActivations activations;
  BlockScratch scratch;
  Matrix activation;               ///< then its gradient
  Matrix pre_activation_gradient;  ///< may be `activation` or activations.pre_activation itself
  Matrix attention_gradient;       ///< [tokens, query]
  Matrix qkv_gradient;
  Matrix normalised_input;  ///< first norm's output, then its gradient; shares bytes with attention_gradient
};

BlockActivations take_activations(Scratch& scratch, const BlockSizes& sizes);

/// Forward that keeps its activations in `saved`; `output` [tokens, hidden] serves as scratch until it is
/// written.
BlockForwardMemory saving_forward_memory(Scratch& workspace, Scratch& saved, const BlockSizes& sizes,
                                         const NormLayer& norm, const Matrix& output);
/// Forward that keeps nothing; activations.mid is `output`, to which the MLP then adds.
BlockForwardMemory plain_forward_memory(Scratch& workspace, const BlockSizes& sizes, const NormLayer& norm,
                                        const Matrix& output);
/// Backward with activations in `saved`, or, if it is null, recomputed into the workspace.
BlockBackwardMemory backward_memory(Scratch& workspace, Scratch* saved, const BlockSizes& sizes,
                                    const NormLayer& norm, const Matrix& input_gradient);

}  // namespace strata
