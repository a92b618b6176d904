#include "engine/model/graph/legality.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <stdexcept>

#include "base/nth.h"

namespace strata {
namespace {

class Reader {
 public:
  explicit Reader(std::string_view text) : text_(text) {}

  Legality read() {
    do {
      Legality::Operand operand;
      operand.is_linear = take('+');
      for (Legality::AxisPattern& axis : operand.axes) axis = read_axis();
      legality_.operands.push_back(std::move(operand));
    } while (take(','));
    if (!text_.empty()) fail();
    return std::move(legality_);
  }

 private:
  [[noreturn]] void fail() const {
    throw std::logic_error(fmt::format("a declaration of axes cannot be read from \"{}\" on", text_));
  }

  bool take(char wanted) {
    text_.remove_prefix(std::min(text_.find_first_not_of(' '), text_.size()));
    if (text_.empty() || text_.front() != wanted) return false;
    text_.remove_prefix(1);
    return true;
  }

  Legality::AxisPattern read_axis() {
    Legality::AxisPattern axis;
    do {
      std::vector<std::size_t> part;
      if (take('(')) {
        while (!take(')')) part.push_back(read_variable());
      } else if (!take('1')) {
        part.push_back(read_variable());
      }
      axis.push_back(std::move(part));
    } while (take('|'));
    return axis;
  }

  std::size_t read_variable() {
    take(' ');
    const auto is_letter = [](char c) { return 'a' <= c && c <= 'z'; };
    const auto end = std::ranges::find_if_not(text_, is_letter);
    const std::string name(text_.begin(), end);
    if (name.empty()) fail();
    text_.remove_prefix(name.size());
    auto known = std::ranges::find(legality_.variables, name, &Legality::Variable::name);
    if (known == legality_.variables.end()) {
      known = legality_.variables.insert(known, {name, read_mark()});
    }
    return index_of(legality_.variables, known);
  }

  Splitting read_mark() {
    const auto mark = kMarks.find(text_.empty() ? ' ' : text_.front());
    if (mark == kMarks.npos) return Splitting::split;
    text_.remove_prefix(1);
    return std::array{Splitting::summed, Splitting::whole, Splitting::outermost}[mark];
  }

  static constexpr std::string_view kMarks = "+^'";
  std::string_view text_;
  Legality legality_;
};

/// What a variable stands for in one part of an axis.
using Binding = std::vector<Dimensions>;

/// Which variable each dimension of a part belongs to: the last ones one each, the first all that are left.
std::size_t variable_at(const std::vector<std::size_t>& variables, std::size_t depth, std::size_t depths) {
  const std::size_t from_end = depths - depth;
  return from_end < variables.size() ? variables[variables.size() - from_end] : variables.front();
}

}  // namespace

bool Legality::Operand::has(std::size_t variable) const {
  return std::ranges::any_of(axes, [&](const AxisPattern& axis) {
    return std::ranges::any_of(axis, [&](const std::vector<std::size_t>& part) {
      return std::ranges::find(part, variable) != part.end();
    });
  });
}

Legality legality_of(const Operator& rule) {
  const auto fail = [&](const std::string& what) {
    throw std::logic_error(fmt::format("{} (\"{}\"): {}", rule.name(), rule.axes(), what));
  };
  Legality legality = Reader(rule.axes()).read();
  const Touches touches = rule.touches();
  if (touches.size() != legality.operands.size()) fail("it has another number of operands");
  for (std::size_t v = 0; v < legality.variables.size(); ++v) {
    bool is_lacking = false;
    for (std::size_t i = 0; i < touches.size(); ++i)
      is_lacking |= touches[i] != Touch::reads && !legality.operands[i].has(v);
    const auto& [name, splitting] = legality.variables[v];
    const bool is_split = splitting == Splitting::split || splitting == Splitting::outermost;
    if (is_split && is_lacking) fail(name + " is missing in what is written");
    if (splitting == Splitting::summed && !is_lacking) fail("nothing is summed over " + name);
  }
  return legality;
}

bool can_split(const Legality& legality, const std::vector<BoundDimension>& bound, std::size_t variable,
               AxisName name) {
  const Splitting splitting = legality.variables[variable].splitting;
  if (splitting == Splitting::whole || name == kUncut) return false;
  using Part = std::array<std::size_t, 3>;
  std::set<Part> parts, parts_with_name;
  for (const BoundDimension& each : bound) {
    if (each.dimension.name == name && each.variable != variable) return false;
    if (each.variable != variable) continue;
    if (splitting == Splitting::outermost &&
        (each.part > 0 || (each.dimension.name == name && each.depth > 0)))
      return false;
    const Part part = {each.operand, each.axis, each.part};
    parts.insert(part);
    if (each.dimension.name == name) parts_with_name.insert(part);
  }
  return !parts_with_name.empty() && (splitting == Splitting::split || parts == parts_with_name);
}

std::array<Axis, 2> axes_of(const UnitGraph& graph, const TensorView& view) {
  const Tensor& tensor = graph.tensor(view);
  return {tensor.rows, view.is_whole() ? tensor.columns : tensor.columns.slice(view.first, view.columns)};
}

std::vector<BoundDimension> bind_axes(const Node& node, const UnitGraph& graph, const Legality& legality) {
  const auto fail = [&](std::size_t operand, const Axis& axis) {
    throw std::logic_error(fmt::format("operand {} of {} (\"{}\") has the axis {}", operand,
                                       node.rule->name(), node.rule->axes(), to_string(axis)));
  };
  std::vector<BoundDimension> bound;
  std::map<std::size_t, Binding> bindings;
  for (std::size_t i = 0; i < node.operands.size(); ++i) {
    if (!node.operands[i]) continue;
    const std::array<Axis, 2> axes = axes_of(graph, node.operands[i]);
    for (std::size_t a = 0; a < axes.size(); ++a) {
      const std::vector<Dimensions>& parts = axes[a].parts();
      const Legality::AxisPattern& pattern = legality.operands[i].axes[a];
      if (parts.size() % pattern.size() != 0) fail(i, axes[a]);
      const std::size_t repeats = parts.size() / pattern.size();
      for (std::size_t term = 0; term < pattern.size(); ++term) {
        std::map<std::size_t, Binding> here;
        for (std::size_t p = term * repeats; p < (term + 1) * repeats; ++p) {
          if (parts[p].size() < pattern[term].size() || (pattern[term].empty() && !parts[p].empty()))
            fail(i, axes[a]);
          for (const std::size_t variable : pattern[term]) here[variable].emplace_back();
          for (std::size_t depth = 0; depth < parts[p].size(); ++depth) {
            const std::size_t variable = variable_at(pattern[term], depth, parts[p].size());
            here[variable].back().push_back(parts[p][depth]);
            bound.push_back({i, a, p, depth, parts[p][depth], variable});
          }
        }
        for (auto& [variable, binding] : here) {
          const auto [known, is_new] = bindings.try_emplace(variable, binding);
          if (!is_new && known->second != binding) fail(i, axes[a]);
        }
      }
    }
  }
  return bound;
}

}  // namespace strata
