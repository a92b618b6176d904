#include "tests/graph/split_proof.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <exception>
#include <limits>
#include <numeric>
#include <optional>
#include <span>

#include "engine/device/reference/reference_kernels.h"
#include "tests/support/declared_axes.h"
#include "tests/support/guarded_memory.h"

namespace strata::test {
namespace {

using Indices = std::vector<std::int64_t>;

/// A stretch of one dimension: number `part` of `parts`.
struct Stretch {
  AxisName name;
  std::size_t variable;
  std::int64_t part, parts;

  MicrobatchShape in(MicrobatchShape shape) const {
    if (name == AxisName("sequences")) shape.batch /= parts;
    if (name == AxisName("positions")) shape.sequence /= parts;
    return shape;
  }
};

std::int64_t length(const Dimensions& part, std::size_t first, std::size_t last,
                    const MicrobatchShape& shape) {
  std::int64_t product = 1;
  for (std::size_t i = first; i < last; ++i) product *= part[i].length.in(shape);
  return product;
}

/// Dimensions of a part of an axis, one within the other, that are split as one.
struct SplitDimensions {
  std::size_t first, last;
};

/// The elements of an axis whose index along the dimensions `split[part]`, if there are some, lies in the
/// stretch.
Indices elements_in(const Axis& axis, const std::map<std::size_t, SplitDimensions>& split,
                    const Stretch& stretch, const MicrobatchShape& shape) {
  Indices indices;
  std::int64_t element = 0;
  const std::size_t shared = axis.shared();
  for (std::int64_t repeat = 0; repeat < length(axis.parts().front(), 0, shared, shape); ++repeat) {
    for (std::size_t p = 0; p < axis.parts().size(); ++p) {
      const Dimensions& part = axis.parts()[p];
      const std::int64_t inner = length(part, shared, part.size(), shape);
      for (std::int64_t i = 0; i < inner; ++i, ++element) {
        const auto found = split.find(p);
        if (found != split.end()) {
          const auto [first, last] = found->second;
          const std::int64_t size = length(part, first, last + 1, shape);
          const std::int64_t index = (repeat * inner + i) / length(part, last + 1, part.size(), shape) % size;
          if (index * stretch.parts / size != stretch.part) continue;
        }
        indices.push_back(element);
      }
    }
  }
  return indices;
}

/// Where ranks have parts of tokens, a part is a stretch of all that stand one behind another: dimensions
/// outside of `inner` that belong to its variable are split with it.
std::size_t first_split_with(const BoundDimension& inner, const std::vector<BoundDimension>& bound) {
  if (inner.dimension.name != kTokens) return inner.depth;
  const auto is_outside = [&](const BoundDimension& each) {
    return each.operand == inner.operand && each.axis == inner.axis && each.part == inner.part &&
           each.depth + 1 == inner.depth && each.variable == inner.variable;
  };
  return std::ranges::any_of(bound, is_outside) ? 0 : inner.depth;
}

/// The rows and columns of each operand that a stretch takes; nothing where an operand lacks its dimension.
std::vector<std::optional<std::array<Indices, 2>>> find_elements(const Node& node, const UnitGraph& graph,
                                                                 const std::vector<BoundDimension>& bound,
                                                                 const Stretch& stretch,
                                                                 const MicrobatchShape& shape) {
  std::vector<std::optional<std::array<Indices, 2>>> elements(node.operands.size());
  for (std::size_t i = 0; i < node.operands.size(); ++i) {
    if (!node.operands[i]) continue;
    const std::array<Axis, 2> axes = axes_of(graph, node.operands[i]);
    std::array<std::map<std::size_t, SplitDimensions>, 2> split;
    bool has = false;
    for (const BoundDimension& each : bound) {
      if (each.operand != i || each.variable != stretch.variable || each.dimension.name != stretch.name)
        continue;
      split[each.axis][each.part] = {first_split_with(each, bound), each.depth};
      has = true;
    }
    if (!has) continue;
    elements[i].emplace();
    for (std::size_t a = 0; a < axes.size(); ++a)
      (*elements[i])[a] = elements_in(axes[a], split[a], stretch, shape);
  }
  return elements;
}

template <typename Visit>
void for_each_element(const std::array<Indices, 2>& elements, std::int64_t columns, const Visit& visit) {
  for (const std::int64_t row : elements[0])
    for (const std::int64_t column : elements[1]) visit(static_cast<std::size_t>(row * columns + column));
}

OperandValues take(const OperandValues& whole, const std::array<Indices, 2>& elements) {
  OperandValues part{std::ssize(elements[0]), std::ssize(elements[1]), whole.dtype, {}};
  for_each_element(elements, whole.columns,
                   [&](std::size_t element) { part.elements.push_back(whole.elements[element]); });
  return part;
}

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return std::ranges::equal(std::as_bytes(std::span(a)), std::as_bytes(std::span(b)));
}

/// Sums are in another order: a few roundings of the largest value.
bool nearly_equal(const std::vector<float>& a, const std::vector<float>& b) {
  float largest = 0;
  for (const float value : b) largest = std::fmax(largest, std::abs(value));
  for (std::size_t i = 0; i < b.size(); ++i)
    if (!(std::abs(a[i] - b[i]) <= 1e-5F * largest + 1e-30F)) return false;
  return true;
}

/// Puts together what the parts of a split write.
class Sum {
 public:
  Sum(const Node& node, Touches touches, const std::vector<OperandValues>& values)
      : node_(node), touches_(std::move(touches)), joined_(values) {
    for (OperandValues& each : joined_) std::ranges::fill(each.elements, 0.0F);
  }

