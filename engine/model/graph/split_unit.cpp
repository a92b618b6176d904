#include "engine/model/graph/split_unit.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <numeric>
#include <stdexcept>
#include <utility>

#include "base/error.h"
#include "base/nth.h"
#include "engine/model/graph/operators/exchange.h"
#include "engine/model/graph/share_columns.h"

namespace strata {
namespace {

using Form = Layout::Form;

std::int64_t length_of(std::span<const Dimension> dimensions) {
  std::int64_t length = 1;
  for (const Dimension& dimension : dimensions) length *= dimension.length.count;
  return length;
}

class StretchFinder {
 public:
  StretchFinder(const Axis& axis, const AxisSplit& split) : axis_(axis), split_(split) {}

  std::vector<Stretch> find() {
    const Dimensions& outer = axis_.parts().front();
    go_through(std::span(outer).first(axis_.shared()), [&] {
      for (const Dimensions& part : axis_.parts()) take_all(std::span(part).subspan(axis_.shared()));
    });
    return std::move(found_);
  }

 private:
  bool is_split(const Dimension& dimension) const {
    return std::ranges::find(split_.axes, dimension.name) != split_.axes.end();
  }

  /// Calls inner() for each index of the outermost dimension, which takes or skips what lies behind it.
  template <typename Inner>
  void go_through(std::span<const Dimension> dimensions, const Inner& inner) {
    if (dimensions.empty()) return inner();
    const std::int64_t length = dimensions.front().length.count;
    const bool splits = is_split(dimensions.front());
    const std::int64_t count = splits ? (length + split_.ranks - 1) / split_.ranks : length;
    const std::int64_t first = splits ? split_.rank * count : 0;
    for (std::int64_t i = 0; i < length; ++i) {
      const bool was_taken = std::exchange(takes_, takes_ && first <= i && i < first + count);
      go_through(dimensions.subspan(1), inner);
      takes_ = was_taken;
    }
  }

  void take_all(std::span<const Dimension> dimensions) {
    const auto inner = std::ranges::find_if(dimensions.rbegin(), dimensions.rend(),
                                            [&](const Dimension& dimension) { return is_split(dimension); });
    const auto split = static_cast<std::size_t>(dimensions.rend() - inner);  // and those outside of them
    go_through(dimensions.first(split), [&] { take(length_of(dimensions.subspan(split))); });
  }

  void take(std::int64_t count) {
    const std::int64_t first = std::exchange(at_, at_ + count);
    if (!takes_) return;
    if (!found_.empty() && found_.back().first + found_.back().count == first) {
      found_.back().count += count;
    } else {
      found_.push_back({first, count});
    }
  }

  const Axis& axis_;
  const AxisSplit& split_;
  std::vector<Stretch> found_;
  std::int64_t at_ = 0;
  bool takes_ = true;
};

/// Elements of [first, end) that the stretches have.
std::int64_t common(const std::vector<Stretch>& stretches, std::int64_t first, std::int64_t end) {
  std::int64_t count = 0;
  for (const Stretch& stretch : stretches)
    count += std::max<std::int64_t>(
        0, std::min(end, stretch.first + stretch.count) - std::max(first, stretch.first));
  return count;
}

/// Those stretches, or parts of them, that lie in [first, end), counted from there.
std::vector<Stretch> within(const std::vector<Stretch>& stretches, std::int64_t first, std::int64_t end) {
  std::vector<Stretch> result;
  for (const Stretch& stretch : stretches) {
    const std::int64_t from = std::max(first, stretch.first);
    const std::int64_t to = std::min(end, stretch.first + stretch.count);
    if (from < to) result.push_back({from - first, to - from});
  }
  return result;
}

std::int64_t aligned(std::int64_t value, std::int64_t alignment) {
  return (value + alignment - 1) / alignment * alignment;
}

/// A rule without operands that another rank's node is given: its part of a sum. All else, such as where its
/// operands lie, is as it is with them, so that all ranks run one program.
class PartialRule final : public Operator {
 public:
  PartialRule(std::shared_ptr<const Operator> rule, std::vector<bool> lacks)
      : rule_(std::move(rule)), lacks_(std::move(lacks)) {}

