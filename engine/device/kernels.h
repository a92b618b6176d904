// The arithmetic a device offers to a lane. Model code is written once against this interface; the CPU and
// CUDA devices implement it fast, engine/device/reference implements it plainly and is the oracle of both.
//
// Rules for every implementation:
// - Deterministic: the same operands give the same bits, for any number of threads. Sums have a fixed order.
// - Working memory is reserve_scratch()'s, which a run calls once with what scratch_of_run()
//   (engine/plan/run_scratch.h) says: then no call takes memory for data. A call that needs more than was
//   reserved takes it when it is made, and keeps it: at most what the device's ScratchRules (scratch_rules.h)
//   say of it. The reference alone takes a row of memory in each call.
// - Libraries beneath keep a compiled form of each shape, made when it is first seen, and make small objects
// per
//   call: some KiB on the host, and on a GPU the code that they load (kLibraryCodeBytes in
//   cuda/scratch_rules.h).
// - Storage is fp32, bf16 or fp16 (all of a call's activations and parameters have one dtype, unless said
// otherwise);
//   norms, softmax, losses and sums are computed in fp32. Gradients of parameters are fp32 and are ADDED to.
// - One Kernels object serves one lane: its calls come from one thread at a time, and complete in order.
#pragma once

#include <cstdint>
#include <span>

#include "engine/device/matrix.h"
#include "engine/device/scratch.h"
#include "optim/adamw_state.h"
#include "optim/step_scalars.h"

namespace strata {

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
};

enum class NormKind : std::uint8_t { layer_norm, rms_norm };

/// out = norm(input (+ addend)) · weight (+ bias), row by row. LayerNorm: Ba et al. 2016; RMSNorm: Zhang &
/// Sennrich 2019.
struct NormForward {
  NormKind kind;
  float epsilon;
  Matrix input;        ///< [rows, columns]
  Matrix addend = {};  ///< optional residual branch, [rows, columns]; then `sum` is written
  Matrix sum = {};     ///< input + addend, rounded to the storage dtype, which is what gets normalised
  Matrix weight;       ///< [1, columns]
  Matrix bias = {};    ///< optional [1, columns]; layer_norm only
  Matrix out;          ///< [rows, columns]; may be `input` itself
  Matrix mean = {};    ///< fp32 [1, rows], written; layer_norm only
  Matrix reciprocal_deviation;  ///< fp32 [1, rows], written: 1 / sqrt(variance or mean square + epsilon)
};

/// input_gradient = d norm / d input (+ addend); weight_gradient, bias_gradient are added to.
struct NormBackward {
  NormKind kind;
  Matrix input;  ///< what was normalised (`sum` if the forward had an addend)
  Matrix weight;
  Matrix mean = {};
  Matrix reciprocal_deviation;
  Matrix out_gradient;        ///< [rows, columns]
  Matrix addend = {};         ///< optional: gradient that joins from the residual branch
  Matrix input_gradient;      ///< may be `out_gradient` or `addend` itself
  Matrix weight_gradient;     ///< fp32 [1, columns]
  Matrix bias_gradient = {};  ///< fp32 [1, columns]; if the forward had a bias
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
};

struct AttentionBackward {
  AttentionShape shape;
  Matrix query, key, value, out, log_sum_exp;  ///< as in the forward
  Matrix out_gradient;
  Matrix query_gradient, key_gradient, value_gradient;  ///< overwritten
};

/// Rotary position embedding in the half-split convention of HF Llama (Su et al. 2021), in place.
struct Rope {
  Matrix x;  ///< [batch·sequence, heads·head_dimension]
  std::int64_t sequence = 0;
  std::int64_t head_dimension = 0;
  Matrix cosine, sine;   ///< fp32 [sequence, head_dimension / 2]
  bool inverse = false;  ///< rotate back: the gradient
};

/// Softmax cross entropy of each row, and its gradient in place of the logits.
struct CrossEntropy {
  Matrix logits;  ///< [rows, vocabulary]; becomes gradient_scale · loss_scale · (softmax - onehot)
  std::span<const std::int32_t> targets;  ///< [rows], each in [0, vocabulary)
  Matrix losses;                          ///< fp32 [1, rows], written: log_sum_exp - logit[target]
  float gradient_scale = 1;               ///< 1 / tokens of the whole batch
  const float* loss_scale = nullptr;      ///< another factor, in the device's memory; none: 1
  bool gradient = true;                   ///< false: logits are left in an unspecified state
};

