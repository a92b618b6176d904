#include "engine/model/graph/operators/softmax_parts.h"

#include <algorithm>

#include "engine/device/elementwise_calls.h"
#include "engine/device/loss_calls.h"
#include "engine/model/graph/derivation.h"

namespace strata {
namespace {

/// How many columns count: the others fill up the last part.
std::int64_t columns_of(const Matrix& logits, const AxisPart& part) {
  return part.count == 0 ? logits.columns : std::min(part.count, logits.columns);
}

}  // namespace

std::shared_ptr<const Operator> SoftmaxPartsRule::of_part(std::string_view variable,
                                                          const AxisPart& part) const {
  return variable == "v" ? std::make_shared<SoftmaxPartsRule>(soft_cap_, part) : nullptr;
}

void SoftmaxPartsRule::run(Kernels& kernels, const Operands& operands) const {
  const Matrix &all = operands[logits], &made = operands[statistics];
  const std::int64_t own = made.columns / kSoftmaxStatistics / part_.parts;
  const std::int64_t width = (all.columns + own - 1) / own, end = columns_of(all, part_);
  kernels.run(Zero{made});
  for (std::int64_t i = 0; i < own; ++i) {
    const std::int64_t first = i * width, place = part_.part * own + i;
    kernels.run(SoftmaxPart{.logits = all.column_slice(first, std::min(width, end - first)),
                            .targets = operands.indices(targets),
                            .first = part_.first + first,
                            .soft_cap = soft_cap_,
                            .statistics = made.column_slice(place * kSoftmaxStatistics, kSoftmaxStatistics)});
  }
}

void SoftmaxPartsRule::differentiate(const Node& node, Derivation& derivation) const {
  const TensorView loss_scale = derivation.add({"loss_scale", TensorType::fp32, {}, {}, Region::loss_scale});
  derivation.add(std::make_shared<PartsGradientRule>(soft_cap_, part_),
                 {node[logits], node[targets], node[statistics], loss_scale});
  derivation.pass(node[logits], node[logits]);
}

void PartsLossRule::run(Kernels& kernels, const Operands& operands) const {
  kernels.run(PartsLoss{.statistics = operands[statistics],
                        .losses = operands[losses],
                        .penalty = static_cast<const float*>(operands[penalty].data)});
}

void PartsLossRule::differentiate(const Node& node, Derivation& derivation) const {
  derivation.add(std::make_shared<PartsLossRule>(), node.operands);
}

std::shared_ptr<const Operator> PartsGradientRule::of_part(std::string_view variable,
                                                           const AxisPart& part) const {
  return variable == "v" ? std::make_shared<PartsGradientRule>(soft_cap_, part) : nullptr;
}

void PartsGradientRule::run(Kernels& kernels, const Operands& operands) const {
  const Matrix& all = operands[logits];
  const std::int64_t columns = columns_of(all, part_);
  kernels.run(PartsGradient{.logits = all.column_slice(0, columns),
                            .targets = operands.indices(targets),
                            .first = part_.first,
                            .statistics = operands[statistics],
                            .gradient_scale = operands.loss_factor(),
                            .loss_scale = static_cast<const float*>(operands[loss_scale].data),
                            .soft_cap = soft_cap_});
  if (columns < all.columns) kernels.run(Zero{all.column_slice(columns, all.columns - columns)});
}

}  // namespace strata
