// What a device computes, one struct for each kind of call: what it means, and its operands. Storage is fp32,
// bf16 or fp16 (all of a call's activations and parameters have one dtype, unless said otherwise); norms,
// softmax, losses and sums are computed in fp32. Gradients of parameters are fp32 and are ADDED to.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <variant>

#include "base/block_codes.h"
#include "base/context_part.h"
#include "base/float8.h"
#include "base/nth.h"
#include "base/precision.h"
#include "engine/device/matrix.h"
#include "optim/optimizer_state.h"
#include "optim/step_scalars.h"

namespace strata {

/// Calls visit(operand) for each of a call's operands: matrices, spans, an OptimizerState. Ones that are not
/// given are empty.
template <typename Visit, typename... Operands>
void visit_each(const Visit& visit, const Operands&... operands) {
  (visit(operands), ...);
}

/// A value as a span; null: an empty one.
template <typename T>
std::span<T> single(T* value) {
  return {value, value == nullptr ? std::size_t{0} : std::size_t{1}};
}

/// Functions of one number between two layers.
enum class Activation : std::uint8_t {
  gelu_tanh,  ///< tanh approximation of GELU (Hendrycks & Gimpel 2016)
  silu,       ///< x · sigmoid(x) (Elfwing et al. 2017)
  relu2,      ///< max(x, 0)² (So et al. 2021), in fp32: infinite from 2^64 on
};

/// out[m,n] = op(a)[m,k] · op(b)[k,n] (+ bias) (+ out if accumulate, or addend). a, b: one dtype, bf16 if
/// they are rounded; out: that dtype or fp32. If `activated` is given, nothing is added but a bias, and it is
/// activation(out), of what is in out or of that before it was rounded to out's dtype, as the device prefers.
struct Product {
  Matrix a;
  bool transpose_a = false;  ///< `a` is stored as [k,m]
  Matrix b;
  bool transpose_b = false;  ///< `b` is stored as [n,k]
  Matrix out;
  bool accumulate = false;
  Matrix bias = {};    ///< optional [1,n], dtype of a
  Matrix addend = {};  ///< optional [m,n], dtype of out, elsewhere than out, which is not accumulated then
  Rounding rounding = Rounding::none;  ///< of a and b, each with the scale of all that is here of it
  Matrix activated = {};               ///< optional, like out, elsewhere
  Activation activation = Activation::gelu_tanh;

  template <typename Visit>
  void operands(const Visit& visit) const {
    visit_each(visit, a, b, out, bias, addend, activated);
  }
};

/// gradient[1,n] (fp32) += sum over rows of x[m,n].
struct ColumnSum {
  Matrix x, gradient;

  template <typename Visit>
  void operands(const Visit& visit) const {
    visit_each(visit, x, gradient);
  }
};

/// sums[1,n] (fp32) += factors · sum over rows of a · b, of a column each.
struct ColumnDots {
  Matrix a, b;          ///< [rows, columns]; may be one
  Matrix factors = {};  ///< optional fp32 [1, columns]; none: 1
  Matrix sums;          ///< fp32 [1, columns]

  template <typename Visit>
  void operands(const Visit& visit) const {
    visit_each(visit, a, b, factors, sums);
  }
};

/// out = x · factors (+ bias), of a column each.
struct ColumnScale {
  Matrix x;
  Matrix factors;    ///< fp32 [1, columns]
  Matrix bias = {};  ///< optional [1, columns], dtype of x
  Matrix out;        ///< like x; may be x

  template <typename Visit>
  void operands(const Visit& visit) const {
    visit_each(visit, x, factors, bias, out);
  }
};

/// By what DoRA (Liu et al. 2024) multiplies the outputs of a weight whose rows it gives magnitudes of their
/// own: factors = magnitudes · reciprocal_norms, reciprocal_norms = 1 / sqrt(squares + dots).
struct MagnitudeFactors {
  Matrix squares, dots;     ///< fp32 [1, outputs]: a row's sum of squares without its update, and the rest
  Matrix magnitudes;        ///< [1, outputs]
  Matrix reciprocal_norms;  ///< fp32 [1, outputs], written
  Matrix factors;           ///< fp32 [1, outputs], written

