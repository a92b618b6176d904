// A list of nodes with a place for every operand: what one instruction of a pass executes. Nothing is decided
// or allocated while it runs. Values; usable from any thread.
#pragma once

#include <array>
#include <memory>
#include <vector>

#include "engine/graph/operator.h"

namespace strata {

class Segment {
 public:
  /// Where an operand lies, and how much of it a step takes at once.
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
    bool in_chunks = false;  ///< neighbouring steps that are run for each chunk of rows after the other
  };

  /// REQUIRES: chunk_rows > 0 if a step is in chunks.
  Segment(std::vector<Step> steps, const MicrobatchShape& shape, std::int64_t chunk_rows);

  double flops() const { return flops_; }
  /// Rows that a tensor in chunks has; 0 if there is none.
  std::int64_t chunk_rows() const { return chunk_rows_; }
  bool touches(Region region) const { return reads(region) || writes(region); }
  /// Needs what was there, or changes it.
  bool reads(Region region) const { return read_[static_cast<std::size_t>(region)]; }
  bool writes(Region region) const { return written_[static_cast<std::size_t>(region)]; }

  void run(Kernels& kernels, const UnitMemory& memory, float loss_factor) const;

 private:
  void run_rows(Kernels& kernels, const UnitMemory& memory, float loss_factor, const Step& step,
                std::int64_t first, std::int64_t rows) const;

  std::vector<Step> steps_;
  MicrobatchShape shape_;
  std::int64_t chunk_rows_;
  double flops_ = 0;
  std::array<bool, kRegions> read_ = {}, written_ = {};
};

}  // namespace strata
