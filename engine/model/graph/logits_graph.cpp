#include "engine/model/graph/logits_graph.h"

#include <algorithm>
#include <memory>
#include <stdexcept>

#include "base/nth.h"
#include "engine/model/graph/operators/take_rows.h"

namespace strata {

LogitsGraph without_loss(UnitGraph head) {
  const auto loss =
      std::ranges::find_if(head.nodes, [](const Node& node) { return node.rule->loss_form().has_value(); });
  if (loss == head.nodes.end()) throw std::logic_error("a head without a loss of logits");
  const LossForm form = *loss->rule->loss_form();
  LogitsGraph made{.graph = {}, .logits = (*loss)[form.logits].tensor, .soft_cap = form.soft_cap};
  const TensorId losses = (*loss)[form.losses].tensor;
  head.nodes.erase(loss, head.nodes.end());
  for (Tensor& tensor : head.tensors) tensor.in_chunks = false;
  nth(head.tensors, losses).region = Region::workspace;
  nth(head.tensors, made.logits).region = Region::logits;
  made.graph = std::move(head);
  return made;
}

UnitGraph of_last_rows(UnitGraph head, std::size_t array) {
  const Axis last("sequences", per_sequence(1));
  const auto targets = std::ranges::find(head.tensors, data_region(array), &Tensor::region);
  if (targets == head.tensors.end()) throw std::logic_error("a head without targets");
  targets->name = "last_rows";
  targets->columns = last;
  const TensorView rows{static_cast<TensorId>(targets - head.tensors.begin())};
  Tensor taken = head.tensor(head.input);
  taken.name = "last";
  taken.region = Region::workspace;
  const TensorView out{head.add(std::move(taken))};
  for (TensorId id = 0; id < std::ssize(head.tensors); ++id) {
    Tensor& tensor = nth(head.tensors, id);
    if (id == head.input) continue;
    if (tensor.rows == token_axis()) tensor.rows = last;
    if (tensor.columns == token_axis()) tensor.columns = last;
  }
  for (Node& node : head.nodes) {
    for (TensorView& view : node.operands)
      if (view.tensor == head.input) view.tensor = out.tensor;
  }
  head.nodes.insert(head.nodes.begin(), {std::make_shared<TakeRowsRule>(), {{head.input}, rows, out}});
  return head;
}

}  // namespace strata
