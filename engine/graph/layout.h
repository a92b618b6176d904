// What each rank of a group holds of a unit's tensors if named axes are split over the group, and where
// values have to be exchanged for it: parameters with such an axis are split, and the rules' declarations
// (legality.h) carry that through both passes. Pure values; any thread.
#pragma once

#include <span>
#include <vector>

#include "engine/graph/operators/exchange.h"
#include "engine/graph/unit_graph.h"

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
  std::size_t before;  ///< the node that needs it; the number of nodes: whoever takes it from the unit

  friend bool operator==(const TensorExchange&, const TensorExchange&) = default;
};

struct UnitLayout {
  UnitGraph backward;           ///< Derivation's; its tensors are those of both passes
  std::vector<Layout> tensors;  ///< as nodes make them
  std::vector<TensorExchange> forward_exchanges, backward_exchanges;
};

/// Splits all dimensions with one of these names over `ranks`. What units hand to one another has them split,
/// too, if it has one, and is whole otherwise. A tensor that is whole gives each rank its stretch for
/// nothing; one that is gathered serves its whole pass. Partial sums travel on through nodes that are linear
/// in them if that makes nothing larger. A parameter's gradient may stay one: then it is to be summed once in
/// a step. Throws ConfigError if a dimension cannot be split so often.
UnitLayout lay_out(const UnitGraph& graph, std::span<const AxisName> axes, std::int64_t ranks);

}  // namespace strata
