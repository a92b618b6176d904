#include "engine/model/graph/unit_builder.h"

#include <fmt/format.h>

#include <span>
#include <tuple>
#include <utility>

#include "base/nth.h"
#include "engine/device/activation.h"
#include "engine/device/attention_calls.h"
#include "engine/device/norm_calls.h"
#include "engine/device/row_calls.h"
#include "engine/model/graph/legality.h"
#include "engine/model/graph/operators/activation.h"
#include "engine/model/graph/operators/attention.h"
#include "engine/model/graph/operators/cross_entropy.h"
#include "engine/model/graph/operators/dropout.h"
#include "engine/model/graph/operators/elementwise.h"
#include "engine/model/graph/operators/embedding.h"
#include "engine/model/graph/operators/experts.h"
#include "engine/model/graph/row_keys.h"

namespace strata {
namespace {

constexpr std::int64_t align(std::int64_t elements, std::int64_t alignment) {
  return checked_sum(elements, alignment - 1) / alignment * alignment;
}

Axis uncut(std::int64_t length) {
  return {kUncut, length};
}

}  // namespace

Axis query_axis(std::int64_t heads, std::int64_t kv_heads, std::int64_t head_dimension) {
  return Axis("kv_heads", kv_heads) * Axis("queries", heads / kv_heads) * uncut(head_dimension);
}

Axis key_axis(std::int64_t kv_heads, std::int64_t head_dimension) {
  return Axis("kv_heads", kv_heads) * uncut(head_dimension);
}

UnitBuilder::UnitBuilder(std::string name, std::string prefix) : prefix_(std::move(prefix)) {
  unit_.name = std::move(name);
}

UnitBuilder::Built UnitBuilder::finish() {
  unit_.elements = align(end_, kFlatAlignment);
  return {std::move(unit_), std::move(graph_)};
}

void UnitBuilder::node(std::shared_ptr<const Operator> rule, std::vector<TensorView> operands) {
  graph_.nodes.push_back({std::move(rule), std::move(operands)});
}

TensorView UnitBuilder::make(const std::string& name, const Axis& columns) {
  return {graph_.add({name, TensorType::precision, token_axis(), columns})};
}

Axis UnitBuilder::axis_of(const TensorView& x) const {
  return axes_of(graph_, x)[1];
}

std::int64_t UnitBuilder::columns_of(const TensorView& x) const {
  return axis_of(x).extent().count;
}

TensorView UnitBuilder::columns(const TensorView& x, std::int64_t first, std::int64_t columns) const {
  if (first == 0 && columns == columns_of(x)) return x;
  return {x.tensor, x.first + first, columns};
}

void UnitBuilder::append(const std::string& name, std::vector<std::int64_t> shape, Init init) {
  TensorSpec tensor;
  tensor.hf_name = prefix_ + name;
  tensor.elements = 1;
  for (const std::int64_t size : shape) tensor.elements = checked_product(tensor.elements, size);
  tensor.hf_shape = std::move(shape);
  tensor.offset = end_;
  tensor.init = init;
  end_ = checked_sum(end_, tensor.elements);
  unit_.parameters += tensor.elements;
  unit_.tensors.push_back(std::move(tensor));
}

TensorView UnitBuilder::weight_view(const std::string& name, std::int64_t offset, const Axis& rows,
                                    const Axis& columns) {
  return {graph_.add({name, TensorType::precision, rows, columns, Region::parameter, offset})};
}

TensorView UnitBuilder::vector(const std::string& name, const Axis& columns, Init init) {
  end_ = align(end_, kTensorAlignment);
  append(name, {columns.extent().count}, init);
  return weight_view(name, unit_.tensors.back().offset, {}, columns);
}

TensorView UnitBuilder::matrix(const std::string& name, const Axis& rows, const Axis& columns, Init init) {
  end_ = align(end_, kTensorAlignment);
  append(name, {rows.extent().count, columns.extent().count}, init);
  return weight_view(name, unit_.tensors.back().offset, rows, columns);
}

TensorView UnitBuilder::input(const Axis& columns) {
  const TensorView input = make("input", columns);
  graph_.tensors.back().region = Region::input;
  graph_.input = input.tensor;
  return input;
}

TensorView UnitBuilder::data(std::size_t number, const std::string& name, TensorType type, const Axis& rows,
                             const Axis& columns) {
  return {graph_.add({name, type, rows, columns, data_region(number)})};
}

TensorView UnitBuilder::cast(const TensorView& x) {
  const TensorView out = make(graph_.tensor(x).name + ".cast", axis_of(x));
  node(std::make_shared<CopyRule>(), {x, out});
  return out;
}

void UnitBuilder::output(const TensorView& x) {
  nth(graph_.tensors, x.tensor).region = Region::output;
  graph_.output = x.tensor;
}

TensorView UnitBuilder::embedding(const TensorView& numbers, const std::string& name, const Axis& rows,
                                  const Axis& columns, std::optional<std::int64_t> padding_token) {
  const TensorView table = matrix(name, rows, columns, Init::normal);
  unit_.tensors.back().zero_row = padding_token.value_or(-1);
  unit_.sparse_row = columns.extent().count;
  unit_.row_numbers = data_number(graph_.tensor(numbers).region);
  const TensorView out = make("embedded", columns);
  node(std::make_shared<EmbeddingRule>(static_cast<std::int32_t>(padding_token.value_or(kNoRow))),
       {numbers, table, {}, out, {}});
  return out;
}

TensorView UnitBuilder::embedding(const TensorView& numbers, const std::string& name,
                                  const std::string& positions, const Axis& rows, const Axis& position_rows,
                                  const Axis& columns) {
  const TensorView out = embedding(numbers, name, rows, columns);
  graph_.nodes.back()[EmbeddingRule::positions] = matrix(positions, position_rows, columns, Init::normal);
  unit_.sparse_row = 0;
  return out;
}

TensorView UnitBuilder::norm(const TensorView& x, const std::string& name, const NormOptions& options) {
  const Axis columns = axis_of(x);
  const bool is_layer_norm = options.kind == NormKind::layer_norm;
  const Init init = options.unit_offset ? Init::zeros : Init::ones;
  const TensorView weight = vector(name + ".weight", columns, init);
  const TensorView bias = is_layer_norm ? vector(name + ".bias", columns, Init::zeros) : TensorView{};
  const auto statistic = [&](const char* what) {
    return TensorView{graph_.add({name + what, TensorType::fp32, {}, token_axis()})};
  };
  const TensorView mean = is_layer_norm ? statistic(".mean") : TensorView{};
  const TensorView deviation = statistic(".deviation");
  const TensorView out = make(name, columns);
  node(std::make_shared<NormRule>(options), {x, {}, {}, weight, bias, out, mean, deviation});
  return out;
}

TensorView UnitBuilder::linear(const TensorView& x, const std::vector<Projection>& projections,
                               const LinearOptions& options) {
  const Axis inputs = axis_of(x);
  const bool is_linear = options.order == WeightOrder::linear;
  Axis outputs = projections.front().outputs;
  for (const Projection& projection : std::span(projections).subspan(1))
    outputs = outputs | projection.outputs;
  const std::string& name = projections.front().name;
  const auto add = [&](const char* what, const auto& shape_of, Init init) {
    end_ = align(end_, kTensorAlignment);
    const std::int64_t offset = end_;
    for (const Projection& projection : projections)
      append(projection.name + what, shape_of(projection.outputs.extent().count), init);
    return offset;
  };
  const std::int64_t weights = add(
      ".weight",
      [&, rows = inputs.extent().count](std::int64_t count) {
        return is_linear ? std::vector{count, rows} : std::vector{rows, count};
      },
      options.init);
  const TensorView weight =
      weight_view(name, weights, is_linear ? outputs : inputs, is_linear ? inputs : outputs);
  TensorView bias;
  if (options.bias) {
    const std::int64_t biases = add(
        ".bias", [](std::int64_t count) { return std::vector{count}; }, Init::zeros);
    bias = weight_view(name + ".bias", biases, {}, outputs);
  }
  const TensorView out = make(name, outputs);
  node(std::make_shared<LinearRule>(options.order), {x, weight, bias, {}, out});
  return out;
}

TensorView UnitBuilder::shared_linear(const TensorView& x, const Axis& outputs, const Unit& owner,
                                      std::int32_t number) {
  const TensorSpec& table = owner.tensors.front();
  const TensorView weight{graph_.add(
      {table.hf_name, TensorType::precision, outputs, axis_of(x),
       table.flat == Flat::frozen ? Region::shared_frozen : Region::shared_parameter, table.offset})};
  unit_.shares = number;
  const TensorView out = make(table.hf_name, outputs);
  node(std::make_shared<LinearRule>(WeightOrder::linear), {x, weight, {}, {}, out});
  return out;
}

std::pair<TensorView, TensorView> UnitBuilder::rotation_tables(std::int64_t rotated, std::int64_t tables) {
  const auto table = [&](std::int64_t number) {
    return TensorView{graph_.add({"rotation",
                                  TensorType::fp32,
                                  {"positions", per_position(1)},
                                  uncut(rotated / 2),
                                  Region::constants,
                                  number})};
  };
  const TensorView cosine = table(2 * tables), sine = table(2 * tables + 1);
  return {cosine, sine};
}

TensorView UnitBuilder::head_norm(const TensorView& x, const std::string& query_name,
                                  const std::string& key_name, std::int64_t queries,
                                  std::int64_t head_dimension, const NormOptions& options,
                                  std::optional<std::int64_t> tables) {
  const Init init = options.unit_offset ? Init::zeros : Init::ones;
  const TensorView query_weight = vector(query_name + ".weight", uncut(head_dimension), init);
  const TensorView key_weight = vector(key_name + ".weight", uncut(head_dimension), init);
  const TensorView deviation{
      graph_.add({query_name + ".deviation", TensorType::fp32, axis_of(x).outer(), token_axis()})};
  const TensorView out = make(query_name, axis_of(x));
  const std::int64_t keys = columns_of(x) / head_dimension - queries;
  TensorView cosine, sine;
  if (tables) std::tie(cosine, sine) = rotation_tables(head_dimension, *tables);
  node(std::make_shared<HeadNormRule>(options, queries / keys),
       {x, query_weight, key_weight, out, deviation, cosine, sine, {}});
  return out;
}

void UnitBuilder::rope(const TensorView& x, std::int64_t head_dimension, std::int64_t tables,
                       std::int64_t rotated) {
  const auto [cosine, sine] = rotation_tables(rotated, tables);
  node(std::make_shared<RopeRule>(head_dimension), {x, cosine, sine, {}});
}

TensorView UnitBuilder::attention(const TensorView& query, const TensorView& key, const TensorView& value,
                                  const AttentionShape& shape) {
  const TensorView out = make("attention", axis_of(query));
  const TensorView log_sum_exp{graph_.add({"attention.log_sum_exp",
                                           TensorType::fp32,
                                           Axis("sequences", per_sequence(1)) * axis_of(query).outer(),
                                           {"positions", per_position(1)}})};
  node(std::make_shared<AttentionRule>(shape), {query, key, value, out, log_sum_exp, {}});
  return out;
}

TensorView UnitBuilder::activate(const TensorView& x, Activation kind) {
  const TensorView out = make("activation", axis_of(x));
  node(std::make_shared<ActivationRule>(kind, /*gated=*/false), {x, out});
  return out;
}

TensorView UnitBuilder::activate_gate(const TensorView& gate_up, Activation kind) {
  const TensorView out = make("activation", axis_of(gate_up).slice(0, columns_of(gate_up) / 2));
  node(std::make_shared<ActivationRule>(kind, /*gated=*/true), {gate_up, out});
  return out;
}

TensorView UnitBuilder::experts(const TensorView& x, const ExpertOptions& options) {
  const Axis hidden = axis_of(x), inner("intermediate", options.intermediate),
             experts("experts", options.experts), choices("choices", options.top_k);
  const Axis chosen_rows = token_axis() * choices, sorted_rows("sorted_rows", per_token(options.top_k));
  const auto tensor = [&](const char* name, TensorType type, const Axis& rows, const Axis& columns) {
    return TensorView{graph_.add({name, type, rows, columns})};
  };
  const auto weights_of_all = [&](const std::vector<std::string>& names, const Axis& outputs,
                                  const Axis& inputs) {
    end_ = align(end_, kTensorAlignment);
    const std::int64_t offset = end_;
    for (std::int64_t expert = 0; expert < options.experts; ++expert)
      for (const std::string& name : names)
        append(fmt::format(fmt::runtime(name), expert) + ".weight",
               {outputs.extent().count / std::ssize(names), inputs.extent().count}, Init::normal);
    return weight_view(names.front(), offset, experts * outputs, inputs);
  };
  const TensorView logits = linear(x, {{options.router, experts}});
  const TensorView probabilities = tensor("router.probabilities", TensorType::fp32, token_axis(), experts);
  const TensorView chosen = tensor("router.experts", TensorType::int32, {}, chosen_rows);
  const TensorView shares = tensor("router.weights", TensorType::fp32, token_axis(), choices);
  node(std::make_shared<RouteRule>(options.normalise), {logits, probabilities, chosen, shares});
  const TensorView sources = tensor("router.sources", TensorType::int32, {}, sorted_rows);
  const TensorView places = tensor("router.places", TensorType::int32, {}, chosen_rows);
  const TensorView offsets =
      tensor("router.offsets", TensorType::int32, {}, {"expert_bounds", options.experts + 1});
  node(std::make_shared<GroupRowsRule>(options.top_k), {chosen, sources, places, offsets});
  if (options.balance.coefficient != 0)
    node(std::make_shared<TallyRule>(options.balance), {offsets, probabilities, tally(options.experts)});
  const auto sorted = [&](const char* name, const Axis& columns) {
    return tensor(name, TensorType::precision, sorted_rows, columns);
  };
  const TensorView inputs = sorted("experts.inputs", hidden);
  node(std::make_shared<SortRowsRule>(), {x, sources, places, inputs});
  const TensorView gate_up = sorted("experts.gate_up", inner | inner);
  node(std::make_shared<ExpertProductRule>(),
       {inputs, offsets, weights_of_all({options.gate, options.up}, inner | inner, hidden), gate_up});
  const TensorView activation = sorted("experts.activation", inner);
  node(std::make_shared<ActivationRule>(options.activation, /*gated=*/true), {gate_up, activation});
  const TensorView outputs = sorted("experts.outputs", hidden);
  node(std::make_shared<ExpertProductRule>(),
       {activation, offsets, weights_of_all({options.down}, hidden, inner), outputs});
  const TensorView out = make("experts", hidden);
  node(std::make_shared<CombineRule>(), {outputs, places, shares, out});
  return out;
}

TensorView UnitBuilder::add(const TensorView& a, const TensorView& b) {
  const TensorView out = make("sum", axis_of(a));
  node(std::make_shared<AdditionRule>(), {a, b, out});
  return out;
}

TensorView UnitBuilder::scale(const TensorView& x, double factor) {
  if (factor == 1) return x;
  const TensorView out = make("scaled", axis_of(x));
  node(std::make_shared<ScaleRule>(static_cast<float>(factor)), {x, out});
  return out;
}

TensorView UnitBuilder::dropout(const TensorView& x, double probability) {
  if (probability == 0) return x;
  const TensorView out = make("dropped", axis_of(x));
  node(std::make_shared<DropoutRule>(probability, next_site(graph_)), {x, {}, out});
  return out;
}

void UnitBuilder::take_in_chunks(const TensorView& x) {
  nth(graph_.tensors, x.tensor).in_chunks = true;
}

TensorView UnitBuilder::tally(std::int64_t experts) {
  return {graph_.add({"tally", TensorType::fp32, {kUncut, 2}, {"experts", experts}, Region::tally})};
}

void UnitBuilder::begin_tally(std::int64_t experts) {
  node(std::make_shared<ZeroRule>(), {tally(experts)});
}

TensorView UnitBuilder::balance_loss(std::int64_t experts, const BalanceOptions& options) {
  const TensorView loss{graph_.add({"balance_loss", TensorType::fp32, {}, {}})};
  node(std::make_shared<BalanceLossRule>(options), {tally(experts), loss});
  return loss;
}

void UnitBuilder::cross_entropy(const TensorView& logits, const TensorView& targets, double soft_cap,
                                const TensorView& penalty) {
  const TensorView losses{graph_.add({"losses", TensorType::fp32, {}, token_axis(), Region::losses})};
  node(std::make_shared<CrossEntropyRule>(static_cast<float>(soft_cap)), {penalty, logits, targets, losses});
}

}  // namespace strata
