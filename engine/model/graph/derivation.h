// The backward pass of a graph: each node's rule, in reverse order, appends the nodes that make the gradients
// of what it reads.
#pragma once

#include <functional>
#include <map>
#include <vector>

#include "engine/model/graph/fuse.h"
#include "engine/model/graph/unit_graph.h"

namespace strata {

/// By tensor, whether its gradient leads to something that is trained, or to the input's if that is wanted.
std::vector<bool> wanted_tensors(const UnitGraph& graph);

class Derivation {
 public:
  explicit Derivation(const UnitGraph& graph, Fusing fusing = Fusing::all);

  /// The graph with all gradients' tensors; its nodes are those of the backward pass. Gradients of input and
  /// output lie in their regions.
  UnitGraph finish();

  // For the rules.

  /// The gradient of a view of the graph, or nothing if nothing behind it has one.
  TensorView gradient(const TensorView& of);
  /// Where the gradient of a parameter is added up; nothing if nobody wants it.
  TensorView parameter_gradient(const TensorView& of);
  bool wants(const TensorView& of) const;
  /// Whether a product may add what another node has made of the same gradient.
  bool fuses_products() const { return fusing_ == Fusing::all; }

  void add(std::shared_ptr<const Operator> rule, std::vector<TensorView> operands);
  TensorView add(Tensor tensor) { return {backward_.add(std::move(tensor))}; }
  /// Where a node writes the gradient of `of`. REQUIRES: no other node gives it one.
  TensorView first_gradient(const TensorView& of);
  /// Where a node writes one row that is the gradient of each row of `of`. REQUIRES: no other node gives it
  /// one.
  TensorView gradient_row(const TensorView& of);
  /// Where a node writes a gradient of `of` that it makes beside wanted ones, and that nobody reads.
  TensorView unwanted_gradient(const TensorView& of) { return new_like(of); }
  /// The gradient of `of` is, or has as another part, what `part` is.
  void pass(const TensorView& of, const TensorView& part);
  /// `make(to, addend)` appends a node that writes a part of the gradient of `of`, plus the addend if that
  /// is something.
  void give(const TensorView& of, const std::function<void(TensorView to, TensorView addend)>& make);
  /// `make(to)` appends a node that writes a part and can add nothing to it.
  void give(const TensorView& of, const std::function<void(TensorView to)>& make);

 private:
  struct Gradient {
    TensorView place;               ///< of the whole tensor
    std::vector<TensorView> given;  ///< columns that have values
  };

  /// Where a gradient goes that is the first to be given.
  TensorView place(const TensorView& of);
  Gradient& gradient_of(const TensorView& of);
  TensorView new_like(const TensorView& of);
  bool has_gradient(const TensorView& of) const;

  const UnitGraph& graph_;
  Fusing fusing_;
  std::vector<bool> wanted_;
  UnitGraph backward_;
  std::map<TensorId, Gradient> gradients_;
  std::map<TensorId, TensorId> parameter_gradients_;
};

}  // namespace strata