  template <typename Visit>
  void operands(const Visit& visit) const {
    visit_each(visit, squares, dots, magnitudes, reciprocal_norms, factors);
  }
};

/// out[0, row] = sum over columns of a · b (· factor), of a row each.
struct RowDots {
  Matrix a, b;               ///< [rows, columns]; may be one
  Matrix weight = {};        ///< optional [1, columns]: the factor
  bool unit_offset = false;  ///< it is 1 + weight
  Matrix out;                ///< fp32 [1, rows], written

  template <typename Visit>
  void operands(const Visit& visit) const {
    visit_each(visit, a, b, weight, out);
  }
};

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

/// Optional: where sequences have several documents, each token's place in its document. From one token of a
/// sequence to the next they count up, or begin anew with 0; at a sequence's first token they are 0.
using Places = std::span<const std::int32_t>;

/// That of a row of sequences one behind another: its place in its document, or in its sequence.
inline std::int64_t position_of(const Places& places, std::int64_t row, std::int64_t sequence) {
  return places.empty() ? row % sequence : nth(places, row);
}

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

/// out = activation(x), elementwise. out may be x.
struct ActivationForward {
  Activation kind;
  Matrix x, out;

  template <typename Visit>
  void operands(const Visit& visit) const {
    visit_each(visit, x, out);
  }
};

/// x_gradient = out_gradient · activation'(x). x_gradient may be out_gradient or x, and `out` the other.
struct ActivationBackward {
  Activation kind;
  Matrix x, out_gradient, x_gradient;
  Matrix out = {};  ///< optional: activation(x), to the bit what ActivationForward writes

  template <typename Visit>
  void operands(const Visit& visit) const {
    visit_each(visit, x, out_gradient, x_gradient, out);
  }
};

/// out[m,n] = activation(gate) · up for gate_up = [gate | up] of [m, 2n]: SwiGLU, GeGLU (Shazeer 2020).
struct GatedForward {
  Activation kind;
  Matrix gate_up, out;

  template <typename Visit>
  void operands(const Visit& visit) const {
    visit_each(visit, gate_up, out);
  }
};

/// gate_up_gradient[m,2n] from out_gradient[m,n]; may be gate_up itself, and `out` out_gradient.
struct GatedBackward {
  Activation kind;
  Matrix gate_up, out_gradient, gate_up_gradient;
  Matrix out = {};  ///< optional: activation(gate) · up, to the bit what GatedForward writes

  template <typename Visit>
  void operands(const Visit& visit) const {
    visit_each(visit, gate_up, out_gradient, gate_up_gradient, out);
  }
};

/// In place of a target: the row is not trained on, its loss and its gradient are zero.
constexpr std::int32_t kNoTarget = -1;

/// Softmax cross entropy of each row, and its gradient in place of the logits.
struct CrossEntropy {
  Matrix logits;  ///< [rows, vocabulary]; becomes gradient_scale · loss_scale · (softmax - onehot) (· cap's
                  ///< slope)
  std::span<const std::int32_t> targets;  ///< [rows], each in [0, vocabulary) or kNoTarget
  Matrix losses;                      ///< fp32 [1, rows], written: log_sum_exp - logit[target] (+ penalty)
  float gradient_scale = 1;           ///< 1 / targets of the whole batch
  const float* loss_scale = nullptr;  ///< another factor, in the device's memory; none: 1
  const float* penalty = nullptr;     ///< joins each target's loss, in the device's memory; none: 0
  float soft_cap = 0;                 ///< c > 0: a logit x counts as c · tanh(x / c), as in Gemma 2; 0: as x
  bool gradient = true;               ///< false: logits are only read

  template <typename Visit>
  void operands(const Visit& visit) const {
    visit_each(visit, logits, targets, losses, single(loss_scale), single(penalty));
  }
};

// Cross entropy of rows whose logits lie in several parts: SoftmaxPart of each, then PartsLoss and, of each,
// PartsGradient. A part's statistics are the maximum, the sum of exp(logit - maximum), and the target's logit
// or 0 if the target is in another part; all are 0 in rows without a target.

constexpr std::int64_t kSoftmaxStatistics = 3;

struct SoftmaxPart {
  Matrix logits;                          ///< [rows, columns]
  std::span<const std::int32_t> targets;  ///< [rows]
  std::int64_t first = 0;                 ///< of all parts' columns, that of this part's first
  float soft_cap = 0;                     ///< as in CrossEntropy
  Matrix statistics;                      ///< fp32 [rows, kSoftmaxStatistics], written