/// Stands in a list of rows, behind all others, where there is none: no vocabulary is larger.
constexpr std::int32_t kNoRow = 1 << 30;

/// Adds the gradient of each looked-up row to its row of the table, and of the positions, in token order.
struct EmbeddingBackward {
  std::span<const std::int32_t> tokens;
  std::int64_t sequence = 0;
  Matrix out_gradient;                  ///< [tokens, hidden]
  Matrix table_gradient;                ///< fp32
  Matrix positions_gradient;            ///< fp32, if positions are learned
  std::int32_t padding_token = kNoRow;  ///< nothing is added to its row of the table: torch's padding_idx
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
};

/// One AdamW step on state in the device's memory, with the formulas and the bits of optim/adamw.h; or, if
/// it is skipped, round_masters().
struct AdamWUpdate {
  const StepScalars* scalars =
      nullptr;        ///< in the device's memory: the host decides them while the step runs
  bool decay = true;  ///< with weight decay, or without
  AdamWState state;   ///< pointers into the device's memory
};

class Kernels {
 public:
  virtual ~Kernels() = default;

  /// Sets up working memory for calls that need no more than this. Before such calls are made.
  virtual void reserve_scratch(const ScratchBytes& /*largest*/) {}
  /// The working memory that these kernels hold now; by then nothing was given back.
  virtual Bytes scratch_bytes() const { return 0; }

  virtual void matmul(const Product&) = 0;
  /// gradient[1,n] (fp32) += sum over rows of x[m,n].
  virtual void add_column_sums(const Matrix& x, const Matrix& gradient) = 0;

  virtual void norm(const NormForward&) = 0;
  virtual void norm_backward(const NormBackward&) = 0;
  virtual void attention(const AttentionForward&) = 0;
  virtual void attention_backward(const AttentionBackward&) = 0;
  virtual void rope(const Rope&) = 0;

  /// tanh approximation of GELU (Hendrycks & Gimpel 2016), elementwise. out may be x.
  virtual void gelu(const Matrix& x, const Matrix& out) = 0;
  /// x_gradient = out_gradient · gelu'(x). x_gradient may be out_gradient or x.
  virtual void gelu_backward(const Matrix& x, const Matrix& out_gradient, const Matrix& x_gradient) = 0;
  /// out[m,n] = silu(gate) · up for gate_up = [gate | up] of [m, 2n] (Shazeer 2020).
  virtual void swiglu(const Matrix& gate_up, const Matrix& out) = 0;
  /// gate_up_gradient[m,2n] from out_gradient[m,n]; may be gate_up itself.
  virtual void swiglu_backward(const Matrix& gate_up, const Matrix& out_gradient,
                               const Matrix& gate_up_gradient) = 0;

  /// out[i,:] = table[tokens[i],:] (+ positions[i mod sequence,:] if given).
  virtual void embedding(std::span<const std::int32_t> tokens, const Matrix& table, const Matrix& positions,
                         std::int64_t sequence, const Matrix& out) = 0;
  virtual void embedding_backward(const EmbeddingBackward&) = 0;
  virtual void cross_entropy(const CrossEntropy&) = 0;

  /// out = a + b, elementwise. out may be a or b.
  virtual void add(const Matrix& a, const Matrix& b, const Matrix& out) = 0;
  /// out = x in out's dtype (round to nearest even). Contiguous operands.
  virtual void cast(const Matrix& x, const Matrix& out) = 0;
  virtual void zero(const Matrix& x) = 0;

  /// out[i,:] = x[rows[i],:] in out's dtype (round to nearest even), or zeros for kNoRow.
  virtual void copy_rows(const Matrix& x, std::span<const std::int32_t> rows, const Matrix& out) = 0;
  virtual void sum_rows(const RowSum&) = 0;

  virtual void adamw(const AdamWUpdate&) = 0;
  /// *sum = sum of squares of x[1,n], fp32 or a compute dtype, with the bits of optim/gradient_norm.h. `sum`
  /// is in the device's memory.
  virtual void sum_of_squares(const Matrix& x, double* sum) = 0;
};

}  // namespace strata