  std::string_view name() const override { return rule_->name(); }
  Touches touches() const override { return rule_->touches(); }
  std::string_view axes() const override { return rule_->axes(); }
  double flops(const Operands& operands) const override { return rule_->flops(operands); }
  std::vector<InPlace> in_place() const override { return rule_->in_place(); }
  bool is_cheap() const override { return rule_->is_cheap(); }
  bool goes_by_rows() const override { return rule_->goes_by_rows(); }
  Node again(const Node& node) const override {
    Node whole = node;
    whole.rule = rule_;
    Node again = rule_->again(whole);
    again.rule = std::make_shared<PartialRule>(std::move(again.rule), lacks_);
    return again;
  }
  std::vector<InPlace> shares_gradient() const override { return rule_->shares_gradient(); }

  void run(Kernels& kernels, const Operands& operands) const override {
    std::array<Matrix, kMostOperands> given;
    for (std::size_t i = 0; i < lacks_.size(); ++i)
      if (!lacks_[i]) given[i] = operands[static_cast<int>(i)];
    rule_->run(kernels, Operands({given.data(), lacks_.size()}, operands.shape(), operands.loss_factor(),
                                 /*overwritten=*/0, operands.unit()));
  }

  void differentiate(const Node&, Derivation&) const override {
    throw std::logic_error("what is split over ranks has been derived before");
  }

 private:
  std::shared_ptr<const Operator> rule_;
  std::vector<bool> lacks_;
};

class UnitSplitting {
 public:
  UnitSplitting(const DerivedGraph& whole, const AxisSplit& split)
      : whole_(whole), split_(split), layout_(lay_out(whole, split.axes, split.ranks, split.padded)) {}

  SplitUnit run(const Unit& unit) {
    SplitUnit result{whole_, unit};
    place_parameters(result.unit);
    split_forward(result.graph.forward);
    split_backward(result.graph.forward, result.graph.backward);
    return result;
  }

 private:
  /// A tensor as the rank has it: its stretch, all of it (or a part of the sum), or both.
  struct Versions {
    TensorId stretch = -1, whole = -1;
    TensorId gathered = -1;  ///< by the forward pass, and not changed since
  };

  const Tensor& tensor(TensorId id) const { return nth(whole_.backward.tensors, id); }
  const Layout& layout(TensorId id) const { return nth(layout_.tensors, id); }

  static bool is_own_parameter(const Tensor& tensor) {
    return tensor.region == Region::parameter || tensor.region == Region::frozen;
  }

  Tensor local(TensorId id) const {
    Tensor local = tensor(id);
    if (layout(id).form == Form::split) divide(local, layout(id).axis);
    const Region region = local.region == Region::gradient ? Region::parameter : local.region;
    if (const auto moved = offsets_.find({region, local.offset}); moved != offsets_.end())
      local.offset = moved->second;
    return local;
  }

  void divide(Tensor& tensor, AxisName axis) const {
    tensor.rows = tensor.rows.divided(axis, split_.ranks);
    tensor.columns = tensor.columns.divided(axis, split_.ranks);
  }

  void split_forward(UnitGraph& forward) {
    const std::size_t count = whole_.forward.tensors.size();
    add_tensors(0, count);
    forward.nodes = local(whole_.forward.nodes, layout_.forward_nodes, layout_.forward_exchanges);
    forward.tensors = tensors_;
    if (forward.output >= 0) forward.output = handed_over(whole_.forward.output);
    for (Versions& versions : versions_) {
      if (versions.stretch < 0 || is_data(nth(tensors_, versions.stretch).region)) continue;
      versions.gathered = std::exchange(versions.whole, -1);
    }
  }

