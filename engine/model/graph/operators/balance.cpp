#include "engine/model/graph/operators/balance.h"

#include <utility>

#include "engine/device/expert_calls.h"
#include "engine/device/product_calls.h"
#include "engine/model/graph/derivation.h"
#include "engine/model/graph/operators/elementwise.h"
#include "engine/model/graph/operators/exchange.h"
#include "engine/model/graph/share_sequences.h"

namespace strata {
namespace {

/// The microbatch's tokens, which several ranks may share out.
std::int64_t tokens_of_ranks(const MicrobatchShape& shape) {
  return shape.tokens() * shape.context.ranks;
}

LoadBalance load_balance(const BalanceOptions& options, const Operands& operands, const Matrix& tally) {
  return {.counts = tally.row_slice(0, 1),
          .probability_sums = tally.row_slice(1, 1),
          .rows = static_cast<double>(tokens_of_ranks(operands.shape()) * options.layers),
          .coefficient = static_cast<float>(options.coefficient)};
}

}  // namespace

void TallyRule::run(Kernels& kernels, const Operands& operands) const {
  const Matrix& sums = operands[tally];
  kernels.run(CountRows{operands.indices(offsets), sums.row_slice(0, 1)});
  kernels.run(ColumnSum{operands[probabilities], sums.row_slice(1, 1)});
}

void TallyRule::differentiate(const Node& node, Derivation& derivation) const {
  if (!derivation.wants(node[probabilities])) return;
  const TensorView loss_scale = derivation.add({"loss_scale", TensorType::fp32, {}, {}, Region::loss_scale});
  const TensorView gradient = derivation.gradient_row(node[probabilities]);
  derivation.add(std::make_shared<BalanceGradientRule>(options_), {node[tally], loss_scale, gradient});
}

/// The step's loss is the mean over tokens, so a microbatch's has its tokens' part in it.
void BalanceGradientRule::run(Kernels& kernels, const Operands& operands) const {
  LoadBalance call = load_balance(options_, operands, operands[tally]);
  call.coefficient *= operands.loss_factor() * static_cast<float>(tokens_of_ranks(operands.shape()));
  call.loss_scale = static_cast<const float*>(operands[loss_scale].data);
  call.balance = operands[gradient];
  kernels.run(call);
}

void BalanceLossRule::run(Kernels& kernels, const Operands& operands) const {
  LoadBalance call = load_balance(options_, operands, operands[tally]);
  call.loss = operands[loss];
  kernels.run(call);
}

bool BalanceLossRule::share_sequences(const Node& node, SequenceSharing& sharing) const {
  Tensor made = sharing.tensor(node[tally]);
  made.name += ".sum";
  made.region = Region::workspace;
  const TensorView sum = sharing.add(std::move(made));
  sharing.add(std::make_shared<CopyRule>(), {node[tally], sum});
  sharing.add(std::make_shared<ExchangeRule>(ExchangeKind::all_reduce, SharedBy::sequence), {sum});
  sharing.add(node.rule, {sum, node[loss]});
  sharing.add_behind_backward(std::make_shared<CopyRule>(), {sum, node[tally]});
  return true;
}

}  // namespace strata
