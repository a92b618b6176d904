// What a device computes, one struct for each kind of call: what it means, and its operands. Storage is fp32,
// bf16 or fp16 (all of a call's activations and parameters have one dtype, unless said otherwise); norms,
// softmax, losses and sums are computed in fp32. Gradients of parameters are fp32 and are ADDED to.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <variant>

#include "engine/device/matrix.h"
#include "optim/adamw_state.h"
#include "optim/step_scalars.h"

namespace strata {

/// Calls visit(operand) for each of a call's operands: matrices, spans, an AdamWState. Ones that are not
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

/// out[m,n] = op(a)[m,k] · op(b)[k,n] (+ bias) (+ out if accumulate). a, b: one dtype; out: that dtype or
/// fp32.
struct Product {
  Matrix a;
  bool transpose_a = false;  ///< `a` is stored as [k,m]
  Matrix b;
  bool transpose_b = false;  ///< `b` is stored as [n,k]
  Matrix out;
  bool accumulate = false;
  Matrix bias = {};  ///< optional [1,n], dtype of a

  template <typename Visit>
  void operands(const Visit& visit) const {
    visit_each(visit, a, b, out, bias);
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

enum class NormKind : std::uint8_t { layer_norm, rms_norm };

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
  Matrix reciprocal_deviation;  ///< fp32 [1, rows], written: 1 / sqrt(variance or mean square + epsilon)

  template <typename Visit>
  void operands(const Visit& visit) const {
    visit_each(visit, input, addend, sum, weight, bias, out, mean, reciprocal_deviation);
  }
};

/// input_gradient = d norm / d input (+ addend); weight_gradient, bias_gradient are added to.
struct NormBackward {
  NormKind kind;
  Matrix input;  ///< what was normalised (`sum` if the forward had an addend)
  Matrix weight;
  bool unit_offset = false;  ///< as in the forward
  Matrix mean = {};
  Matrix reciprocal_deviation;
  Matrix out_gradient;        ///< [rows, columns]
  Matrix addend = {};         ///< optional: gradient that joins from the residual branch
  Matrix input_gradient;      ///< may be `out_gradient` or `addend` itself
  Matrix weight_gradient;     ///< fp32 [1, columns]
  Matrix bias_gradient = {};  ///< fp32 [1, columns]; if the forward had a bias

  template <typename Visit>
  void operands(const Visit& visit) const {
    visit_each(visit, input, weight, mean, reciprocal_deviation, out_gradient, addend, input_gradient,
               weight_gradient, bias_gradient);
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
};

/// Scaled-dot-product attention, computed in blocks so that memory is linear in the sequence (Dao et al.
/// 2022).
struct AttentionForward {
  AttentionShape shape;
  Matrix query;  ///< [batch·sequence, heads·head_dimension]; may be a column slice of a fused matrix, as may
                 ///< key, value
  Matrix key, value;  ///< [batch·sequence, kv_heads·head_dimension]
  Matrix out;         ///< like query
  Matrix
      log_sum_exp;  ///< fp32 [batch·heads, sequence], written: log of the softmax denominator, scale included

  template <typename Visit>
  void operands(const Visit& visit) const {
    visit_each(visit, query, key, value, out, log_sum_exp);
  }
};

/// The gradients of AttentionForward's operands.
struct AttentionBackward {
  AttentionShape shape;
  Matrix query, key, value, out, log_sum_exp;  ///< as in the forward
  Matrix out_gradient;
  Matrix query_gradient, key_gradient, value_gradient;  ///< overwritten

  template <typename Visit>
  void operands(const Visit& visit) const {
    visit_each(visit, query, key, value, out, log_sum_exp, out_gradient, query_gradient, key_gradient,
               value_gradient);
  }
};

/// Rotary position embedding in the half-split convention of HF Llama (Su et al. 2021), in place.
struct Rope {
  Matrix x;  ///< [batch·sequence, heads·head_dimension]
  std::int64_t sequence = 0;
  std::int64_t head_dimension = 0;
  Matrix cosine, sine;   ///< fp32 [sequence, head_dimension / 2]
  bool inverse = false;  ///< rotate back: the gradient

