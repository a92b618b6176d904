// A pass of a unit: segments, one for each instruction, with one workspace for all of them, and between them
// what ranks exchange. Values; usable from any thread.
#pragma once

#include <array>
#include <functional>
#include <map>
#include <vector>

#include "engine/model/graph/graph_shape.h"
#include "engine/model/graph/place_tensors.h"
#include "engine/model/graph/segment.h"

namespace strata {

/// Tensors that ranks exchange, where the pass has them.
struct PlacedExchange {
  ExchangeKind kind;
  SharedBy shared;
  Segment::PlacedOperand source, destination;  ///< one place of an all_reduce
  std::size_t before;                          ///< number of the segment that comes next
  /// Between two parts of a loop over rows, whose passes add to the same gradients one after another.
  bool is_in_loop = false;

  bool touches(Region region) const { return source.region == region || destination.region == region; }
};

/// UnitPass::workspace_bytes() of the pass of these, which is not made for it.
Bytes workspace_bytes_of(const UnitGraph& graph, const GraphShape& shape, const GivenTensors& given);

class UnitPass {
 public:
  UnitPass() = default;
  /// `given` tensors lie where they say. Other tensors of the workspace are placed by their lifetimes;
  /// regions that the nodes write may serve as workspace before. Nodes between the first and the last that
  /// touch a tensor in chunks run for one chunk of rows after another. The nodes are cut into segments where
  /// ranks exchange tensors, in a loop over chunks for each of them.
  UnitPass(const UnitGraph& graph, const GraphShape& shape, const GivenTensors& given);

  const std::vector<Segment>& segments() const { return segments_; }
  /// In their order.
  const std::vector<PlacedExchange>& exchanges() const { return exchanges_; }
  /// From the first segment to the last.
  Bytes workspace_bytes() const { return workspace_bytes_; }
  /// What the ring region of this number holds between segments and exchanges.
  Bytes ring_bytes(std::size_t number) const { return ring_bytes_[number]; }

  bool is_empty() const { return segments_.empty(); }
  double flops() const;
  /// Rows that a tensor in chunks has; 0 if there is none.
  std::int64_t chunk_rows() const { return chunk_rows_; }
  bool touches(Region region) const;
  bool reads(Region region) const;
  bool writes(Region region) const;

  using Exchange = std::function<void(const PlacedExchange&)>;
  /// All segments after one another.
  void run(
      Kernels& kernels, const UnitMemory& memory, float loss_factor,
      const Exchange& exchange = [](const PlacedExchange&) {}) const;

 private:
  friend class UnitPassMaker;
  std::vector<Segment> segments_;
  std::vector<PlacedExchange> exchanges_;
  Bytes workspace_bytes_ = 0;
  std::int64_t chunk_rows_ = 0;
  std::array<Bytes, kRings> ring_bytes_ = {};
};

}  // namespace strata
