#include "engine/run/generate/forward_pass.h"

#include <algorithm>
#include <cassert>
#include <stdexcept>

#include "engine/model/graph/logits_graph.h"
#include "engine/model/model.h"

namespace strata {
namespace {

GraphShape shape_of_pass(const Model& model, DType precision, MicrobatchShape shape,
                         const RotaryLayout& tables) {
  return {.precision = precision,
          .microbatch = shape,
          .constants = tables.offsets,
          .max_chunk_bytes = model.max_chunk_bytes};
}

}  // namespace

UnitPass forward_pass(const Model& model, const Unit& unit, DType precision, MicrobatchShape shape,
                      const RotaryLayout& tables) {
  const UnitGraph& graph = model.passes[unit.kind].forward;
  if (std::ranges::find(graph.tensors, Region::tally, &Tensor::region) != graph.tensors.end())
    throw std::logic_error("the model is none of build_forward_model()");
  return {graph, shape_of_pass(model, precision, shape, tables), {}};
}

LogitsPass logits_pass(const Model& model, DType precision, std::int64_t rows) {
  const LogitsGraph head = without_loss(model.passes[model.head().kind].forward);
  const GraphShape shape = shape_of_pass(model, precision, {.batch = 1, .sequence = rows}, {});
  return {.pass = UnitPass(head.graph, shape, {}),
          .logits = size_of(head.graph.tensor(head.logits), shape),
          .soft_cap = head.soft_cap};
}

Matrix operand_in(const Segment::PlacedOperand& operand, const UnitMemory& memory) {
  std::byte* const start = memory[operand.region];
  if (operand.size.columns == 0 || start == nullptr) return {};
  Matrix matrix = operand.size;
  matrix.data = start + operand.offset;
  return matrix;
}

void run_pass(const UnitPass& pass, Kernels& kernels, const UnitMemory& memory, const RunStep& run_step) {
  assert(pass.exchanges().empty());
  for (const Segment& segment : pass.segments()) {
    for (const Segment::Step& step : segment.steps())
      if (!run_step(segment, step)) segment.run_step(step, kernels, memory, /*loss_factor=*/1);
  }
}

}  // namespace strata
