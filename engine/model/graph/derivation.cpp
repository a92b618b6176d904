#include "engine/model/graph/derivation.h"

#include <algorithm>
#include <utility>

#include "base/nth.h"
#include "engine/model/graph/operators/elementwise.h"

namespace strata {
namespace {

bool overlap(const TensorView& a, const TensorView& b) {
  if (a.is_whole() || b.is_whole()) return true;
  return a.first < b.first + b.columns && b.first < a.first + a.columns;
}

}  // namespace

std::vector<bool> wanted_tensors(const UnitGraph& graph) {
  std::vector<bool> wanted;
  for (const Tensor& tensor : graph.tensors) {
    const bool is_input = tensor.region == Region::input && graph.wants_input_gradient;
    wanted.push_back(is_input || tensor.region == Region::parameter ||
                     tensor.region == Region::shared_parameter);
  }
  for (const Node& node : graph.nodes) {
    bool reads_wanted = false;
    for_each_operand(node, [&](const TensorView& view, Touch touch) {
      reads_wanted |= touch != Touch::writes && nth(wanted, view.tensor);
    });
    if (!reads_wanted) continue;
    for_each_operand(node, [&](const TensorView& view, Touch touch) {
      if (touch != Touch::reads) nth(wanted, view.tensor) = true;
    });
  }
  return wanted;
}

Derivation::Derivation(const UnitGraph& graph, Fusing fusing)
    : graph_(graph), fusing_(fusing), wanted_(wanted_tensors(graph)) {
  backward_.tensors = graph.tensors;
  backward_.input = graph.input;
  backward_.output = graph.output;
}

UnitGraph Derivation::finish() {
  if (graph_.output >= 0) {
    const TensorView gradient = new_like({graph_.output});
    backward_.tensors.back().region = Region::output_gradient;
    gradients_[graph_.output] = {gradient, {{}}};
  }
  for (auto node = graph_.nodes.rbegin(); node != graph_.nodes.rend(); ++node)
    node->rule->differentiate(*node, *this);
  if (graph_.input >= 0 && graph_.wants_input_gradient) {
    const TensorView given = gradient({graph_.input});
    Tensor& place = nth(backward_.tensors, given.tensor);
    if (place.region == Region::workspace && given.is_whole()) {
      place.region = Region::input_gradient;
    } else {  // the unit hands its output's gradient on
      const TensorView copy = new_like({graph_.input});
      backward_.tensors.back().region = Region::input_gradient;
      add(std::make_shared<CopyRule>(), {given, copy});
    }
  }
  return std::move(backward_);
}

TensorView Derivation::new_like(const TensorView& of) {
  Tensor tensor = graph_.tensor(of);
  tensor.name += "_gradient";
  tensor.region = Region::workspace;
  tensor.offset = 0;
  if (!of.is_whole()) tensor.columns = tensor.columns.slice(of.first, of.columns);
  return {backward_.add(std::move(tensor))};
}

bool Derivation::wants(const TensorView& of) const {
  if (!of || !nth(wanted_, of.tensor)) return false;
  const Region region = graph_.tensor(of).region;
  return region == Region::workspace || region == Region::input || region == Region::parameter ||
         region == Region::shared_parameter;
}

void Derivation::add(std::shared_ptr<const Operator> rule, std::vector<TensorView> operands) {
  backward_.nodes.push_back({std::move(rule), std::move(operands)});
}

TensorView Derivation::parameter_gradient(const TensorView& of) {
  if (!wants(of)) return {};
  const auto [entry, is_new] = parameter_gradients_.try_emplace(of.tensor);
  if (is_new) {
    Tensor tensor = graph_.tensor(of);
    tensor.name += "_gradient";
    tensor.type = TensorType::fp32;
    tensor.region = tensor.region == Region::shared_parameter ? Region::shared_gradient : Region::gradient;
    entry->second = backward_.add(std::move(tensor));
  }
  return {entry->second, of.first, of.columns};
}

/// The node that writes the view, if it lets the view's gradient lie in the place of another one.
Derivation::Gradient& Derivation::gradient_of(const TensorView& of) {
  const auto found = gradients_.find(of.tensor);
  if (found != gradients_.end()) return found->second;
  for (const Node& node : graph_.nodes) {
    for (const InPlace& pair : node.rule->shares_gradient()) {
      if (node[pair.written].tensor != of.tensor || !node[pair.written].is_whole()) continue;
      const TensorView place = this->place(node[pair.read]);
      return gradients_[of.tensor] = {place, {}};
    }
  }
  const TensorView place = new_like({of.tensor});
  return gradients_[of.tensor] = {place, {}};
}

bool Derivation::has_gradient(const TensorView& of) const {
  const auto found = gradients_.find(of.tensor);
  return found != gradients_.end() && std::ranges::any_of(found->second.given, [&](const TensorView& given) {
           return overlap(given, of);
         });
}

TensorView Derivation::gradient(const TensorView& of) {
  if (!of || !has_gradient(of)) return {};
  const TensorView& place = gradients_.at(of.tensor).place;
  return of.is_whole() ? place : TensorView{place.tensor, place.first + of.first, of.columns};
}

TensorView Derivation::first_gradient(const TensorView& of) {
  if (has_gradient(of))
    throw std::logic_error("tensor " + graph_.tensor(of).name + " has a gradient from elsewhere");
  return place(of);
}

TensorView Derivation::gradient_row(const TensorView& of) {
  const TensorView row = first_gradient(of);
  nth(backward_.tensors, row.tensor).rows = {};
  return row;
}

TensorView Derivation::place(const TensorView& of) {
  Gradient& gradient = gradient_of(of);
  gradient.given.push_back({of.is_whole() ? TensorView{} : TensorView{-1, of.first, of.columns}});
  return of.is_whole() ? gradient.place
                       : TensorView{gradient.place.tensor, gradient.place.first + of.first, of.columns};
}

void Derivation::pass(const TensorView& of, const TensorView& part) {
  if (!wants(of)) return;
  if (!has_gradient(of) && of.is_whole()) {
    gradients_[of.tensor] = {part, {{}}};
    return;
  }
  give(of, [&](const TensorView& to, const TensorView& addend) {
    if (addend) {
      add(std::make_shared<AdditionRule>(), {part, addend, to});
    } else {
      add(std::make_shared<CopyRule>(), {part, to});
    }
  });
}

void Derivation::give(const TensorView& of,
                      const std::function<void(TensorView to, TensorView addend)>& make) {
  if (!wants(of)) return;
  if (!has_gradient(of)) return make(place(of), {});
  const TensorView before = gradient(of);
  if (!of.is_whole()) return make(before, before);
  const TensorView sum = new_like(of);
  make(sum, before);
  gradients_[of.tensor] = {sum, {{}}};
}

void Derivation::give(const TensorView& of, const std::function<void(TensorView to)>& make) {
  give(of, [&](const TensorView& to, const TensorView& addend) {
    if (!addend) return make(to);
    const TensorView part = new_like(of);
    make(part);
    add(std::make_shared<AdditionRule>(), {part, addend, to});
  });
}

}  // namespace strata
