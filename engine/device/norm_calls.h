// Calls of norms of rows and of heads.
#pragma once

#include <cstddef>
#include <cstdint>

#include "engine/device/kernel_call.h"
#include "engine/device/places.h"

namespace strata {

enum class NormKind : std::uint8_t { layer_norm, rms_norm };

/// deviation = 1 / sqrt(squares / columns + epsilon): of rows from their sums of squares.
struct RowDeviation {
  Matrix squares;  ///< fp32 [1, rows]
  std::int64_t columns;
  float epsilon;
  Matrix deviation;  ///< fp32 [1, rows], written

  template <typename Visit>
  void operands(const Visit& visit) const {
    visit_each(visit, squares, deviation);
  }
};

/// out = norm(input (+ addend)) · weight (+ bias), row by row. LayerNorm: Ba et al. 2016; RMSNorm: Zhang &
/// Sennrich 2019.
struct NormForward {
  NormKind kind;
  float epsilon;
  Matrix input;              ///< [rows, columns]
  Matrix addend = {};        ///< optional residual branch, [rows, columns]; then `sum` is written
  Matrix sum = {};           ///< input + addend, rounded to the storage dtype, which is what gets normalised
  Matrix weight;             ///< [1, columns]
  bool unit_offset = false;  ///< the factor is 1 + weight, as in Gemma
  Matrix bias = {};          ///< optional [1, columns]; layer_norm only
  Matrix out;                ///< [rows, columns]; may be `input` itself
  Matrix mean = {};          ///< fp32 [1, rows], written; layer_norm only
  Matrix reciprocal_deviation;   ///< fp32 [1, rows], written: 1 / sqrt(variance or mean square + epsilon)
  bool given_deviation = false;  ///< it is read instead, and is that of whole rows: `input` is some
                                 ///< of their columns; rms_norm only

  template <typename Visit>
  void operands(const Visit& visit) const {
    visit_each(visit, input, addend, sum, weight, bias, out, mean, reciprocal_deviation);
  }
};

/// input_gradient = d norm / d input (+ addend); weight_gradient, bias_gradient are added to if they are
/// given.
struct NormBackward {
  NormKind kind;
  Matrix input;  ///< what was normalised (`sum` if the forward had an addend)
  Matrix weight;
  bool unit_offset = false;  ///< as in the forward
  Matrix mean = {};
  Matrix reciprocal_deviation;
  Matrix out_gradient;          ///< [rows, columns]
  Matrix addend = {};           ///< optional: gradient that joins from the residual branch
  Matrix input_gradient;        ///< may be `out_gradient` or `addend` itself
  Matrix weight_gradient = {};  ///< optional fp32 [1, columns]
  Matrix bias_gradient = {};    ///< optional fp32 [1, columns]; if the forward had a bias
  /// Optional fp32 [1, rows], if `input` is some columns of rows of `whole_columns`: their sums of input ·
  /// out_gradient · factor. rms_norm only.
  Matrix projections = {};
  std::int64_t whole_columns = 0;

  template <typename Visit>
  void operands(const Visit& visit) const {
    visit_each(visit, input, weight, mean, reciprocal_deviation, out_gradient, addend, input_gradient,
               weight_gradient, bias_gradient, projections);
  }
};

/// RMSNorm of each head's columns, as NormForward's; then, if tables are given, the rotation of Rope, of
/// values rounded to the storage dtype. In front stand `queries_per_key` heads for each one of the rest; they
/// have one weight, the rest has the other.
struct HeadNormForward {
  std::int64_t queries_per_key = 1;
  float epsilon = 0;
  Matrix x;                         ///< [tokens, heads·head_dimension]
  Matrix query_weight, key_weight;  ///< [1, head_dimension]
  bool unit_offset = false;         ///< as in NormForward
  Matrix out;                       ///< like x; may be `x` itself
  Matrix reciprocal_deviation;      ///< fp32 [heads, tokens], written
  std::int64_t sequence = 0;        ///< as in Rope, if heads are rotated
  Matrix cosine = {}, sine = {};    ///< optional, as in Rope
  Places places = {};               ///< as in Rope

  template <typename Visit>
  void operands(const Visit& visit) const {
    visit_each(visit, x, query_weight, key_weight, out, reciprocal_deviation, cosine, sine, places);
  }
};

/// The gradients of HeadNormForward's x, in the place of that of `out`, and weights, which are added to.
struct HeadNormBackward {
  std::int64_t queries_per_key = 1;
  Matrix x, query_weight, key_weight;  ///< as in the forward
  bool unit_offset = false;
  Matrix reciprocal_deviation;                                  ///< as in the forward
  Matrix gradient;                                              ///< like x: of `out`; becomes that of x
  Matrix query_weight_gradient = {}, key_weight_gradient = {};  ///< optional fp32 [1, head_dimension]
  std::int64_t sequence = 0;  ///< as in the forward, like the tables and the places
  Matrix cosine = {}, sine = {};
  Places places = {};

  template <typename Visit>
  void operands(const Visit& visit) const {
    visit_each(visit, x, query_weight, key_weight, reciprocal_deviation, gradient, query_weight_gradient,
               key_weight_gradient, cosine, sine, places);
  }
};

}  // namespace strata
