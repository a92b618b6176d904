// Calls of updates, of norms of gradients, and of packed numbers.
#pragma once

#include <cstdint>
#include <span>

#include "base/block_codes.h"
#include "base/float8.h"
#include "engine/device/kernel_call.h"
#include "optim/optimizer_state.h"
#include "optim/step_scalars.h"

namespace strata {

/// One update of state in the device's memory, with the formulas and the bits of optim/update.h; or, if it is
/// skipped, round_masters(). All pointers are into the device's memory: the host decides what they
/// point at while the step runs.
struct ParameterUpdate {
  const std::uint32_t* skip = nullptr;           ///< not 0: it is
  const UpdateCoefficients* step = nullptr;      ///< of the policy of the tensors that the state is of
  const AverageCoefficients* average = nullptr;  ///< null: the state has no average
  OptimizerState state;

  template <typename Visit>
  void operands(const Visit& visit) const {
    visit_each(visit, single(skip), single(step), single(average), state);
  }
};

/// mix_momentum() of optim/momentum.h on state in the device's memory, with its bits, unless it is skipped.
struct MomentumMix {
  const std::uint32_t* skip = nullptr;       ///< not 0: it is
  const UpdateCoefficients* step = nullptr;  ///< of the policy of the tensors that the state is of
  OptimizerState state;
  Matrix direction;  ///< [1, n] in the precision of the gradient, and maybe the gradient itself

  template <typename Visit>
  void operands(const Visit& visit) const {
    visit_each(visit, single(skip), single(step), state, direction);
  }
};

/// One step of the factors of a matrix, by UpdateRule::adafactor. They make a number for each row and one for
/// each column: the gradient times both is the direction, before it is limited. A vector has no row of
/// squares, and its elements are the columns.
struct FactorStep {
  const std::uint32_t* skip = nullptr;  ///< not 0: the factors stay, and the direction is 0
  const UpdateCoefficients* step = nullptr;
  Matrix row_squares, column_squares;  ///< fp32 [1, rows] and [1, columns]: sums of the gradient's squares
  Matrix row_means, column_means;      ///< fp32, the factors, of the same shapes
  Matrix row_factors, column_factors;  ///< fp32 [1, rows] and [1, columns], written
  Matrix column_weights;               ///< fp32 [1, columns], written: the squares of column_factors

  template <typename Visit>
  void operands(const Visit& visit) const {
    visit_each(visit, single(skip), single(step), row_squares, column_squares, row_means, column_means,
               row_factors, column_factors, column_weights);
  }
};

/// One step of a factor for each row, by UpdateRule::normuon and adagrad_rowwise, and what it makes of the
/// row.
struct RowStep {
  const std::uint32_t* skip = nullptr;  ///< not 0: the factors stay, and the direction is 0
  const UpdateCoefficients* step = nullptr;
  Matrix squares;            ///< fp32 [1, rows]: sums of the rows' squares
  std::int64_t columns = 0;  ///< of a row
  Matrix means;              ///< fp32 [1, rows], the factors
  Matrix row_factors;        ///< fp32 [1, rows], written

  template <typename Visit>
  void operands(const Visit& visit) const {
    visit_each(visit, single(skip), single(step), squares, means, row_factors);
  }
};

/// Divides row_factors by max(1, root mean square of a direction / its threshold); or, if it `normalizes`, by
/// that root mean square.
struct DirectionLimit {
  const UpdateCoefficients* step = nullptr;
  bool normalizes = false;
  Matrix squares;  ///< fp32 [1, rows]: sums of the direction's squares, but for row_factors
  std::int64_t columns = 0;
  Matrix row_factors;  ///< fp32 [1, rows]

  template <typename Visit>
  void operands(const Visit& visit) const {
    visit_each(visit, single(step), squares, row_factors);
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

}  // namespace strata