  void add(const std::vector<OperandValues>& part,
           const std::vector<std::optional<std::array<Indices, 2>>>& elements) {
    for (std::size_t i = 0; i < part.size(); ++i) {
      if (elements[i]) {
        std::size_t next = 0;
        for_each_element(*elements[i], joined_[i].columns,
                         [&](std::size_t e) { joined_[i].elements[e] = part[i].elements[next++]; });
      } else {
        for (std::size_t e = 0; e < part[i].elements.size(); ++e)
          joined_[i].elements[e] += part[i].elements[e];
      }
    }
  }

  /// Numbers of written operands that differ from those of the whole run.
  std::vector<std::size_t> differences(const std::vector<OperandValues>& whole,
                                       const std::vector<bool>& is_summed) const {
    std::vector<std::size_t> wrong;
    for (std::size_t i = 0; i < whole.size(); ++i) {
      if (!node_.operands[i] || touches_[i] == Touch::reads) continue;
      const bool equal = is_summed[i] ? nearly_equal(joined_[i].elements, whole[i].elements)
                                      : same_bits(joined_[i].elements, whole[i].elements);
      if (!equal) wrong.push_back(i);
    }
    return wrong;
  }

 private:
  const Node& node_;
  Touches touches_;
  std::vector<OperandValues> joined_;
};

}  // namespace

std::vector<OperandValues> run_alone(const Operator& rule, std::vector<OperandValues> values,
                                     const MicrobatchShape& shape) {
  ReferenceKernels kernels;
  std::vector<Matrix> matrices;
  matrices.reserve(values.size());
  for (OperandValues& each : values)
    matrices.push_back(each.elements.empty() ? Matrix()
                                             : Matrix{reinterpret_cast<std::byte*>(each.elements.data()),
                                                      each.dtype, each.rows, each.columns});
  rule.run(kernels, Operands(matrices, shape, 0.25F));
  return values;
}

namespace {

/// One rule at one node.
class Trial {
 public:
  Trial(const Operator& rule, const Node& node, const UnitGraph& graph,
        const std::vector<OperandValues>& values, const MicrobatchShape& shape)
      : rule_(rule),
        node_(node),
        graph_(graph),
        values_(values),
        shape_(shape),
        legality_(legality_of(rule)),
        touches_(rule.touches()),
        bound_(bind_axes({std::shared_ptr<const Operator>(&rule, [](const Operator*) {}), node.operands},
                         graph, legality_)),
        whole_(run_alone(rule, values, shape)) {}

