#include "engine/model/model.h"

#include <cmath>

#include "base/checked.h"
#include "engine/graph/segment.h"
#include "engine/model/families.h"

namespace strata {

AttentionShape attention_shape(const Architecture& architecture) {
  AttentionShape attention;
  attention.heads = architecture.heads;
  attention.kv_heads = architecture.kv_heads;
  attention.head_dimension = architecture.head_dimension;
  attention.window = architecture.window;
  attention.scale = static_cast<float>(1 / std::sqrt(static_cast<double>(architecture.head_dimension)));
  return attention;
}

void finish_head(UnitBuilder& builder, const TensorView& normalised, const Architecture& architecture,
                 const Unit& embedding) {
  const TensorView logits = architecture.tied_head
                                ? builder.shared_linear(normalised, embedding, 0)
                                : builder.linear(normalised, {{"lm_head", architecture.vocabulary}});
  builder.take_in_chunks(logits);
  builder.cross_entropy(logits);
}

std::int64_t Model::parameters() const {
  std::int64_t sum = 0;
  for (const Unit& unit : units) sum = checked_sum(sum, unit.parameters);
  return sum;
}

Model build_model(const Architecture& architecture) {
  const bool is_gpt2 = architecture.family == Family::gpt2;
  const UnitBuilders builders = is_gpt2 ? gpt2_units() : llama_units();
  Model model;
  model.architecture = architecture;
  model.units.reserve(static_cast<std::size_t>(architecture.layers + 2));
  if (!is_gpt2) model.rotations.push_back({architecture.head_dimension, architecture.rope});
  const auto add = [&](UnitBuilder builder, bool is_new_kind) {
    UnitBuilder::Built built = builder.finish();
    if (is_new_kind) model.graphs.push_back(std::move(built.graph));
    built.unit.kind = model.graphs.size() - 1;
    model.units.push_back(std::move(built.unit));
  };
  add(builders.embedding(architecture), true);
  for (std::int64_t layer = 0; layer < architecture.layers; ++layer)
    add(builders.block(architecture, layer), layer == 0);
  add(builders.head(architecture, model.embedding()), true);
  return model;
}

double forward_flops_per_token(const Model& model, std::int64_t sequence) {
  const GraphShape shape = {.microbatch = {1, sequence}};
  std::vector<double> of_kind;
  for (const UnitGraph& graph : model.graphs) of_kind.push_back(forward_flops(graph, shape));
  double sum = 0;
  for (const Unit& unit : model.units) sum += of_kind[unit.kind];
  return sum / static_cast<double>(sequence);
}

}  // namespace strata
