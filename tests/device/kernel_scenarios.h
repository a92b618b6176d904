// One scenario per kernel and size: the calls that the tests of this folder make. If a scenario has a
// padding unit, every operand has another padding, of that many elements times some number: 1 makes rows
// start anywhere, 8 only where 16-byte accesses may.
#pragma once

#include <optional>

#include "base/block_codes.h"
#include "base/precision.h"
#include "engine/device/activation.h"
#include "engine/device/attention_calls.h"
#include "engine/device/norm_calls.h"
#include "engine/device/row_calls.h"
#include "tests/device/scenario.h"

namespace strata {

struct ProductCase {
  std::int64_t m, n, k;
  bool transpose_a = false;
  bool transpose_b = false;
  bool accumulate = false;
  bool bias = false;
  bool addend = false;
  std::int64_t padding = 0;
  DType dtype = DType::fp32;
  DType out = DType::fp32;
  Rounding rounding = Rounding::none;
  std::optional<Activation> activation = {};
};
Scenario matmul_scenario(const ProductCase& product);
Scenario column_sums_scenario(DType dtype, std::int64_t rows, std::int64_t columns,
                              std::int64_t padding_unit = 1);

Scenario column_dots_scenario(DType dtype, std::int64_t rows, std::int64_t columns, bool factors,
                              std::int64_t padding_unit = 1);
/// With a bias it has factors of rows, too.
Scenario column_scale_scenario(DType dtype, std::int64_t rows, std::int64_t columns, bool bias, bool in_place,
                               std::int64_t padding_unit = 1);
/// Adds up a row's squares, with fp32 weights.
Scenario row_dots_scenario(DType dtype, std::int64_t rows, std::int64_t columns,
                           std::int64_t padding_unit = 1);
Scenario magnitude_scenario(DType dtype, std::int64_t outputs);
/// Some rows have no dropout.
Scenario dropout_scenario(DType dtype, std::int64_t rows, std::int64_t columns, float probability,
                          bool in_place, std::int64_t padding_unit = 1);
/// Codes of `count` elements. The first is number `first` of its block.
Scenario decode_blocks_scenario(BlockFormat format, DType dtype, std::int64_t count, std::int64_t block,
                                std::int64_t first);

Scenario norm_scenario(NormKind kind, DType dtype, std::int64_t rows, std::int64_t columns, bool addend,
                       std::int64_t padding_unit = 1, bool unit_offset = false);
/// The output overwrites the input.
Scenario norm_in_place_scenario(DType dtype, std::int64_t rows, std::int64_t columns,
                                std::int64_t padding_unit = 1);
enum class GradientPlace { own, over_out_gradient, over_addend };
/// Which parameters' gradients are added to.
struct NormGradients {
  bool weight = true, bias = true;
};
/// A norm of some columns of rows, forward and backward: the sums that it needs of its own columns, and what
/// it makes of those of all.
Scenario shared_norm_scenario(DType dtype, std::int64_t rows, std::int64_t columns,
                              std::int64_t padding_unit = 1, bool unit_offset = false);

Scenario norm_backward_scenario(NormKind kind, DType dtype, std::int64_t rows, std::int64_t columns,
                                GradientPlace place, std::int64_t padding_unit = 1, bool unit_offset = false,
                                NormGradients gradients = {});

/// Lengths of documents that fill sequences one behind another, over and over; none: no places are given.
using Documents = std::vector<std::int64_t>;
/// Tokens' places in documents that sequences' borders cut, of those that the shape has.
OperandMemory places_operand(const AttentionShape& shape, const Documents& documents);

/// Query, key and value are slices of one fused matrix.
Scenario attention_scenario(const AttentionShape& shape, DType dtype, std::int64_t padding_unit = 1,
                            const Documents& documents = {});
Scenario attention_backward_scenario(const AttentionShape& shape, DType dtype, std::int64_t padding_unit = 1,
                                     const Documents& documents = {});
/// A length for each sequence of the shape; what the cache has beyond it is random.
Scenario cached_attention_scenario(const AttentionShape& shape, DType dtype,
                                   const std::vector<std::int32_t>& lengths, std::int64_t padding_unit = 1);
Scenario rope_scenario(DType dtype, std::int64_t batch, std::int64_t sequence, std::int64_t heads,
                       std::int64_t head_dimension, bool inverse, std::int64_t padding_unit = 1,
                       const Documents& documents = {});

constexpr Activation kActivations[] = {Activation::gelu_tanh, Activation::silu, Activation::relu2};
Scenario activation_scenario(Activation kind, DType dtype, std::int64_t rows, std::int64_t columns,
                             std::int64_t padding, bool in_place);
enum class ActivationGradientPlace { own, over_out_gradient, over_x };
Scenario activation_backward_scenario(Activation kind, DType dtype, std::int64_t rows, std::int64_t columns,
                                      std::int64_t padding, ActivationGradientPlace place);
/// With the activation again: over x where the gradient is over out_gradient, over out_gradient where that is
/// over x.
Scenario activation_again_scenario(Activation kind, DType dtype, std::int64_t rows, std::int64_t columns,
                                   std::int64_t padding, ActivationGradientPlace place);
Scenario gated_scenario(Activation kind, DType dtype, std::int64_t rows, std::int64_t columns,
                        std::int64_t padding);
Scenario gated_backward_scenario(Activation kind, DType dtype, std::int64_t rows, std::int64_t columns,
                                 std::int64_t padding, bool in_place);
/// With the gated activation again, in place over out_gradient.
Scenario gated_again_scenario(Activation kind, DType dtype, std::int64_t rows, std::int64_t columns,
                              std::int64_t padding, bool in_place);
Scenario scale_scenario(DType dtype, std::int64_t rows, std::int64_t columns, std::int64_t padding,
                        bool in_place);
Scenario add_scenario(DType dtype, std::int64_t rows, std::int64_t columns, std::int64_t padding,
                      bool in_place);
Scenario blend_scenario(DType dtype, std::int64_t rows, std::int64_t columns, std::int64_t padding,
                        bool in_place);
Scenario cast_scenario(DType from, DType to, std::int64_t rows, std::int64_t columns);
Scenario zero_scenario(DType dtype, std::int64_t rows, std::int64_t columns, std::int64_t padding);

Scenario copy_rows_scenario(DType to, std::int64_t columns, std::int64_t padding, DType from = DType::fp32);
/// Three ranks' rows of a table of 11. A stretch of its elements is summed.
Scenario sum_rows_scenario(DType dtype, std::int64_t columns, std::int64_t first, std::int64_t elements);

/// Tokens repeat, so gradients of one row meet.
Scenario embedding_scenario(DType dtype, std::int64_t batch, std::int64_t sequence, std::int64_t columns,
                            bool positions, std::int64_t padding_unit = 1, FirstRow first_row = {},
                            const Documents& documents = {});
Scenario embedding_backward_scenario(DType dtype, std::int64_t batch, std::int64_t sequence,
                                     std::int64_t columns, bool positions, std::int64_t padding_unit = 1,
                                     std::int32_t padding_token = kNoRow, bool table = true,
                                     FirstRow first_row = {}, const Documents& documents = {});
/// Also with a loss scale if `scaled`.
Scenario cross_entropy_scenario(DType dtype, std::int64_t rows, std::int64_t vocabulary, std::int64_t padding,
                                bool scaled = false, float soft_cap = 0);
/// With something that joins each row's loss.
Scenario penalised_cross_entropy_scenario(DType dtype, std::int64_t rows, std::int64_t vocabulary);
/// What cross_entropy_scenario() makes, of logits in three parts: with a loss scale, and a penalty if that is
/// wanted.
Scenario parts_of_cross_entropy_scenario(DType dtype, std::int64_t rows, std::int64_t vocabulary,
                                         std::int64_t padding, float soft_cap = 0, bool penalised = false);

}  // namespace strata
