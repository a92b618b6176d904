// A kernel call with its operands as a value, so that one description serves every question asked of a
// kernel: does it agree with the reference, does it stay inside its operands, are its bits the same for every
// number of threads.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "engine/device/kernels.h"

namespace strata {

/// Memory of one operand: a matrix with columns of padding after each row that no kernel may touch.
class Operand {
 public:
  Operand(DType dtype, std::int64_t rows, std::int64_t columns, std::int64_t padding = 0);

  Matrix view() { return {memory_.data(), dtype_, rows_, columns_, columns_ + padding_}; }
  DType dtype() const { return dtype_; }
  float at(std::int64_t row, std::int64_t column) const;
  void set(std::int64_t row, std::int64_t column, float value);
  std::int64_t rows() const { return rows_; }
  std::int64_t columns() const { return columns_; }
  bool padding_is_untouched() const;
  /// The same values in fp32, with the same padding.
  Operand widened() const;
  const std::vector<std::byte>& memory() const { return memory_; }

 private:
  DType dtype_;
  std::int64_t rows_, columns_, padding_;
  std::vector<std::byte> memory_;
};

/// Values about N(0, scale²), equal in every run.
Operand random_operand(std::uint64_t seed, DType dtype, std::int64_t rows, std::int64_t columns,
                       std::int64_t padding = 0, float scale = 1);
/// NaN everywhere: what an output holds before.
Operand poisoned_operand(DType dtype, std::int64_t rows, std::int64_t columns, std::int64_t padding = 0);

struct Scenario {
  using Call = std::function<void(Kernels&, const std::vector<Matrix>&)>;
  std::string name;
  std::vector<Operand> operands;
  Call call;
  /// Bound of the relative Frobenius error of fp32 and of bf16 operands.
  double fp32_tolerance = 1e-5;
  double bf16_tolerance = 1e-2;
};

/// Runs the scenario on the CPU's kernels, and on the reference with fp32 copies of the operands; every
/// operand must agree afterwards (inputs are unchanged, outputs are equal within the tolerance) and no
/// padding may be touched.
void expect_agrees_with_reference(const Scenario& scenario);

/// Runs the scenario with 1, 2 and 3 threads; every byte of every operand must be equal.
void expect_same_bits_for_any_thread_count(const Scenario& scenario);

/// ‖actual - expected‖ / ‖expected‖; infinite where a value is not finite.
double relative_error(const Operand& actual, const Operand& expected);

}  // namespace strata
