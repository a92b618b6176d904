// Calls of attention and of rotary position embeddings.
#pragma once

#include <cstdint>

#include "base/context_part.h"
#include "engine/device/kernel_call.h"
#include "engine/device/places.h"

namespace strata {

/// Shape of causal self-attention over `batch` sequences of `sequence` tokens: row b·sequence + t of a matrix
/// is token t.
struct AttentionShape {
  std::int64_t batch = 0;
  std::int64_t sequence = 0;
  std::int64_t heads = 0;
  std::int64_t kv_heads = 0;  ///< divides heads; head h reads key/value head h / (heads / kv_heads)
  std::int64_t head_dimension = 0;
  std::int64_t window = 0;  ///< token t sees (t - window, t]; 0: all of [0, t]
  float scale = 1;          ///< factor on q·k
  float soft_cap = 0;  ///< c > 0: a score s = scale · q·k counts as c · tanh(s / c), as in Gemma 2; 0: as s
  /// The tokens are a part of longer sequences, and keys are those that it meets in this step of a ring.
  ContextPart context = {};
  std::int64_t step = 0;

  constexpr Positions queries() const { return context.positions(sequence); }
  constexpr Positions keys() const { return context.behind(step).positions(sequence); }
};

/// Scaled-dot-product attention, computed in blocks so that memory is linear in the sequence (Dao et al.
/// 2022).
struct AttentionForward {
  AttentionShape shape;
  Matrix query;  ///< [batch·sequence, heads·head_dimension]; may be a column slice of a fused matrix, as may
                 ///< key, value
  Matrix key, value;   ///< [batch·sequence, kv_heads·head_dimension]
  Matrix out;          ///< like query
  Matrix log_sum_exp;  ///< fp32 [batch·heads, sequence], written: log of the softmax denominator, scale and
                       ///< cap included
  /// Optional: what attention to other keys has given, to which that to these is joined. `before` is fp32
  /// and may be `out`, which may be fp32 whatever the others are; its log_sum_exp may be `log_sum_exp`. Each
  /// token must have seen a key by then.
  Matrix before = {}, log_sum_exp_before = {};
  Places places = {};  ///< of the queries: each sees its place many tokens before itself, and no more

  template <typename Visit>
  void operands(const Visit& visit) const {
    visit_each(visit, query, key, value, out, log_sum_exp, before, log_sum_exp_before, places);
  }
};

/// The gradients of AttentionForward's operands, from what it has made of all keys.
struct AttentionBackward {
  AttentionShape shape;
  Matrix query, key, value, out, log_sum_exp;  ///< as in the forward
  Matrix out_gradient;
  /// Overwritten. Each may be fp32 whatever the others are.
  Matrix query_gradient, key_gradient, value_gradient;
  Matrix query_gradient_before = {};  ///< optional, fp32: joins the query's; may be query_gradient
  Places places = {};                 ///< as in the forward

  template <typename Visit>
  void operands(const Visit& visit) const {
    visit_each(visit, query, key, value, out, log_sum_exp, out_gradient, query_gradient, key_gradient,
               value_gradient, query_gradient_before, places);
  }
};

/// What the newest token of each sequence attends to, whose key and value are the last in a cache. It gives
/// what AttentionForward gives that token's row.
struct CachedAttention {
  AttentionShape shape;  ///< `sequence`: rows that the cache has for each sequence; no ring of ranks
  std::span<const std::int32_t> lengths;  ///< [batch], each in [1, sequence]: rows of it that hold tokens
  Matrix query;                           ///< [batch, heads·head_dimension], of the newest tokens
  Matrix key, value;  ///< [batch·sequence, kv_heads·head_dimension]: row b·sequence + t is token t of b
  Matrix out;         ///< like query

  template <typename Visit>
  void operands(const Visit& visit) const {
    visit_each(visit, lengths, query, key, value, out);
  }
};

/// Rotary position embedding in the half-split convention of HF Llama (Su et al. 2021), in place.
struct Rope {
  Matrix x;  ///< [batch·sequence, heads·head_dimension]
  std::int64_t sequence = 0;
  std::int64_t head_dimension = 0;
  /// fp32 [sequence, c], of whose 2·c columns of each head, the first ones, pairs are c apart; those behind
  /// them stay. With places a row for each place.
  Matrix cosine, sine;
  bool inverse = false;  ///< rotate back: the gradient
  Places places = {};    ///< row i is turned by row places[i] of the tables; otherwise by i mod sequence

  template <typename Visit>
  void operands(const Visit& visit) const {
    visit_each(visit, x, cosine, sine, places);
  }
};

}  // namespace strata
