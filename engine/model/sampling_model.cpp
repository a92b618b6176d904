#include "engine/model/sampling_model.h"

#include <utility>

#include "engine/model/graph/derive.h"
#include "engine/model/graph/logits_graph.h"
#include "engine/model/model.h"

namespace strata {

Model sampling_model(Model model, std::int64_t positions) {
  model.is_sampled = true;
  model.table_positions = positions;
  UnitGraph& head = model.graphs[model.head().kind];
  head = of_last_rows(without_loss(std::move(head)).graph, kLastRowsArray);
  for (UnitGraph& graph : model.graphs) graph.wants_input_gradient = false;
  model.passes[model.head().kind] = derive(head);
  keep_forward_passes(model);
  return model;
}

void keep_forward_passes(Model& model) {
  for (DerivedGraph& passes : model.passes) passes.backward.nodes.clear();
}

}  // namespace strata
