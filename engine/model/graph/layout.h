// What each rank of a group holds of a unit's tensors if named axes are split over the group, and where
// values have to be exchanged for it. Parameters with such an axis are split. The rules' declarations
// (legality.h) carry the split through both passes. Pure values; any thread.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "engine/model/graph/derive.h"

namespace strata {

struct Layout {
  enum class Form : std::uint8_t {
    whole,       ///< every rank has all of it
    split,       ///< every rank has its stretch of an axis
    partial_sum  ///< it is the sum over ranks of what they have
  };

  Form form = Form::whole;
  AxisName axis = kUncut;  ///< if it is split

  friend bool operator==(const Layout&, const Layout&) = default;
};

struct TensorExchange {
  ExchangeKind kind;
  TensorId tensor;
  std::size_t before;  ///< the node that needs it; the number of nodes: the unit's reader

  friend bool operator==(const TensorExchange&, const TensorExchange&) = default;
};

/// What a node does with its operands.
struct NodeLayout {
  std::vector<bool> is_divided;  ///< it works on the rank's stretch of the operand
  std::vector<bool> is_once;     ///< one rank's node is given the operand: it is whole among partial sums
  std::string variable = {};     ///< of the rule's axes, the one that is split, if one is
  std::int64_t length = 0;       ///< of its axis
};

struct UnitLayout {
  std::vector<Layout> tensors;  ///< of the backward graph, as nodes make them
  std::vector<TensorExchange> forward_exchanges, backward_exchanges;
  std::vector<NodeLayout> forward_nodes, backward_nodes;
};

/// Splits all dimensions with one of these names over `ranks`. What units hand to one another has them split,
/// too, if it has one, and is whole otherwise. A tensor that is whole gives each rank its stretch for
/// nothing; one that is gathered serves its whole pass. Partial sums travel on through nodes that are linear
/// in them if that makes nothing larger. A parameter's gradient may stay one: then it is to be summed once in
/// a step. Of an axis that is `padded` the last rank's stretch may be shorter than the others. Throws
/// ConfigError if a dimension cannot be split so often.
UnitLayout lay_out(const DerivedGraph& graph, std::span<const AxisName> axes, std::int64_t ranks,
                   std::span<const AxisName> padded = {});

}  // namespace strata
