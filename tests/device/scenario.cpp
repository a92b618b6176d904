#include "tests/device/scenario.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <random>

#include "engine/device/cpu/cpu_device.h"
#include "engine/device/reference/reference_kernels.h"

namespace strata {
namespace {

constexpr std::byte kPadding{0xA5};

std::vector<Matrix> views(std::vector<Operand>& operands) {
  std::vector<Matrix> result;
  for (Operand& operand : operands) result.push_back(operand.view());
  return result;
}

std::vector<Operand> run(const Scenario& scenario, Kernels& kernels, std::vector<Operand> operands) {
  scenario.call(kernels, views(operands));
  return operands;
}

}  // namespace

Operand::Operand(DType dtype, std::int64_t rows, std::int64_t columns, std::int64_t padding)
    : dtype_(dtype),
      rows_(rows),
      columns_(columns),
      padding_(padding),
      memory_(static_cast<std::size_t>(rows * (columns + padding) * size_of(dtype)), kPadding) {}

float Operand::at(std::int64_t row, std::int64_t column) const {
  const auto index = static_cast<std::size_t>(row * (columns_ + padding_) + column);
  if (dtype_ == DType::fp32) return reinterpret_cast<const float*>(memory_.data())[index];
  return static_cast<float>(reinterpret_cast<const bfloat16*>(memory_.data())[index]);
}

void Operand::set(std::int64_t row, std::int64_t column, float value) {
  const auto index = static_cast<std::size_t>(row * (columns_ + padding_) + column);
  if (dtype_ == DType::fp32) {
    reinterpret_cast<float*>(memory_.data())[index] = value;
  } else {
    reinterpret_cast<bfloat16*>(memory_.data())[index] = bfloat16(value);
  }
}

bool Operand::padding_is_untouched() const {
  const auto row_bytes = static_cast<std::size_t>((columns_ + padding_) * size_of(dtype_));
  const auto used = static_cast<std::size_t>(columns_ * size_of(dtype_));
  for (std::size_t row = 0; row < static_cast<std::size_t>(rows_); ++row) {
    for (std::size_t i = used; i < row_bytes; ++i) {
      if (memory_[row * row_bytes + i] != kPadding) return false;
    }
  }
  return true;
}

Operand Operand::widened() const {
  Operand result(DType::fp32, rows_, columns_, padding_);
  for (std::int64_t row = 0; row < rows_; ++row) {
    for (std::int64_t column = 0; column < columns_; ++column) result.set(row, column, at(row, column));
  }
  return result;
}

Operand random_operand(std::uint64_t seed, DType dtype, std::int64_t rows, std::int64_t columns,
                       std::int64_t padding, float scale) {
  std::mt19937_64 generator(seed);
  std::uniform_real_distribution<float> uniform(-1.7320508F * scale, 1.7320508F * scale);
  Operand result(dtype, rows, columns, padding);
  for (std::int64_t row = 0; row < rows; ++row) {
    for (std::int64_t column = 0; column < columns; ++column) result.set(row, column, uniform(generator));
  }
  return result;
}

Operand poisoned_operand(DType dtype, std::int64_t rows, std::int64_t columns, std::int64_t padding) {
  Operand result(dtype, rows, columns, padding);
  for (std::int64_t row = 0; row < rows; ++row) {
    for (std::int64_t column = 0; column < columns; ++column) {
      result.set(row, column, std::numeric_limits<float>::quiet_NaN());
    }
  }
  return result;
}

double relative_error(const Operand& actual, const Operand& expected) {
  double difference = 0;
  double norm = 0;
  for (std::int64_t row = 0; row < expected.rows(); ++row) {
    for (std::int64_t column = 0; column < expected.columns(); ++column) {
      const double value = expected.at(row, column);
      difference += std::pow(actual.at(row, column) - value, 2);
      norm += value * value;
    }
  }
  if (!std::isfinite(difference)) return std::numeric_limits<double>::infinity();
  return difference == 0 ? 0 : std::sqrt(difference / norm);
}

void expect_agrees_with_reference(const Scenario& scenario) {
  SCOPED_TRACE(scenario.name);
  std::vector<Operand> wide;
  for (const Operand& operand : scenario.operands) wide.push_back(operand.widened());
  ReferenceKernels reference;
  const std::vector<Operand> expected = run(scenario, reference, wide);
  CpuDevice device({.threads = 2, .link = {}});
  const std::vector<Operand> actual = run(scenario, *device.make_kernels(), scenario.operands);
  for (std::size_t i = 0; i < actual.size(); ++i) {
    const double tolerance =
        actual[i].dtype() == DType::bf16 ? scenario.bf16_tolerance : scenario.fp32_tolerance;
    EXPECT_LE(relative_error(actual[i], expected[i]), tolerance) << "operand " << i;
    EXPECT_TRUE(actual[i].padding_is_untouched()) << "operand " << i;
  }
}

void expect_same_bits_for_any_thread_count(const Scenario& scenario) {
  SCOPED_TRACE(scenario.name);
  CpuDevice one({.threads = 1, .link = {}});
  const std::vector<Operand> expected = run(scenario, *one.make_kernels(), scenario.operands);
  for (const int threads : {2, 3}) {
    CpuDevice device({.threads = threads, .link = {}});
    const std::vector<Operand> actual = run(scenario, *device.make_kernels(), scenario.operands);
    for (std::size_t i = 0; i < actual.size(); ++i) {
      EXPECT_EQ(actual[i].memory(), expected[i].memory())
          << "operand " << i << " with " << threads << " threads";
    }
  }
}

}  // namespace strata