  template <typename Visit>
  void operands(const Visit& visit) const {
    visit_each(visit, logits, targets, statistics);
  }
};

struct PartsLoss {
  Matrix statistics;               ///< fp32 [rows, kSoftmaxStatistics · parts]
  Matrix losses;                   ///< fp32 [1, rows], as in CrossEntropy
  const float* penalty = nullptr;  ///< as in CrossEntropy

  template <typename Visit>
  void operands(const Visit& visit) const {
    visit_each(visit, statistics, losses, single(penalty));
  }
};

struct PartsGradient {
  Matrix logits;  ///< of one part; become their gradient, as in CrossEntropy
  std::span<const std::int32_t> targets;
  std::int64_t first = 0;
  Matrix statistics;  ///< of all parts
  float gradient_scale = 1;
  const float* loss_scale = nullptr;
  float soft_cap = 0;

  template <typename Visit>
  void operands(const Visit& visit) const {
    visit_each(visit, logits, targets, statistics, single(loss_scale));
  }
};

/// Stands in a list of rows, behind all others, where there is none: no vocabulary is larger.
constexpr std::int32_t kNoRow = 1 << 30;

/// The first row of a table that has a stretch of rows. Nothing: the table has all rows.
using FirstRow = std::optional<std::int32_t>;

/// out[i,:] = table[tokens[i],:] (+ positions[i mod sequence,:], or positions[places[i],:], if given).
struct EmbeddingForward {
  std::span<const std::int32_t> tokens;
  Matrix table;
  Matrix positions = {};  ///< optional [at least sequence, columns]; with places a row for each place
  std::int64_t sequence = 0;
  Matrix out;               ///< [tokens, columns]
  FirstRow first_row = {};  ///< rows that the table lacks count as zeros
  Places places = {};

  template <typename Visit>
  void operands(const Visit& visit) const {
    visit_each(visit, tokens, table, positions, out, places);
  }
};

/// Adds the gradient of each looked-up row to its row of the table and to that of the positions, in token
/// order; either may be left out.
struct EmbeddingBackward {
  std::span<const std::int32_t> tokens;
  std::int64_t sequence = 0;
  Matrix out_gradient;                  ///< [tokens, hidden]
  Matrix table_gradient;                ///< optional, fp32
  Matrix positions_gradient;            ///< optional, fp32
  std::int32_t padding_token = kNoRow;  ///< nothing is added to its row of the table: torch's padding_idx
  FirstRow first_row = {};              ///< rows that the table lacks get nothing
  Places places = {};                   ///< as in the forward

  template <typename Visit>
  void operands(const Visit& visit) const {
    visit_each(visit, tokens, out_gradient, table_gradient, positions_gradient, places);
  }
};

/// out = a + b, elementwise. out may be a or b.
struct Addition {
  Matrix a, b, out;

  template <typename Visit>
  void operands(const Visit& visit) const {
    visit_each(visit, a, b, out);
  }
};

/// out = factor · x, elementwise. out may be x.
struct Scale {
  Matrix x, out;
  float factor;

  template <typename Visit>
  void operands(const Visit& visit) const {
    visit_each(visit, x, out);
  }
};

/// out = x / (1 - probability) where it is kept, 0 where it is dropped (Srivastava et al. 2014): what
/// is_kept() in base/dropout.h says of the row's key, the site and the column.
struct Dropout {
  Matrix x;
  std::span<const std::int32_t> keys;  ///< [rows]; where it is kWithoutDropout, out = x
  std::uint32_t site = 0;              ///< which dropout of the model it is
  std::int64_t first_column = 0;       ///< x's first column in the whole matrix, whose columns x shares out
  float probability = 0;               ///< of being dropped, in [0, 1)
  Matrix out;                          ///< like x; may be x

  template <typename Visit>
  void operands(const Visit& visit) const {
    visit_each(visit, x, keys, out);
  }
};

/// out = x in out's dtype (round to nearest even).
struct Cast {
  Matrix x, out;

  template <typename Visit>
  void operands(const Visit& visit) const {
    visit_each(visit, x, out);
  }
};

/// x = 0.
struct Zero {
  Matrix x;

  template <typename Visit>
  void operands(const Visit& visit) const {
    visit_each(visit, x);
  }
};

/// out[i,:] = x[rows[i],:] in out's dtype (round to nearest even), or zeros for kNoRow.
struct RowCopy {
  Matrix x;
  std::span<const std::int32_t> rows;
  Matrix out;

