// The two ends of a model: token (and position) embedding, and the final norm with the vocabulary projection
// and its cross entropy in chunks of rows, so that logits never exist whole.
#pragma once

#include <optional>

#include "engine/model/compute_layers.h"
#include "engine/model/compute_memory.h"

namespace strata {

class EmbeddingCompute {
 public:
  EmbeddingCompute(const Model& model, DType dtype, MicrobatchShape shape);

  void forward(Kernels& kernels, const UnitMemory& memory) const;
  void backward(Kernels& kernels, const UnitMemory& memory) const;

 private:
  DType dtype_;
  MicrobatchShape shape_;
  std::int64_t hidden_, vocabulary_, max_positions_;
  std::int32_t padding_token_;             ///< kNoRow: none
  std::int64_t table_;                     ///< offset in the flat parameter
  std::optional<std::int64_t> positions_;  ///< offset, if positions are learned
};

class HeadCompute {
 public:
  static constexpr Bytes kMaxChunkBytes = 64 * MiB;

  /// `max_chunk_bytes` bounds the logits of a chunk, down to 64 rows. It changes the grouping of sums over
  /// rows, and so the last bits of gradients: it is a constant of the engine, and an argument for tests only.
  HeadCompute(const Model& model, DType dtype, MicrobatchShape shape, Bytes max_chunk_bytes = kMaxChunkBytes);

  /// Rows per chunk: all, or a multiple of 64.
  std::int64_t chunk_rows() const { return chunk_rows_; }
  Bytes forward_workspace_bytes() const;
  Bytes backward_workspace_bytes() const;

  /// Losses only.
  void forward(Kernels& kernels, const UnitMemory& memory) const;
  void backward(Kernels& kernels, const UnitMemory& memory, float gradient_scale) const;

  /// Counts the one product of a forward; a backward executes three.
  double forward_flops() const { return projection_.flops(shape_.tokens()); }

 private:
  struct Memory {
    NormStatistics statistics;
    Matrix logits;      ///< [chunk_rows, vocabulary]
    Matrix normalised;  ///< forward: [chunk_rows, hidden]
  };
  Memory take_memory(Scratch& workspace, bool backward) const;
  FlatParameter projection_parameter(const UnitMemory& memory) const;

  DType dtype_;
  MicrobatchShape shape_;
  NormLayer norm_;
  LinearLayer projection_;
  bool tied_;
  std::int64_t chunk_rows_;
};

}  // namespace strata
