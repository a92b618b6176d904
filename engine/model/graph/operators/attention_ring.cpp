// Attention of ranks that share sequences: a ring (share_sequences.h).
#include <string>
#include <utility>

#include "engine/device/attention_calls.h"
#include "engine/model/graph/operators/attention.h"
#include "engine/model/graph/operators/elementwise.h"
#include "engine/model/graph/operators/exchange.h"
#include "engine/model/graph/share_sequences.h"

namespace strata {
namespace {

/// Appends to a graph what stands in the place of one attention.
class Ring {
 public:
  Ring(SequenceSharing& sharing, const AttentionShape& attention)
      : sharing_(sharing), ranks_(sharing.ranks()), attention_(attention) {}

  void forward(const Node& node) {
    using Rule = AttentionRule;
    using Step = RingAttentionRule;
    begin(node[Rule::key], node[Rule::value]);
    TensorView before, log_sum_exp_before;
    for (std::int64_t step = 0; step < ranks_; ++step) {
      if (step + 1 < ranks_) pass_keys_on(step);
      const bool is_last = step + 1 == ranks_;
      const TensorView out = is_last ? node[Rule::out] : like(node[Rule::out], TensorType::fp32);
      const TensorView log_sum_exp =
          is_last ? node[Rule::log_sum_exp] : like(node[Rule::log_sum_exp], TensorType::fp32);
      add(std::make_shared<Step>(attention_, step),
          {node[Rule::query], key(step), value(step), before, log_sum_exp_before, out, log_sum_exp,
           node[Rule::places]});
      before = out;
      log_sum_exp_before = log_sum_exp;
    }
  }

  void backward(const Node& node) {
    using Rule = AttentionGradientRule;
    using Step = RingAttentionGradientRule;
    begin(node[Rule::key], node[Rule::value]);
    const TensorView own = gradients(Region::workspace);
    TensorView travelling, query_gradient;
    for (std::int64_t step = 0; step < ranks_; ++step) {
      if (step + 1 < ranks_) pass_keys_on(step);
      if (step == 1) travelling = gradients(ring_region(2 + 1));
      const TensorView part = step == 0 ? own : step == 1 ? travelling : gradients(Region::workspace);
      const TensorView before = std::exchange(
          query_gradient, step + 1 == ranks_ ? node[Rule::query_gradient]
                                             : like(node[Rule::query_gradient], TensorType::fp32));
      add(std::make_shared<Step>(attention_, step),
          {node[Rule::query], key(step), value(step), node[Rule::out], node[Rule::log_sum_exp],
           node[Rule::out_gradient], before, query_gradient, front(part), back(part), node[Rule::places]});
      if (step <= 1) continue;
      travelling = pass_gradients_on(travelling, step);  // behind the step, which need not wait for it
      add(std::make_shared<AdditionRule>(), {travelling, part, travelling});
    }
    travelling = pass_gradients_on(travelling, ranks_);
    add(std::make_shared<AdditionRule>(), {travelling, own, own});
    add(std::make_shared<CopyRule>(), {front(own), node[Rule::key_gradient]});
    add(std::make_shared<CopyRule>(), {back(own), node[Rule::value_gradient]});
  }

 private:
  const Tensor& tensor(const TensorView& view) const { return sharing_.tensor(view); }
  TensorView add(Tensor tensor) { return sharing_.add(std::move(tensor)); }
  void add(std::shared_ptr<const Operator> rule, std::vector<TensorView> operands) {
    sharing_.add(std::move(rule), std::move(operands));
  }

  /// Makes a tensor that has the shape of what a view shows.
  TensorView like(const TensorView& view, TensorType type) {
    Tensor made = tensor(view);
    made.name += ".part";
    made.type = type;
    made.region = Region::workspace;
    made.offset = 0;
    if (!view.is_whole()) made.columns = {kUncut, view.columns};
    return add(std::move(made));
  }

  /// Columns of keys, and behind them as many of values.
  TensorView keys_and_values(const char* name, TensorType type, Region region) {
    return add({name, type, tensor(key_).rows, {kUncut, 2 * columns_}, region});
  }
  TensorView gradients(Region region) { return keys_and_values("ring.gradients", TensorType::fp32, region); }
  TensorView front(const TensorView& both) const { return {both.tensor, 0, columns_}; }
  TensorView back(const TensorView& both) const { return {both.tensor, columns_, columns_}; }

  void begin(const TensorView& key, const TensorView& value) {
    key_ = key;
    value_ = value;
    columns_ = key.is_whole() ? tensor(key).columns.extent().count : key.columns;
    arrived_ = keys_and_values("ring.keys", TensorType::precision, ring_region(0));
    add(std::make_shared<CopyRule>(), {key, front(arrived_)});
    add(std::make_shared<CopyRule>(), {value, back(arrived_)});
  }

  /// To the next rank, and gets those of the next step.
  void pass_keys_on(std::int64_t step) {
    now_ = arrived_;
    arrived_ = keys_and_values("ring.keys", TensorType::precision,
                               ring_region(static_cast<std::size_t>((step + 1) % 2)));
    shift(now_, arrived_);
  }
  TensorView key(std::int64_t step) const { return step == 0 ? key_ : front(of_step(step)); }
  TensorView value(std::int64_t step) const { return step == 0 ? value_ : back(of_step(step)); }
  const TensorView& of_step(std::int64_t step) const { return step + 1 < ranks_ ? now_ : arrived_; }

  TensorView pass_gradients_on(const TensorView& from, std::int64_t step) {
    const TensorView to = gradients(ring_region(static_cast<std::size_t>(2 + step % 2)));
    shift(from, to);
    return to;
  }

  void shift(const TensorView& from, const TensorView& to) {
    add(std::make_shared<ExchangeRule>(ExchangeKind::ring_shift, SharedBy::sequence), {from, to});
  }

  SequenceSharing& sharing_;
  std::int64_t ranks_;
  const AttentionShape& attention_;
  TensorView key_, value_;  ///< the rank's own
  TensorView now_, arrived_;
  std::int64_t columns_ = 0;
};

}  // namespace

bool AttentionRule::share_sequences(const Node& node, SequenceSharing& sharing) const {
  Ring(sharing, attention_).forward(node);
  return true;
}

bool AttentionGradientRule::share_sequences(const Node& node, SequenceSharing& sharing) const {
  Ring(sharing, attention_).backward(node);
  return true;
}

}  // namespace strata
