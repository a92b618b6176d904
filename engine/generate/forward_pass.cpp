#include "engine/generate/forward_pass.h"

#include <algorithm>
#include <cassert>
#include <stdexcept>
#include <utility>

#include "engine/graph/operators/cross_entropy.h"

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
  UnitGraph graph = model.passes[model.head().kind].forward;
  const auto loss = std::ranges::find_if(graph.nodes, [](const Node& node) {
    return dynamic_cast<const CrossEntropyRule*>(node.rule.get()) != nullptr;
  });
  if (loss == graph.nodes.end()) throw std::logic_error("a head without a loss of logits");
  LogitsPass made{
      .pass = {}, .logits = {}, .soft_cap = dynamic_cast<const CrossEntropyRule&>(*loss->rule).soft_cap()};
  graph.output = (*loss)[CrossEntropyRule::logits].tensor;
  graph.nodes.erase(loss, graph.nodes.end());
  for (Tensor& tensor : graph.tensors) tensor.in_chunks = false;
  graph.tensors[static_cast<std::size_t>(graph.output)].region = Region::output;
  const GraphShape shape = shape_of_pass(model, precision, {.batch = 1, .sequence = rows}, {});
  made.logits = size_of(graph.tensor(graph.output), shape);
  made.pass = UnitPass(graph, shape, {});
  return made;
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