  template <typename Visit>
  void operands(const Visit& visit) const {
    visit_each(visit, x, rows, out);
  }
};

/// The sum of tables, from the rows that are not zero, which every rank has sent. It has the bits of adding
/// whole tables in the order of ranks, in fp32, rounded once.
struct RowSum {
  std::int64_t ranks = 1;
  std::span<const std::int32_t>
      rows;                ///< [ranks · n]: of each rank n different ones, ascending, kNoRow behind them
  Matrix values;           ///< [ranks · n, columns]: what stands in them
  std::int64_t first = 0;  ///< element of the table, row-major, with which `out` begins
  Matrix out;              ///< [1, elements], dtype of values; elements that lie behind the table become zero

  template <typename Visit>
  void operands(const Visit& visit) const {
    visit_each(visit, rows, values, out);
  }
};

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

/// One update of state in the device's memory, with the formulas and the bits of optim/update.h; or, if it is
/// skipped, round_masters(). All pointers are into the device's memory: the host decides what they
/// point at while the step runs.
struct ParameterUpdate {
  const std::uint32_t* skip = nullptr;       ///< not 0: it is
  const UpdateCoefficients* step = nullptr;  ///< of the policy of the tensors that the state is of
  OptimizerState state;

  template <typename Visit>
  void operands(const Visit& visit) const {
    visit_each(visit, single(skip), single(step), state);
  }
};

/// *sum = sum of squares of x[1,n], fp32 or a compute dtype, with the bits of optim/gradient_norm.h. `sum`
/// is in the device's memory.
struct SumOfSquares {
  Matrix x;
  double* sum = nullptr;
  bool accumulate = false;  ///< adds to what is there

  template <typename Visit>
  void operands(const Visit& visit) const {
    visit_each(visit, x, single(sum));
  }
};

/// The codes of FP8 that devices write and read at once. Calls have a multiple of it.
constexpr std::int64_t kCodesAtOnce = 16;

/// codes = x in e4m3, by the scale of x's largest finite magnitude, which goes to `scale`.
struct EncodeFloat8 {
  Matrix x;                        ///< bf16 [1, n], at a multiple of 16 bytes
  std::span<std::uint8_t> codes;   ///< [n], at a multiple of 16 bytes
  Float8Factors* scale = nullptr;  ///< in the device's memory

  template <typename Visit>
  void operands(const Visit& visit) const {
    visit_each(visit, x, codes, single(scale));
  }
};

/// out = codes / scale, exactly; one NaN for all codes of one.
struct DecodeFloat8 {
  std::span<const std::uint8_t> codes;   ///< [n], at a multiple of 16 bytes
  const Float8Factors* scale = nullptr;  ///< in the device's memory
  Matrix out;                            ///< bf16 [1, n], at a multiple of 16 bytes

  template <typename Visit>
  void operands(const Visit& visit) const {
    visit_each(visit, codes, single(scale), out);
  }
};

/// out = what block_number() in base/block_codes.h makes of codes and of their blocks' scales.
struct DecodeBlocks {
  BlockFormat format = BlockFormat::int8;
  std::span<const std::uint8_t> codes;  ///< [code_bytes(format, n)], at a multiple of 16 bytes
  std::span<const float> scales;        ///< of each block, the largest magnitude in it
  std::int64_t block = 0;               ///< elements of a block
  std::int64_t first =
      0;       ///< elements of the first block that lie before out: out[i] is in (first + i) / block
  Matrix out;  ///< [1, n]

  template <typename Visit>
  void operands(const Visit& visit) const {
    visit_each(visit, codes, scales, out);
  }
};

/// One call of any kind.
using KernelCall =
    std::variant<Product, ColumnSum, ColumnDots, ColumnScale, MagnitudeFactors, RowDots, RowDeviation,
                 NormForward, NormBackward, AttentionForward, AttentionBackward, CachedAttention, Rope,
                 HeadNormForward, HeadNormBackward, ActivationForward, ActivationBackward, GatedForward,
                 GatedBackward, CrossEntropy, SoftmaxPart, PartsLoss, PartsGradient, EmbeddingForward,
                 EmbeddingBackward, Addition, Scale, Dropout, Cast, Zero, RowCopy, RowSum, RouteForward,
                 RouteBackward, LoadBalance, GroupRows, CountRows, CombineRows, CombineRowsBackward,
                 GroupedProduct, GroupedWeightGradient, ParameterUpdate, SumOfSquares, EncodeFloat8,
                 DecodeFloat8, DecodeBlocks>;

}  // namespace strata