  template <typename Visit>
  void operands(const Visit& visit) const {
    visit_each(visit, x, cosine, sine);
  }
};

/// Functions of one number between two layers.
enum class Activation : std::uint8_t {
  gelu_tanh,  ///< tanh approximation of GELU (Hendrycks & Gimpel 2016)
  silu,       ///< x · sigmoid(x) (Elfwing et al. 2017)
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

/// x_gradient = out_gradient · activation'(x). x_gradient may be out_gradient or x.
struct ActivationBackward {
  Activation kind;
  Matrix x, out_gradient, x_gradient;

  template <typename Visit>
  void operands(const Visit& visit) const {
    visit_each(visit, x, out_gradient, x_gradient);
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

/// gate_up_gradient[m,2n] from out_gradient[m,n]; may be gate_up itself.
struct GatedBackward {
  Activation kind;
  Matrix gate_up, out_gradient, gate_up_gradient;

  template <typename Visit>
  void operands(const Visit& visit) const {
    visit_each(visit, gate_up, out_gradient, gate_up_gradient);
  }
};

/// Softmax cross entropy of each row, and its gradient in place of the logits.
struct CrossEntropy {
  Matrix logits;  ///< [rows, vocabulary]; becomes gradient_scale · loss_scale · (softmax - onehot)
  std::span<const std::int32_t> targets;  ///< [rows], each in [0, vocabulary)
  Matrix losses;                          ///< fp32 [1, rows], written: log_sum_exp - logit[target]
  float gradient_scale = 1;               ///< 1 / tokens of the whole batch
  const float* loss_scale = nullptr;      ///< another factor, in the device's memory; none: 1
  bool gradient = true;                   ///< false: logits are left in an unspecified state

  template <typename Visit>
  void operands(const Visit& visit) const {
    visit_each(visit, logits, targets, losses, single(loss_scale));
  }
};

/// Stands in a list of rows, behind all others, where there is none: no vocabulary is larger.
constexpr std::int32_t kNoRow = 1 << 30;

/// out[i,:] = table[tokens[i],:] (+ positions[i mod sequence,:] if given).
struct EmbeddingForward {
  std::span<const std::int32_t> tokens;
  Matrix table;
  Matrix positions = {};  ///< optional [at least sequence, columns]
  std::int64_t sequence = 0;
  Matrix out;  ///< [tokens, columns]

  template <typename Visit>
  void operands(const Visit& visit) const {
    visit_each(visit, tokens, table, positions, out);
  }
};

/// Adds the gradient of each looked-up row to its row of the table, and of the positions, in token order.
struct EmbeddingBackward {
  std::span<const std::int32_t> tokens;
  std::int64_t sequence = 0;
  Matrix out_gradient;                  ///< [tokens, hidden]
  Matrix table_gradient;                ///< fp32
  Matrix positions_gradient;            ///< fp32, if positions are learned
  std::int32_t padding_token = kNoRow;  ///< nothing is added to its row of the table: torch's padding_idx

  template <typename Visit>
  void operands(const Visit& visit) const {
    visit_each(visit, tokens, out_gradient, table_gradient, positions_gradient);
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

/// out = x in out's dtype (round to nearest even). Contiguous operands.
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

/// The sum of tables of which every rank has sent the rows that are not zero: with the bits of adding whole
/// tables in the order of ranks, in fp32, rounded once.
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

/// One AdamW step on state in the device's memory, with the formulas and the bits of optim/adamw.h; or, if
/// it is skipped, round_masters().
struct AdamWUpdate {
  const StepScalars* scalars =
      nullptr;        ///< in the device's memory: the host decides them while the step runs
  bool decay = true;  ///< with weight decay, or without
  AdamWState state;   ///< pointers into the device's memory

  template <typename Visit>
  void operands(const Visit& visit) const {
    visit_each(visit, single(scalars), state);
  }
};

/// *sum = sum of squares of x[1,n], fp32 or a compute dtype, with the bits of optim/gradient_norm.h. `sum`
/// is in the device's memory.
struct SumOfSquares {
  Matrix x;
  double* sum = nullptr;

  template <typename Visit>
  void operands(const Visit& visit) const {
    visit_each(visit, x, single(sum));
  }
};

/// One call of any kind.
using KernelCall = std::variant<Product, ColumnSum, NormForward, NormBackward, AttentionForward,
                                AttentionBackward, Rope, ActivationForward, ActivationBackward, GatedForward,
                                GatedBackward, CrossEntropy, EmbeddingForward, EmbeddingBackward, Addition,
                                Scale, Cast, Zero, RowCopy, RowSum, AdamWUpdate, SumOfSquares>;

}  // namespace strata
