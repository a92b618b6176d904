// A list of nodes with a place for every operand: what a pass of a unit executes. Nothing is decided or
// allocated while it runs. Values; usable from any thread.
#pragma once

#include <map>
#include <memory>
#include <vector>

#include "engine/graph/unit_graph.h"

namespace strata {

/// What turns a graph's extents into sizes.
struct GraphShape {
  DType precision = DType::fp32;
  MicrobatchShape microbatch;
  std::vector<Bytes> constants = {};  ///< offset of each in the region constants
  /// Bounds what exists of a tensor in chunks, down to 64 rows. It changes the grouping of sums over rows,
  /// and so the last bits of gradients: it is a constant of the engine, and an argument for tests only.
  Bytes max_chunk_bytes = 64 * MiB;
};

class Segment {
 public:
  /// Tensors that are kept lie at their offsets of the region saved; `keeps` if they are wanted afterwards.
  /// Other tensors of the workspace are placed by their lifetimes; regions that the nodes write may serve as
  /// workspace before.
  Segment(const UnitGraph& graph, const GraphShape& shape, const std::map<TensorId, Bytes>& saved,
          bool keeps);

  Bytes workspace_bytes() const { return workspace_bytes_; }
  double flops() const { return flops_; }
  /// Rows that a tensor in chunks has; 0 if there is none.
  std::int64_t chunk_rows() const { return chunk_rows_; }
  bool is_empty() const { return steps_.empty(); }
  bool touches(Region region) const { return reads(region) || writes(region); }
  /// Needs what was there, or changes it.
  bool reads(Region region) const { return read_[static_cast<std::size_t>(region)]; }
  bool writes(Region region) const { return written_[static_cast<std::size_t>(region)]; }

  void run(Kernels& kernels, const UnitMemory& memory, float loss_factor) const;

 private:
  struct PlacedOperand {
    enum class Rows : std::uint8_t { all, in_rows, in_columns, in_chunk };

    Region region = Region::workspace;
    Bytes offset = 0;
    Matrix size = {};
    Rows tokens = Rows::all;  ///< how its tokens are found if they are taken in chunks
  };
  struct Step {
    std::shared_ptr<const Operator> rule;
    std::vector<PlacedOperand> operands = {};
    bool in_chunks = false;
  };

  void run_rows(Kernels& kernels, const UnitMemory& memory, float loss_factor, const Step& step,
                std::int64_t first, std::int64_t rows) const;

  friend class SegmentMaker;
  MicrobatchShape shape_;
  std::vector<Step> steps_;
  Bytes workspace_bytes_ = 0;
  double flops_ = 0;
  std::int64_t chunk_rows_ = 0;
  std::array<bool, kRegions> read_ = {}, written_ = {};
};

/// A tensor's size; of one in chunks as if it existed whole.
Matrix size_of(const Tensor& tensor, const GraphShape& shape);

Bytes bytes_of(const Matrix& size);

/// FLOPs of all nodes, once.
double forward_flops(const UnitGraph& graph, const GraphShape& shape);

/// Those of the gradients that somebody wants: as many as a node has for those of its parameters, and as many
/// again for those of what else it reads; twice as many for a node without parameters.
double backward_flops(const UnitGraph& graph, const GraphShape& shape);

}  // namespace strata
