// What turns a graph's extents into sizes, and the sizes and FLOPs that follow. Pure functions; any thread.
#pragma once

#include <vector>

#include "engine/model/graph/unit_graph.h"

namespace strata {

struct GraphShape {
  DType precision = DType::fp32;
  MicrobatchShape microbatch;
  std::vector<Bytes> constants = {};  ///< offset of each in the region constants
  /// Bounds what exists of a tensor in chunks, down to 64 rows. It changes the grouping of sums over rows,
  /// and so the last bits of gradients: it follows from the kind of device, never from a budget.
  Bytes max_chunk_bytes = 64 * MiB;
};

/// A tensor's size; of one in chunks as if it existed whole.
Matrix size_of(const Tensor& tensor, const GraphShape& shape);

/// With what lies between its rows.
Bytes bytes_of(const Matrix& size);

/// Elements from one row of a tensor in chunks to the next: a multiple of 64. Vocabularies have any size, and
/// a GPU's products are several times slower where rows do not begin at multiples of 16 bytes.
std::int64_t chunk_stride(std::int64_t columns);

/// Rows that tensors in chunks have, 0 if there is none: what fits in max_chunk_bytes, in multiples of 64 and
/// at least that.
std::int64_t chunk_rows(const UnitGraph& graph, const GraphShape& shape);

/// FLOPs of all nodes, once.
double forward_flops(const UnitGraph& graph, const GraphShape& shape);

/// FLOPs of the gradients that somebody wants. A node's forward FLOPs count once for the gradients of its
/// parameters and once for those of its other operands. They count twice for a node without parameters.
double backward_flops(const UnitGraph& graph, const GraphShape& shape);

}  // namespace strata
