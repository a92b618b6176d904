// A model as one of the ranks has it that share each unit's passes: tensor parallelism.
#pragma once

#include "engine/model/graph/split_unit.h"

namespace strata {

struct Model;

/// The axes that tensor parallelism splits (Shoeybi et al., Megatron-LM, 2019): heads with the keys that they
/// share, the columns between the products of an MLP, and the vocabulary of embedding and head. The
/// vocabulary need not divide by the ranks. In each pass of a layer ranks exchange two sums. With `sequence`,
/// tokens are split where a layer is not: in the values between units, in norms and in sums (Korthikanti et
/// al. 2022).
AxisSplit tensor_split(std::int64_t ranks, std::int64_t rank, bool sequence = false);

/// Units with the rank's tensors and passes. If there are more ranks than heads of keys, neighbours have the
/// same head, and each a part of its gradient. Throws ConfigError that names an axis which cannot be split so
/// often, or a model whose ranks would exchange more than sums.
Model split_model(const Model& whole, const AxisSplit& split);

}  // namespace strata
