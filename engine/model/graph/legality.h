// How an operator may be split over ranks, read from its rule's declaration (Operator::axes()). A declaration
// names the axes of each operand, in the rule's order, rows before columns:
//
//   "+t k+, n k+, +1 n, +t n, +t n"    a product: x, weight, bias, addend, out
//
//   t        One variable for each axis of the loop that the operator is. Each part has its stretch of every
//            operand with it; what is written is then that stretch of the whole.
//   k+       What is written and lacks it is summed over it: each part gives a partial sum. (A mark stands
//            where the variable comes first.) If k is parts side by side, all of them have to be split.
//   c^       Must stay whole.
//   c'       May be split on its outermost dimension only, and not if it is parts side by side: each part has
//            neighbours.
//   1        A length of one.
//   (g q d)  An axis that is a product, from outside to inside; the first takes all dimensions that are left.
//   c|c      Parts side by side.
//   +t n     In front of an operand: what is written and has this mark, too, is linear in those that are read
//            with it, together. If they are partial sums, so is it; one that is whole among partial sums is
//            given to one part only, and zeros to the others.
//
// What is updated counts as read and written; as a partial sum one part adds to what is there, the others to
// zeros. Any thread.
#pragma once

#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "engine/model/graph/unit_graph.h"

namespace strata {

enum class Splitting : std::uint8_t { split, summed, whole, outermost };

struct Legality {
  struct Variable {
    std::string name;
    Splitting splitting = Splitting::split;
  };
  /// The variables of parts side by side, each from outside to inside; none: a length of one.
  using AxisPattern = std::vector<std::vector<std::size_t>>;
  struct Operand {
    bool is_linear = false;
    std::array<AxisPattern, 2> axes;  ///< rows, columns

    bool has(std::size_t variable) const;
  };

  std::vector<Variable> variables;
  std::vector<Operand> operands;
};

/// Throws std::logic_error for a declaration that says nothing or contradicts itself: a variable that is not
/// marked and that something written lacks, or a sum over one that all that is written has.
Legality legality_of(const Operator& rule);

/// A dimension of an operand, and the variable that it belongs to.
struct BoundDimension {
  std::size_t operand, axis, part, depth;
  Dimension dimension;
  std::size_t variable;
};

/// The dimensions of a node's operands. Throws std::logic_error, naming the operator, if they do not have the
/// axes that the rule declares: a variable is the same dimensions wherever it stands.
std::vector<BoundDimension> bind_axes(const Node& node, const UnitGraph& graph, const Legality& legality);

/// Whether a node may be split on all dimensions of this name. They have to be the variable's.
bool can_split(const Legality& legality, const std::vector<BoundDimension>& bound, std::size_t variable,
               AxisName name);

/// Rows and columns of what a view shows.
std::array<Axis, 2> axes_of(const UnitGraph& graph, const TensorView& view);

}  // namespace strata
