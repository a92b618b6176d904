#include "tests/device/scenario.h"

#include <fmt/format.h>

#include <bit>
#include <cmath>
#include <limits>
#include <random>

#include "base/storage_type.h"
#include "engine/device/cpu/cpu_device.h"
#include "engine/device/loss_calls.h"
#include "engine/device/reference/reference_kernels.h"

namespace strata {
namespace {

constexpr std::byte kPadding{0xA5};

std::vector<Matrix> views(std::vector<OperandMemory>& operands) {
  std::vector<Matrix> result;
  result.reserve(operands.size());
  for (OperandMemory& operand : operands) result.push_back(operand.view());
  return result;
}

std::vector<OperandMemory> run(const Scenario& scenario, Kernels& kernels,
                               std::vector<OperandMemory> operands) {
  scenario.call(kernels, views(operands));
  return operands;
}

void expect_equal_bits(const std::vector<OperandMemory>& actual, const std::vector<OperandMemory>& expected,
                       const std::string& run) {
  for (std::size_t i = 0; i < actual.size(); ++i) {
    EXPECT_TRUE(actual[i].memory() == expected[i].memory()) << "operand " << i << " of " << run;
  }
}

}  // namespace

std::string flag(bool set, const char* name) {
  return set ? std::string(" ") + name : std::string();
}

OperandMemory::OperandMemory(DType dtype, std::int64_t rows, std::int64_t columns, std::int64_t padding)
    : dtype_(dtype),
      rows_(rows),
      columns_(columns),
      padding_(padding),
      memory_(static_cast<std::size_t>(rows * (columns + padding) * size_of(dtype)), kPadding) {}

float OperandMemory::at(std::int64_t row, std::int64_t column) const {
  const auto index = static_cast<std::size_t>(row * (columns_ + padding_) + column);
  return with_storage_type(dtype_, [&]<typename T>(T) {
    return static_cast<float>(reinterpret_cast<const T*>(memory_.data())[index]);
  });
}

std::vector<float> OperandMemory::values() const {
  std::vector<float> values;
  for (std::int64_t row = 0; row < rows_; ++row)
    for (std::int64_t column = 0; column < columns_; ++column) values.push_back(at(row, column));
  return values;
}

void OperandMemory::set(std::int64_t row, std::int64_t column, float value) {
  const auto index = static_cast<std::size_t>(row * (columns_ + padding_) + column);
  with_storage_type(dtype_, [&]<typename T>(T) { reinterpret_cast<T*>(memory_.data())[index] = T(value); });
}

bool OperandMemory::padding_is_untouched() const {
  const auto row_bytes = static_cast<std::size_t>((columns_ + padding_) * size_of(dtype_));
  const auto used = static_cast<std::size_t>(columns_ * size_of(dtype_));
  for (std::size_t row = 0; row < static_cast<std::size_t>(rows_); ++row) {
    for (std::size_t i = used; i < row_bytes; ++i) {
      if (memory_[row * row_bytes + i] != kPadding) return false;
    }
  }
  return true;
}

OperandMemory OperandMemory::widened() const {
  OperandMemory result(DType::fp32, rows_, columns_, padding_);
  for (std::int64_t row = 0; row < rows_; ++row) {
    for (std::int64_t column = 0; column < columns_; ++column) result.set(row, column, at(row, column));
  }
  return result;
}

OperandMemory random_operand(std::uint64_t seed, DType dtype, std::int64_t rows, std::int64_t columns,
                             std::int64_t padding, float scale) {
  std::mt19937_64 generator(seed);
  std::uniform_real_distribution<float> uniform(-1.7320508F * scale, 1.7320508F * scale);
  OperandMemory result(dtype, rows, columns, padding);
  for (std::int64_t row = 0; row < rows; ++row) {
    for (std::int64_t column = 0; column < columns; ++column) result.set(row, column, uniform(generator));
  }
  return result;
}

// Copies and comparisons see them as floats, of values next to nothing.
OperandMemory index_operand(const std::vector<std::int32_t>& indices) {
  OperandMemory result(DType::fp32, 1, static_cast<std::int64_t>(indices.size()));
  for (std::size_t i = 0; i < indices.size(); ++i) {
    result.set(0, static_cast<std::int64_t>(i), std::bit_cast<float>(indices[i]));
  }
  return result;
}

std::span<const std::int32_t> indices_of(const Matrix& index_operand) {
  return {static_cast<const std::int32_t*>(index_operand.data),
          static_cast<std::size_t>(index_operand.columns)};
}

OperandMemory poisoned_operand(DType dtype, std::int64_t rows, std::int64_t columns, std::int64_t padding) {
  OperandMemory result(dtype, rows, columns, padding);
  for (std::int64_t row = 0; row < rows; ++row) {
    for (std::int64_t column = 0; column < columns; ++column) {
      result.set(row, column, std::numeric_limits<float>::quiet_NaN());
    }
  }
  return result;
}

namespace {

/// An index that is no number as a float.
bool is_no_target(float value) {
  return std::bit_cast<std::int32_t>(value) == kNoTarget;
}

}  // namespace

double relative_error(const OperandMemory& actual, const OperandMemory& expected) {
  double difference = 0;
  double norm = 0;
  for (std::int64_t row = 0; row < expected.rows(); ++row) {
    for (std::int64_t column = 0; column < expected.columns(); ++column) {
      const double value = expected.at(row, column);
      if (is_no_target(expected.at(row, column)) && is_no_target(actual.at(row, column))) continue;
      difference += std::pow(actual.at(row, column) - value, 2);
      norm += value * value;
    }
  }
  if (!std::isfinite(difference)) return std::numeric_limits<double>::infinity();
  return difference == 0 ? 0 : std::sqrt(difference / norm);
}

std::vector<OperandMemory> run_scenario(const Scenario& scenario, Implementation& implementation) {
  std::vector<OperandMemory> operands = scenario.operands;
  std::vector<Matrix> placed = views(operands);
  for (std::size_t i = 0; i < operands.size(); ++i)
    placed[i].data = implementation.place(operands[i].bytes());
  scenario.call(implementation.kernels(), placed);
  implementation.bring_back();
  return operands;
}

double Scenario::tolerance(DType dtype) const {
  switch (dtype) {
    case DType::bf16:
      return bf16_tolerance;
    case DType::fp16:
      return fp16_tolerance;
    case DType::fp32:
      break;
  }
  return fp32_tolerance;
}

void expect_agrees_with_reference(const Scenario& scenario, Implementation& implementation) {
  SCOPED_TRACE(scenario.name);
  std::vector<OperandMemory> wide;
  for (const OperandMemory& operand : scenario.operands) wide.push_back(operand.widened());
  ReferenceKernels reference;
  const std::vector<OperandMemory> expected = run(scenario, reference, wide);
  implementation.begin_run(0);
  const std::vector<OperandMemory> actual = run_scenario(scenario, implementation);
  for (std::size_t i = 0; i < actual.size(); ++i) {
    EXPECT_LE(relative_error(actual[i], expected[i]), scenario.tolerance(actual[i].dtype()))
        << "operand " << i;
    EXPECT_TRUE(actual[i].padding_is_untouched()) << "operand " << i;
  }
  for (int repeat = 1; repeat < implementation.runs(); ++repeat) {
    implementation.begin_run(repeat);
    expect_equal_bits(run_scenario(scenario, implementation), actual, fmt::format("run {}", repeat));
  }
}

std::vector<OperandMemory> run_on_cpu(const Scenario& scenario, int threads) {
  CpuDevice device({.threads = threads, .link = {}});
  return run(scenario, device.make_stream()->kernels(), scenario.operands);
}

void expect_same_bits_for_any_thread_count(const Scenario& scenario) {
  SCOPED_TRACE(scenario.name);
  const std::vector<OperandMemory> expected = run_on_cpu(scenario, 1);
  for (const int threads : {2, 3}) {
    expect_equal_bits(run_on_cpu(scenario, threads), expected, fmt::format("{} threads", threads));
  }
}

}  // namespace strata