  void run() {
    for (const BoundDimension& bound : bound_) {
      const auto& [name, splitting] = legality_.variables[bound.variable];
      if (!can_split(legality_, bound_, bound.variable, bound.dimension.name)) continue;
      for (const std::int64_t parts : {2, 3})
        if (bound.dimension.length.in(shape_) % parts == 0)
          cut({bound.dimension.name, bound.variable, 0, parts}, bound.dimension.length.in(shape_),
              splitting == Splitting::summed);
      proven.insert(name);
    }
    bool reads_linear = false;
    for (std::size_t i = 0; i < values_.size(); ++i) reads_linear |= is_linear(i) && reads(i);
    if (reads_linear) add_partial_sums();
  }

  std::set<std::string> proven;
  std::vector<std::string> complaints;

 private:
  bool is_linear(std::size_t operand) const { return legality_.operands[operand].is_linear; }
  bool reads(std::size_t operand) const {
    return node_.operands[operand] && touches_[operand] == Touch::reads;
  }

  void cut(Stretch stretch, std::int64_t length, bool sums) {
    Sum sum(node_, touches_, values_);
    std::vector<bool> is_summed(values_.size());
    for (stretch.part = 0; stretch.part < stretch.parts; ++stretch.part) {
      const std::int64_t count = length / stretch.parts;
      const auto of_part = rule_.of_part(legality_.variables[stretch.variable].name,
                                         {stretch.part, stretch.parts, stretch.part * count, count});
      const auto elements = find_elements(node_, graph_, bound_, stretch, shape_);
      std::vector<OperandValues> taken = values_;
      for (std::size_t i = 0; i < values_.size(); ++i) {
        if (elements[i]) {
          taken[i] = take(values_[i], *elements[i]);
          continue;
        }
        is_summed[i] = true;
        const bool is_given_once = touches_[i] == Touch::updates || (sums && is_linear(i) && reads(i));
        if (is_given_once && stretch.part > 0) std::ranges::fill(taken[i].elements, 0.0F);
      }
      sum.add(run_alone(of_part ? *of_part : rule_, std::move(taken), stretch.in(shape_)), elements);
    }
    for (const std::size_t operand : sum.differences(whole_, is_summed))
      complaints.push_back(fmt::format("operand {} of {} parts along {} differs", operand, stretch.parts,
                                       stretch.name.text()));
  }

  void add_partial_sums() {
    std::vector<OperandValues> first = values_, second = values_;
    for (std::size_t i = 0; i < values_.size(); ++i) {
      if (!is_linear(i) || !reads(i)) continue;
      const std::vector<float> shares = random_values(std::ssize(values_[i].elements), 77 + i);
      for (std::size_t e = 0; e < shares.size(); ++e) {
        first[i].elements[e] *= shares[e];
        second[i].elements[e] -= first[i].elements[e];
      }
    }
    Sum sum(node_, touches_, values_);
    for (const std::vector<OperandValues>& summand : {first, second}) {
      const std::vector<OperandValues> made = run_alone(rule_, summand, shape_);
      for (std::size_t i = 0; i < made.size(); ++i)
        if (!reads(i) && !is_linear(i) && !same_bits(made[i].elements, whole_[i].elements))
          complaints.push_back(fmt::format("operand {} depends on partial sums", i));
      sum.add(made, std::vector<std::optional<std::array<Indices, 2>>>(made.size()));
    }
    for (const std::size_t operand : sum.differences(whole_, std::vector<bool>(values_.size(), true)))
      if (is_linear(operand)) complaints.push_back(fmt::format("operand {} is not linear", operand));
    proven.insert("+");
  }

  const Operator& rule_;
  const Node& node_;
  const UnitGraph& graph_;
  const std::vector<OperandValues>& values_;
  const MicrobatchShape& shape_;
  Legality legality_;
  Touches touches_;
  std::vector<BoundDimension> bound_;
  std::vector<OperandValues> whole_;
};

}  // namespace

std::vector<std::string> SplitProof::complaints(const Operator& rule, const Node& node,
                                                const UnitGraph& graph,
                                                const std::vector<OperandValues>& values,
                                                const MicrobatchShape& shape) {
  try {
    Trial trial(rule, node, graph, values, shape);
    trial.run();
    proven_[declaration_of(rule)].merge(trial.proven);
    return trial.complaints;
  } catch (const std::exception& error) {
    return {error.what()};
  }
}

}  // namespace strata::test