  /// Its first tensors are those of the forward pass. There may be more of them now.
  void split_backward(const UnitGraph& forward, UnitGraph& backward) {
    add_tensors(whole_.forward.tensors.size(), whole_.backward.tensors.size());
    backward.nodes = local(whole_.backward.nodes, layout_.backward_nodes, layout_.backward_exchanges);
    backward.tensors = tensors_;
    backward.output = forward.output;
    const auto given = std::ranges::find(whole_.backward.tensors, Region::input_gradient, &Tensor::region);
    if (given != whole_.backward.tensors.end())
      handed_over(static_cast<TensorId>(given - whole_.backward.tensors.begin()));
  }

  /// Tensors of the whole unit.
  void add_tensors(std::size_t first, std::size_t end) {
    for (std::size_t i = first; i < end; ++i) {
      const auto id = static_cast<TensorId>(i), own = static_cast<TensorId>(tensors_.size());
      tensors_.push_back(local(id));
      const bool is_split = layout(id).form == Form::split;
      versions_.push_back({is_split ? own : -1, is_split ? -1 : own});
    }
  }

  Versions& versions(TensorId id) { return nth(versions_, id); }
  /// What the next unit takes.
  TensorId handed_over(TensorId id) {
    if (versions(id).stretch < 0 && tokens_of(id).form == Form::split)
      throw std::logic_error(tensor(id).name + " is whole, and the next unit takes a stretch");
    return versions(id).stretch >= 0 ? versions(id).stretch : versions(id).whole;
  }

  std::vector<Node> local(const std::vector<Node>& nodes, const std::vector<NodeLayout>& layouts,
                          const std::vector<TensorExchange>& exchanges) {
    std::vector<Node> result;
    auto next = exchanges.begin();
    const auto exchange_before = [&](std::size_t number) {
      for (; next != exchanges.end() && next->before == number; ++next) exchange(*next, result);
    };
    for (std::size_t i = 0; i < nodes.size(); ++i) {
      exchange_before(i);
      result.push_back(local(nodes[i], layouts[i]));
    }
    exchange_before(nodes.size());
    return result;
  }

  void exchange(const TensorExchange& exchange, std::vector<Node>& nodes) {
    Versions& versions = this->versions(exchange.tensor);
    const auto rule = std::make_shared<ExchangeRule>(exchange.kind);
    const Layout wanted = tokens_of(exchange.tensor);
    if (exchange.kind == ExchangeKind::all_reduce) {
      nodes.push_back({rule, {{versions.whole}}});
      return;
    }
    if (wanted.form != Form::split)
      throw ConfigError(
          fmt::format("ranks would need an {} of {} within each layer, and have parts of nothing but tokens: "
                      "this model's layers cannot be shared",
                      name_of(exchange.kind), tensor(exchange.tensor).name));
    if (exchange.kind == ExchangeKind::reduce_scatter) {
      versions.stretch = add_stretch(versions.whole, wanted.axis);
      nodes.push_back({rule, {{versions.whole}, {versions.stretch}}});
      versions.whole = -1;
    } else if (versions.gathered >= 0) {  // the maker of the passes gathers it again
      versions.whole = versions.gathered;
    } else {
      versions.whole = add_whole(exchange.tensor, versions.stretch);
      nodes.push_back({rule, {{versions.stretch}, {versions.whole}}});
    }
  }

  /// How a tensor is split if ranks share out its tokens.
  Layout tokens_of(TensorId id) const {
    if (std::ranges::find(split_.axes, kTokens) == split_.axes.end()) return {};
    const bool has_tokens = tensor(id).rows.has(kTokens) || tensor(id).columns.has(kTokens);
    const bool is_split = layout(id).form == Form::split && layout(id).axis != kTokens;
    return has_tokens && !is_split ? Layout{Form::split, kTokens} : Layout{};
  }

  /// The rank's stretch of a sum, which lies where the sum would.
  TensorId add_stretch(TensorId sum, AxisName axis) {
    Tensor stretch = nth(tensors_, sum);
    nth(tensors_, sum).region = Region::workspace;
    nth(tensors_, sum).name += ".part";
    divide(stretch, axis);
    tensors_.push_back(std::move(stretch));
    return static_cast<TensorId>(tensors_.size()) - 1;
  }

