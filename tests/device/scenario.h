// A kernel call with its operands as a value. One description serves every question that is asked of a
// kernel. Does it agree with the reference? Does it stay inside its operands? Are its bits the same for every
// number of threads?
#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "engine/device/kernels.h"

namespace strata {

constexpr DType kDTypes[] = {DType::fp32, DType::bf16, DType::fp16};
constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

/// A word of a scenario's name, after a space, if it is set.
std::string flag(bool set, const char* name);

/// Memory of one operand: a matrix with columns of padding after each row that no kernel may touch.
class OperandMemory {
 public:
  OperandMemory(DType dtype, std::int64_t rows, std::int64_t columns, std::int64_t padding = 0);

  Matrix view() { return {memory_.data(), dtype_, rows_, columns_, columns_ + padding_}; }
  DType dtype() const { return dtype_; }
  float at(std::int64_t row, std::int64_t column) const;
  /// Row by row, without the padding.
  std::vector<float> values() const;
  void set(std::int64_t row, std::int64_t column, float value);
  std::int64_t rows() const { return rows_; }
  std::int64_t columns() const { return columns_; }
  bool padding_is_untouched() const;
  /// The same values in fp32, with the same padding.
  OperandMemory widened() const;
  const std::vector<std::byte>& memory() const { return memory_; }
  std::span<std::byte> bytes() { return memory_; }

 private:
  DType dtype_;
  std::int64_t rows_, columns_, padding_;
  std::vector<std::byte> memory_;
};

/// Values about N(0, scale²), equal in every run.
OperandMemory random_operand(std::uint64_t seed, DType dtype, std::int64_t rows, std::int64_t columns,
                             std::int64_t padding = 0, float scale = 1);
/// Whole numbers of 32 bits as kernels read them, in memory that a device may copy like other operands'.
OperandMemory index_operand(const std::vector<std::int32_t>& indices);
std::span<const std::int32_t> indices_of(const Matrix& index_operand);
/// NaN everywhere: what an output holds before.
OperandMemory poisoned_operand(DType dtype, std::int64_t rows, std::int64_t columns,
                               std::int64_t padding = 0);

struct Scenario {
  using Call = std::function<void(Kernels&, const std::vector<Matrix>&)>;
  std::string name;
  std::vector<OperandMemory> operands;
  Call call;
  /// Bounds of the relative Frobenius error of an operand, by its dtype.
  double fp32_tolerance = 1e-5;
  double bf16_tolerance = 1e-2;
  double fp16_tolerance = 2e-3;

  double tolerance(DType dtype) const;
};

/// Kernels under test, and the memory that they reach.
class Implementation {
 public:
  virtual ~Implementation() = default;
  virtual Kernels& kernels() = 0;

  /// Where the kernels find these bytes. Kernels that reach the host's memory find them where they are.
  virtual std::byte* place(std::span<std::byte> host) { return host.data(); }
  /// Waits for the kernels; what was placed is then back on the host, and nothing is placed any more.
  virtual void bring_back() {}

  /// Runs that must give the same bits, and what is different about each.
  virtual int runs() const { return 1; }
  virtual void begin_run(int /*run*/) {}
};

/// The scenario's operands after its call.
std::vector<OperandMemory> run_scenario(const Scenario& scenario, Implementation& implementation);

/// Runs the scenario on the implementation, and on the reference with fp32 copies of the operands. Afterwards
/// inputs must be unchanged, outputs must be equal within the tolerance, and no padding may be touched. Each
/// run of the implementation must give the same bits.
void expect_agrees_with_reference(const Scenario& scenario, Implementation& implementation);

/// The scenario's operands after its call on the CPU.
std::vector<OperandMemory> run_on_cpu(const Scenario& scenario, int threads);
/// Runs the scenario on the CPU with 1, 2 and 3 threads; every byte of every operand must be equal.
void expect_same_bits_for_any_thread_count(const Scenario& scenario);

/// ‖actual - expected‖ / ‖expected‖; infinite if a value is not finite.
double relative_error(const OperandMemory& actual, const OperandMemory& expected);

}  // namespace strata
