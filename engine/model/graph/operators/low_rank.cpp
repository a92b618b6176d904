// Adapters of products with weights.
#include "engine/model/graph/low_rank_update.h"

#include <memory>
#include <utility>

#include "engine/model/graph/operators/dropout.h"
#include "engine/model/graph/operators/elementwise.h"
#include "engine/model/graph/operators/linear.h"
#include "engine/model/graph/operators/magnitude.h"
#include "engine/model/graph/operators/norm.h"

namespace strata {
namespace {

class LowRank {
 public:
  LowRank(const Node& product, const LowRankUpdate& update, UnitGraph& graph)
      : product_(product), update_(update), graph_(graph) {}

  void add_update() {
    TensorView low = low_rank("");
    add<LinearRule>({dropped(), update_.down, {}, {}, low}, WeightOrder::linear);
    if (update_.scale != 1) {
      const TensorView scaled = low_rank(".scaled");
      add<ScaleRule>({low, scaled}, static_cast<float>(update_.scale));
      low = scaled;
    }
    add<LinearUpdateRule>({low, update_.up, update_.out});
  }

  void add_scaled_sum(WeightOrder order) {
    const TensorView &weight = product_[LinearRule::weight], &magnitude = update_.magnitude;
    const TensorView norms = row(".norms", update_.outputs), factors = row(".factors", update_.outputs);
    const TensorView squares = row(".squares", update_.outputs | update_.outputs);
    const std::int64_t outputs = update_.outputs.extent().count;
    const TensorView of_weight{squares.tensor, 0, outputs}, of_update{squares.tensor, outputs, outputs};
    add_squares(order, of_weight);
    add_dots(order, of_update);
    add<MagnitudeFactorsRule>({of_weight, of_update, magnitude, norms, factors});
    graph_.nodes.push_back({product_.rule, {product_[LinearRule::x], weight, {}, {}, update_.out}});
    add_update();
    add<ColumnScaleRule>(
        {update_.out, magnitude, norms, factors, product_[LinearRule::bias], product_[LinearRule::out]});
  }

 private:
  /// Each row of the weight, as torch's Linear stores it, has its squares added up.
  void add_squares(WeightOrder order, const TensorView& squares) {
    const TensorView& weight = product_[LinearRule::weight];
    if (order == WeightOrder::linear) {
      add<RowSquaresRule>({weight, squares});
    } else {
      add<ColumnSquaresRule>({weight, squares});
    }
  }

  void add_dots(WeightOrder order, const TensorView& dots) {
    const TensorView &down = update_.down, &up = update_.up;
    const TensorView gram = tensor(".gram", TensorType::precision, update_.rank, update_.rank);
    const TensorView product = tensor(".product", TensorType::precision, update_.outputs, update_.rank);
    add<LinearRule>({down, down, {}, {}, gram}, WeightOrder::linear);
    add<MagnitudeDotsRule>({product_[LinearRule::weight], down, up, gram, product, dots}, order,
                           static_cast<float>(update_.scale));
  }

  /// What `down` reads of the product's input.
  TensorView dropped() {
    const TensorView& x = product_[LinearRule::x];
    if (update_.dropout == 0) return x;
    const TensorView out = tensor(".dropped", TensorType::precision, graph_.tensor(x).rows, update_.inputs);
    add<DropoutRule>({x, {}, out}, update_.dropout, update_.site);
    return out;
  }

  /// A matrix with a row for each of x's and a column for each of the rank.
  TensorView low_rank(const std::string& ending) {
    return tensor(ending + ".lora", TensorType::precision, graph_.tensor(product_[LinearRule::x]).rows,
                  update_.rank);
  }
  TensorView row(const std::string& ending, const Axis& columns) {
    return tensor(ending, TensorType::fp32, {}, columns);
  }
  TensorView tensor(const std::string& ending, TensorType type, const Axis& rows, const Axis& columns) {
    return {graph_.add({update_.layer + ending, type, rows, columns})};
  }

  template <typename Rule, typename... Options>
  void add(std::vector<TensorView> operands, const Options&... options) {
    graph_.nodes.push_back({std::make_shared<Rule>(options...), std::move(operands)});
  }

  const Node& product_;
  const LowRankUpdate& update_;
  UnitGraph& graph_;
};

}  // namespace

void LinearRule::add_low_rank(const Node& node, const LowRankUpdate& update, UnitGraph& graph) const {
  LowRank adapter(node, update, graph);
  if (update.magnitude) {
    adapter.add_scaled_sum(order_);
  } else {
    adapter.add_update();
  }
}

}  // namespace strata