  /// The rank's tokens of what every rank has of all.
  TensorId add_data_stretch(TensorId all) {
    Tensor stretch = nth(tensors_, all);
    divide(stretch, kTokens);
    stretch.part = stretch.part * split_.ranks + split_.rank;
    tensors_.push_back(std::move(stretch));
    return static_cast<TensorId>(tensors_.size()) - 1;
  }

  TensorId add_whole(TensorId id, TensorId stretch) {
    Tensor whole = nth(tensors_, stretch);
    whole.name += ".whole";
    whole.rows = tensor(id).rows;
    whole.columns = tensor(id).columns;
    whole.region = Region::workspace;
    whole.offset = 0;
    tensors_.push_back(std::move(whole));
    return static_cast<TensorId>(tensors_.size()) - 1;
  }

  Node local(Node node, const NodeLayout& layout) {
    const Touches touches = node.rule->touches();
    for (std::size_t i = 0; i < node.operands.size(); ++i) {
      TensorView& view = node.operands[i];
      if (!view) continue;
      Versions& versions = this->versions(view.tensor);
      const bool is_split = layout.is_divided[i];
      if (is_split && versions.stretch < 0 && is_data(tensor(view.tensor).region))
        versions.stretch = add_data_stretch(versions.whole);
      const TensorId own = is_split ? versions.stretch : versions.whole;
      if (own < 0)
        throw std::logic_error(fmt::format("{} takes {} of {}, which ranks do not have", node.rule->name(),
                                           is_split ? "a stretch" : "all", tensor(view.tensor).name));
      if (touches[i] != Touch::reads) {
        versions.gathered = -1;
        (is_split ? versions.whole : versions.stretch) = -1;
      }
      if (is_split && !view.is_whole()) {
        const std::vector<Stretch> columns = stretches_of(tensor(view.tensor).columns, split_);
        const std::int64_t end = view.first + view.columns;
        view = {own, common(columns, 0, view.first), common(columns, view.first, end)};
      } else {
        view.tensor = own;
      }
    }
    if (!layout.variable.empty())
      if (auto rule = node.rule->of_part(layout.variable, own_part(layout.length)))
        node.rule = std::move(rule);
    const bool has_less = split_.rank > 0 && std::ranges::find(layout.is_once, true) != layout.is_once.end();
    if (has_less) node.rule = std::make_shared<PartialRule>(std::move(node.rule), layout.is_once);
    return node;
  }

  /// The rank's part of an axis of this length.
  AxisPart own_part(std::int64_t length) const {
    const std::int64_t count = (length + split_.ranks - 1) / split_.ranks, first = split_.rank * count;
    return {split_.rank, split_.ranks, first, std::min(count, length - first)};
  }

  /// Gives the parameters of a rank their places in its flat parameters: first those that it has a part of.
  void place_parameters(Unit& unit) {
    for (const Flat flat : {Flat::trained, Flat::frozen}) {
      const Region region = flat == Flat::trained ? Region::parameter : Region::frozen;
      std::map<std::int64_t, TensorId> parameters;  // by offset
      for (const Node& node : whole_.forward.nodes) {
        for_each_operand(node, [&](const TensorView& view, Touch) {
          if (tensor(view.tensor).region == region)
            parameters.emplace(tensor(view.tensor).offset, view.tensor);
        });
      }
      std::int64_t end = 0;
      for (const bool splits : {true, false}) {
        for (const auto& [offset, id] : parameters) {
          if ((layout(id).form == Form::split) != splits) continue;
          end = aligned(end, kTensorAlignment);
          offsets_[{region, offset}] = end;
          end += local_elements(id);
        }
      }
      (flat == Flat::trained ? unit.elements : unit.frozen_elements) = aligned(end, kFlatAlignment);
      for (TensorSpec& spec : unit.tensors) {
        if (spec.flat != flat) continue;
        const auto above = parameters.upper_bound(spec.offset);
        if (above == parameters.begin())
          throw std::logic_error(spec.hf_name + " is in no parameter of its graph");
        place_in(spec, std::prev(above)->second);
      }
    }
    std::ranges::stable_sort(unit.tensors, {},
                             [](const TensorSpec& spec) { return std::pair(spec.flat, spec.offset); });
  }

