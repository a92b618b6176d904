// The declarations of axes that tests/graph/axes_test.cpp proves: a line for each, with what must stay whole
// (c^) in plain sight. An operator that an architecture uses and that is not here fails tests/model.
#pragma once

#include <set>
#include <string>

#include "engine/model/graph/operator.h"

namespace strata::test {

inline const std::set<std::string> kDeclaredAxes = {
    "activation: t c, t c",
    "activation_gradient: t c, t c, t c, t c",
    "add: +t c, +t c, +t c",
    "attention: (s p^) (g q d^), (s p) (g d), (s p) (g d), (s p) (g q d), (s g q) p, 1 (s p)",
    ("attention_gradient: (s p^) (g q+ d^), (s p) (g d), (s p) (g d), (s p) (g q d), (s g q) p, "
     "(s p) (g q d), (s p) (g q d), (s p) (g d), (s p) (g d), 1 (s p)"),
    "balance_gradient: w^ e^, 1 1, 1 e",
    "balance_loss: w^ e^, 1 1",
    "bias_gradient: t+ n, 1 n",
    "column_scale: t n, 1 n, 1 n, 1 n, 1 n, t n",
    "column_squares: t+ c, 1 c",
    "combine: +r^ c, 1 (t^ k^), t k, +t c",
    "combine_gradient: +r^ c+, 1 (t^ k^), t k, t c, r c, +t k",
    "copy: +t c, +t c",
    "cross_entropy: 1 1, t v^, 1 t, 1 t",
    "cross_entropy_gradient: 1 1, t v^, 1 t, 1 t, 1 1",
    "dropout: +t c', 1 t, +t c",
    "embedding: 1 (s p^), +v+ c, +l^ c, +(s p) c, 1 (s p)",
    "embedding_gradient: 1 (s+ p^), (s p) c, v c",
    "expert_product: +r^ c+, 1 o^, (e^ n) c, +r n",
    "expert_product: +r^ n+, 1 o^, (e^ n) c, +r c",
    "expert_weight_gradient: r^ c, 1 o^, r n, (e^ n) c",
    "gated_activation: t c|c, t c",
    "gated_activation_gradient: t c|c, t c, t c|c, t c",
    "group_rows: 1 (t^ k^), 1 r^, 1 (t k), 1 o^",
    ("head_norm: (s p^) (g q^ d^)|(g d), 1 d, 1 d, (s p) (g q d)|(g d), (g q)|g (s p), r^ e^, r e, "
     "1 (s p)"),
    ("head_norm_gradient: (s+ p^) (g+ q^ d^)|(g d), 1 d, 1 d, (g q)|g (s p), (s p) (g q d)|(g d), 1 d, 1 d, "
     "r^ e^, r e, 1 (s p)"),
    "linear: +t k+, k n, +1 n, +t n, +t n",
    "linear: +t k+, n k, +1 n, +t n, +t n",
    "linear_activation: t k^, k n, 1 n, t n, t n",
    "linear_activation: t k^, n k, 1 n, t n, t n",
    "linear_input_gradient: +t n+, k n, +t k, +t k",
    "linear_input_gradient: +t n+, n k, +t k, +t k",
    "linear_update: t k^, n k, t n",
    "linear_weight_gradient: t+ k, t n, k n",
    "linear_weight_gradient: t+ k, t n, n k",
    "magnitude_dots: +k+ n, r^ k, n r, +r r, +n r, +1 n",
    "magnitude_dots: +n k+, r^ k, n r, +r r, +n r, +1 n",
    "magnitude_factors: 1 n, 1 n, 1 n, 1 n, 1 n",
    "magnitude_gradient: t+ n, t n, 1 n, 1 n",
    "norm: t c^, t c, t c, 1 c, 1 c, t c, 1 t, 1 t",
    "norm_gradient: t+ c^, 1 c, 1 t, 1 t, t c, t c, t c, 1 c, 1 c",
    "parts_gradient: t v, 1 t, t c^, 1 1",
    "parts_loss: 1 1, t c^, 1 t",
    "positions_gradient: 1 (s+ p^), (s p) c, l^ c, 1 (s p)",
    "rope: (s p^) (h d^), r^ e^, r e, 1 (s p)",
    "rope_back: (s p^) (h d^), r^ e^, r e, 1 (s p)",
    "route: t e^, t e, 1 (t k^), t k",
    "route_gradient: t e^, 1 (t k^), t k, t k, 1 e, t e",
    "row_deviation: 1 t^, 1 t",
    "row_projection: t c+, t c, 1 c, 1 t",
    "row_squares: t c+, 1 t",
    "scale: +t c, +t c",
    "softmax_parts: t v+, 1 t, t c^",
    "shared_norm: t c, 1 t, 1 c, t c",
    "shared_norm_gradient: t+ c, 1 c, 1 t, 1 t, t c, t c, t c, 1 c",
    "sort_rows: +t^ c, 1 r, 1 (t k^), +r c",
    "take_rows: +t+ c, 1 s^, +s c",
    "tally: 1 o^, t^ e^, w^ e",
    "zero: t^ c",
};

inline std::string declaration_of(const Operator& rule) {
  return std::string(rule.name()) + ": " + std::string(rule.axes());
}

}  // namespace strata::test
