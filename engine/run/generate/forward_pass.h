// The passes that generation and evaluation run: a unit's own forward graph, and the head's without its loss.
// Positions come from tables of rotations and from the rows that steps are given, so one graph serves whole
// sequences and single tokens. Values and plain functions; any thread.
#pragma once

#include <cstdint>
#include <functional>

#include "base/bytes.h"
#include "engine/model/graph/unit.h"
#include "engine/model/graph/unit_pass.h"
#include "engine/run/generate/position_tables.h"

namespace strata {

struct Model;

/// The memory of `count` tokens, lengths or losses.
inline Bytes number_bytes(std::int64_t count) {
  return align_up(count * static_cast<Bytes>(sizeof(std::int32_t)));
}

/// A unit's forward pass, of a model of build_forward_model(); `tables` must have a row for each position of
/// the microbatch.
UnitPass forward_pass(const Model& model, const Unit& unit, DType precision, MicrobatchShape shape,
                      const RotaryLayout& tables);

/// The head's pass from `rows` rows of input to their logits, which lie in Region::logits.
struct LogitsPass {
  UnitPass pass;
  Matrix logits;       ///< their size
  float soft_cap = 0;  ///< c > 0: a logit x counts as c · tanh(x / c)
};
LogitsPass logits_pass(const Model& model, DType precision, std::int64_t rows);

/// An operand in memory; empty if it is not given.
Matrix operand_in(const Segment::PlacedOperand& operand, const UnitMemory& memory);

/// Runs a step itself, or returns false: then its rule runs it.
using RunStep = std::function<bool(const Segment& segment, const Segment::Step& step)>;
/// REQUIRES: nothing is exchanged in the pass.
void run_pass(const UnitPass& pass, Kernels& kernels, const UnitMemory& memory, const RunStep& run_step);

}  // namespace strata