  std::int64_t local_elements(TensorId id) const {
    const Tensor part = local(id);
    return part.rows.extent().count * part.columns.extent().count;
  }

  /// `spec` is some rows of the parameter, or some columns of its only row.
  void place_in(TensorSpec& spec, TensorId id) const {
    const Tensor& parameter = tensor(id);
    spec.summed_ranks = has_partial_gradient(parameter) ? split_.ranks : 1;
    spec.whole_offset = spec.offset;
    const std::int64_t columns = parameter.columns.extent().count, first = spec.offset - parameter.offset;
    const std::int64_t start = offsets_.at({parameter.region, parameter.offset});
    if (layout(id).form != Form::split) {
      spec.offset = start + first;
      spec.is_copy = split_.rank > 0;
      return;
    }
    const std::vector<Stretch> of_rows = stretches_of(parameter.rows, split_),
                               of_columns = stretches_of(parameter.columns, split_);
    const std::int64_t local_columns = common(of_columns, 0, columns);
    const bool is_in_a_row = parameter.rows.extent().count == 1;
    const std::int64_t unit = is_in_a_row ? 1 : columns;  // of what the spec is a range
    if (first % unit != 0 || spec.elements % unit != 0)
      throw std::logic_error(spec.hf_name + " is no whole rows of a parameter");
    const std::int64_t begin = first / unit, end = begin + spec.elements / unit;
    spec.rows = is_in_a_row ? std::vector<Stretch>{{0, 1}} : within(of_rows, begin, end);
    spec.columns = is_in_a_row ? within(of_columns, begin, end) : of_columns;
    const std::int64_t before = common(is_in_a_row ? of_columns : of_rows, 0, begin);
    spec.offset = start + before * (is_in_a_row ? 1 : local_columns);
    const auto count = [](const std::vector<Stretch>& stretches) {
      return std::accumulate(stretches.begin(), stretches.end(), std::int64_t{0},
                             [](std::int64_t sum, const Stretch& stretch) { return sum + stretch.count; });
    };
    spec.elements = count(spec.rows) * count(spec.columns);
  }

  bool has_partial_gradient(const Tensor& parameter) const {
    for (TensorId id = 0; id < std::ssize(whole_.backward.tensors); ++id) {
      if (tensor(id).region == Region::gradient && tensor(id).offset == parameter.offset)
        return layout(id).form == Form::partial_sum;
    }
    return false;
  }

  const DerivedGraph& whole_;
  const AxisSplit& split_;
  UnitLayout layout_;
  std::vector<Tensor> tensors_;     ///< of the rank
  std::vector<Versions> versions_;  ///< by tensor of the whole unit
  /// Has those of parameters in a rank's flat parameters, by those in the whole ones.
  std::map<std::pair<Region, std::int64_t>, std::int64_t> offsets_;
};

}  // namespace

std::vector<Stretch> stretches_of(const Axis& axis, const AxisSplit& split) {
  return StretchFinder(axis, split).find();
}

DerivedGraph derive_shared(const UnitGraph& graph, const AxisSplit& split) {
  const bool splits_tokens = std::ranges::find(split.axes, kTokens) != split.axes.end();
  return derive(share_columns(graph, {split.axes, split.ranks}), splits_tokens ? Fusing::norms : Fusing::all);
}

SplitUnit split_unit(const Unit& unit, const DerivedGraph& whole, const AxisSplit& split) {
  return UnitSplitting(whole, split).run(unit);
}

}  // namespace strata
