// Writes down a unit: each operator, with the parameters that it brings along. The order of the calls is the
// order of the nodes and of the parameters in memory. Who brings a new length in names its axis; all others
// follow.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "engine/device/activation.h"
#include "engine/device/attention_calls.h"
#include "engine/model/graph/operators/balance.h"
#include "engine/model/graph/operators/linear.h"
#include "engine/model/graph/operators/norm.h"
#include "engine/model/graph/unit.h"

namespace strata {

/// Columns of queries: for each key head as many heads as share it, of `head_dimension` columns each.
Axis query_axis(std::int64_t heads, std::int64_t kv_heads, std::int64_t head_dimension);
/// Columns of keys or values.
Axis key_axis(std::int64_t kv_heads, std::int64_t head_dimension);

/// Rows of a product's weight, under a name of their own.
struct Projection {
  std::string name;
  Axis outputs;
};

struct LinearOptions {
  WeightOrder order = WeightOrder::linear;
  Init init = Init::normal;
  bool bias = false;
};

/// Routed experts; `{}` in the names of their tensors is an expert's number.
struct ExpertOptions {
  std::int64_t experts = 0, top_k = 0, intermediate = 0;
  bool normalise = true;  ///< a token's weights sum to 1
  Activation activation = Activation::silu;
  std::string router, gate, up, down;
  BalanceOptions balance = {};
};

class UnitBuilder {
 public:
  /// `prefix` stands before the names of its tensors.
  UnitBuilder(std::string name, std::string prefix);

  /// What the unit before has made, [tokens, columns].
  TensorView input(const Axis& columns);
  /// The model's data array of this number.
  TensorView data(std::size_t number, const std::string& name, TensorType type, const Axis& rows,
                  const Axis& columns);
  /// `columns` of x from `first` on, which are whole parts of its axis.
  TensorView columns(const TensorView& x, std::int64_t first, std::int64_t columns) const;

  /// x in the run's precision.
  TensorView cast(const TensorView& x);

  /// rows[numbers] of the table `name`, the numbers being a data array, one for each token; plus the row of
  /// `positions` that a token's place in its sequence names.
  TensorView embedding(const TensorView& numbers, const std::string& name, const Axis& rows,
                       const Axis& columns, std::optional<std::int64_t> padding_token = {});
  TensorView embedding(const TensorView& numbers, const std::string& name, const std::string& positions,
                       const Axis& rows, const Axis& position_rows, const Axis& columns);
  TensorView norm(const TensorView& x, const std::string& name, const NormOptions& options);
  /// One product for all projections, side by side.
  TensorView linear(const TensorView& x, const std::vector<Projection>& projections,
                    const LinearOptions& options = {});
  /// x · Wᵀ for the first tensor of another unit, whose number is given.
  TensorView shared_linear(const TensorView& x, const Axis& outputs, const Unit& owner, std::int32_t number);
  /// The norm of each head, with one weight for the `queries` heads in front and one for the rest; then their
  /// rotation with the tables of this number, if it is given. x has the parts query heads, as query_axis()
  /// makes it, and key heads.
  TensorView head_norm(const TensorView& x, const std::string& query_name, const std::string& key_name,
                       std::int64_t queries, std::int64_t head_dimension, const NormOptions& options,
                       std::optional<std::int64_t> tables = {});
  /// Rotates in place, with the tables of this number, the first `rotated` columns of each head.
  void rope(const TensorView& x, std::int64_t head_dimension, std::int64_t tables, std::int64_t rotated);
  TensorView attention(const TensorView& query, const TensorView& key, const TensorView& value,
                       const AttentionShape& shape);
  /// A gated MLP whose tokens go to `top_k` of the experts; see ExpertOptions.
  TensorView experts(const TensorView& x, const ExpertOptions& options);
  TensorView activate(const TensorView& x, Activation kind);
  /// activation(gate) · up for [gate | up].
  TensorView activate_gate(const TensorView& gate_up, Activation kind);
  TensorView add(const TensorView& a, const TensorView& b);
  /// factor · x; x itself if the factor is 1.
  TensorView scale(const TensorView& x, double factor);
  /// x without the elements that are dropped with this probability; x itself if that is 0. The model says
  /// what stands for its rows (row_keys.h).
  TensorView dropout(const TensorView& x, double probability);
  /// x is too large to exist whole.
  void take_in_chunks(const TensorView& x);
  /// Begins the microbatch's tally of layers with `experts` experts.
  void begin_tally(std::int64_t experts);
  /// The loss of the tally.
  TensorView balance_loss(std::int64_t experts, const BalanceOptions& options);
  /// The loss of logits, with a soft cap if that is not 0; with the penalty in each token's, if that is
  /// given.
  void cross_entropy(const TensorView& logits, const TensorView& targets, double soft_cap = 0,
                     const TensorView& penalty = {});
  void output(const TensorView& x);
  // For operators that are written down nowhere else.
  TensorView tensor(Tensor tensor) { return {graph_.add(std::move(tensor))}; }
  void node(std::shared_ptr<const Operator> rule, std::vector<TensorView> operands);

  struct Built {
    Unit unit;
    UnitGraph graph;
  };
  Built finish();

 private:
  TensorView tally(std::int64_t experts);
  TensorView make(const std::string& name, const Axis& columns);
  /// Cosines and sines.
  std::pair<TensorView, TensorView> rotation_tables(std::int64_t rotated, std::int64_t tables);
  Axis axis_of(const TensorView& x) const;  ///< its columns'
  std::int64_t columns_of(const TensorView& x) const;
  TensorView vector(const std::string& name, const Axis& columns, Init init);
  TensorView matrix(const std::string& name, const Axis& rows, const Axis& columns, Init init);
  /// Right behind the last one.
  void append(const std::string& name, std::vector<std::int64_t> shape, Init init);
  TensorView weight_view(const std::string& name, std::int64_t offset, const Axis& rows, const Axis& columns);

  std::string prefix_;
  Unit unit_;
  UnitGraph graph_;
  std::int64_t end_ = 0;  ///< of the tensors so far
};

}  // namespace strata
