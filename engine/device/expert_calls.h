// Calls of mixtures of experts: which expert a token goes to, and products of groups of rows.
#pragma once

#include <cstdint>
#include <span>

#include "engine/device/kernel_call.h"

namespace strata {

/// Which experts each token goes to, those of its largest logits, and with what weights: their probabilities
/// (Shazeer et al. 2017). Of equal logits the first expert's counts as larger, and a NaN as larger than all
/// numbers. No token is dropped.
struct RouteForward {
  bool normalise = false;  ///< divide a token's weights by their sum
  Matrix logits;           ///< [tokens, experts]
  Matrix probabilities;    ///< fp32 [tokens, experts], written: softmax(logits)
  std::span<std::int32_t>
      experts;     ///< [tokens · top_k], written: of each token top_k, the largest logit first
  Matrix weights;  ///< fp32 [tokens, top_k], written

  template <typename Visit>
  void operands(const Visit& visit) const {
    visit_each(visit, logits, probabilities, experts, weights);
  }
};

/// The gradient of RouteForward's logits. Which experts are chosen has none.
struct RouteBackward {
  bool normalise = false;
  Matrix probabilities;                   ///< as in the forward
  std::span<const std::int32_t> experts;  ///< as in the forward
  Matrix weights;                         ///< as in the forward
  Matrix weights_gradient;                ///< fp32 [tokens, top_k]
  Matrix balance = {};     ///< optional fp32 [1, experts]: joins the gradient of each token's probabilities
  Matrix logits_gradient;  ///< [tokens, experts], overwritten

  template <typename Visit>
  void operands(const Visit& visit) const {
    visit_each(visit, probabilities, experts, weights, weights_gradient, balance, logits_gradient);
  }
};

/// The auxiliary loss that keeps experts evenly busy (Fedus et al. 2021, equations 4 to 6), over all tokens
/// of all layers of a microbatch together, as transformers has it; and its gradient.
struct LoadBalance {
  Matrix counts;            ///< fp32 [1, experts]: tokens of each expert, summed over layers
  Matrix probability_sums;  ///< fp32 [1, experts]: sum of probabilities over tokens and layers
  double rows = 1;          ///< tokens · layers
  float coefficient = 1;
  const float* loss_scale = nullptr;  ///< another factor of the gradient, in the device's memory; none: 1
  /// Optional fp32 [1, 1], written: coefficient · experts · Σ counts / rows · probability_sums / rows.
  Matrix loss = {};
  /// Optional fp32 [1, experts], written: d loss / d probability of any token, · loss_scale.
  Matrix balance = {};

  template <typename Visit>
  void operands(const Visit& visit) const {
    visit_each(visit, counts, probability_sums, single(loss_scale), loss, balance);
  }
};

/// Sorts rows by the group that they belong to; rows of one group stay in their order. The places of a group
/// follow each other.
struct GroupRows {
  std::span<const std::int32_t> groups;  ///< [rows]: of each row its group, in [0, number of groups)
  std::int64_t copies = 1;               ///< row r is a copy of r / copies: of a token, one for each expert
  std::span<std::int32_t> sources;       ///< [rows], written: of each place what stands there, r / copies
  std::span<std::int32_t> places;        ///< [rows], written: of each row its place
  std::span<std::int32_t>
      offsets;  ///< [number of groups + 1], written: where each group begins, and the rows

  template <typename Visit>
  void operands(const Visit& visit) const {
    visit_each(visit, groups, sources, places, offsets);
  }
};

/// counts[g] += the rows of group g.
struct CountRows {
  std::span<const std::int32_t> offsets;  ///< [groups + 1], as GroupRows writes them
  Matrix counts;                          ///< fp32 [1, groups]

  template <typename Visit>
  void operands(const Visit& visit) const {
    visit_each(visit, offsets, counts);
  }
};

/// out[t,:] = Σ weights[t,s] · x[places[t · slots + s],:] over s in [0, slots), in their order.
struct CombineRows {
  Matrix x;                              ///< [tokens · slots, columns]
  std::span<const std::int32_t> places;  ///< [tokens · slots], each row of x once
  Matrix weights = {};                   ///< optional fp32 [tokens, slots]; none: 1
  Matrix out;                            ///< [tokens, columns]

  template <typename Visit>
  void operands(const Visit& visit) const {
    visit_each(visit, x, places, weights, out);
  }
};

/// The gradients of CombineRows' x and weights.
struct CombineRowsBackward {
  Matrix x;                              ///< as in the forward
  std::span<const std::int32_t> places;  ///< as in the forward
  Matrix weights;                        ///< as in the forward
  Matrix out_gradient;                   ///< [tokens, columns]
  Matrix x_gradient;                     ///< [tokens · slots, columns], overwritten; may be x itself
  Matrix weights_gradient;               ///< fp32 [tokens, slots], overwritten

  template <typename Visit>
  void operands(const Visit& visit) const {
    visit_each(visit, x, places, weights, out_gradient, x_gradient, weights_gradient);
  }
};

/// A product with a matrix of its own for each group of rows, which are data: rows [offsets[g], offsets[g +
/// 1]) of out are those of a · op(matrix g of b).
struct GroupedProduct {
  std::span<const std::int32_t> offsets;  ///< [groups + 1], ascending from 0 to the number of rows
  Matrix a;                               ///< [rows, k]
  Matrix b;                               ///< [groups · k, n], dtype of a
  bool transpose_b = false;               ///< `b` is stored as [groups · n, k]
  Matrix out;                             ///< [rows, n], dtype of a

  template <typename Visit>
  void operands(const Visit& visit) const {
    visit_each(visit, offsets, a, b, out);
  }
};

/// Matrix g of gradient += aᵀ · b over the rows of group g.
struct GroupedWeightGradient {
  std::span<const std::int32_t> offsets;  ///< as in GroupedProduct
  Matrix a;                               ///< [rows, m]
  Matrix b;                               ///< [rows, n], dtype of a
  Matrix gradient;                        ///< fp32 [groups · m, n]

  template <typename Visit>
  void operands(const Visit& visit) const {
    visit_each(visit, offsets, a, b, gradient);
  }
};

}  // namespace strata
