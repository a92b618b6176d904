// Codes in blocks: those of bitsandbytes, the same for any part of a matrix, and the same if what they stand
// for is packed again.
#include "optim/block_packing.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <fstream>
#include <limits>
#include <numeric>
#include <random>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "base/block_codes.h"
#include "base/storage_type.h"
#include "base/task_arena.h"
#include "tests/support/source_folder.h"

namespace strata {
namespace {

struct Encoded {
  std::vector<std::uint8_t> codes;
  std::vector<float> scales;

  friend bool operator==(const Encoded&, const Encoded&) = default;
};

template <typename T>
Encoded encoded(const BlockRun& run, DType precision, const std::vector<T>& elements) {
  Encoded made;
  made.codes.resize(static_cast<std::size_t>(code_bytes(run.format, run.count)));
  made.scales.resize(static_cast<std::size_t>((run.before + run.count + run.block - 1) / run.block));
  find_block_scales(run, precision, elements.data(), made.scales.data());
  encode_blocks(run, precision, elements.data(), made.scales.data(), made.codes.data());
  return made;
}

std::vector<float> decoded(const BlockRun& run, DType precision, const Encoded& from) {
  std::vector<float> values(static_cast<std::size_t>(run.count));
  decode_blocks(run, precision, from.codes.data(), from.scales.data(), 0, run.count, values.data());
  return values;
}

std::vector<float> floats_of(const nlohmann::json& bits) {
  std::vector<float> values;
  for (const std::int32_t word : bits) values.push_back(std::bit_cast<float>(word));
  return values;
}

std::vector<std::uint8_t> bytes_of(const std::string& digits) {
  std::vector<std::uint8_t> bytes;
  for (std::size_t i = 0; i < digits.size(); i += 2)
    bytes.push_back(static_cast<std::uint8_t>(std::stoi(digits.substr(i, 2), nullptr, 16)));
  return bytes;
}

/// int8 scales may lie some last bits beside those of bitsandbytes.
constexpr float kLastBits = 3e-7F;

// Invariant of numbers (BlockPacking.*): Blocks of codes are those of bitsandbytes. Packing packed blocks
// again changes nothing. The numbers are the same on ranks of every kind, through checkpoints and wherever
// the blocks live.
TEST(BlockPacking, HasCodesAndNumbersOfBitsandbytes) {
  nlohmann::json goldens;
  std::ifstream(test::source_folder() / "tests/optim/block_goldens.json") >> goldens;
  ASSERT_GE(goldens.size(), 8U);
  for (const nlohmann::json& golden : goldens) {
    const std::vector<float> values = floats_of(golden.at("values"));
    for (const BlockFormat format : {BlockFormat::int8, BlockFormat::nf4}) {
      const bool is_nf4 = format == BlockFormat::nf4;
      SCOPED_TRACE(golden.at("name").get<std::string>() + (is_nf4 ? " as nf4" : " as int8"));
      const nlohmann::json& expected = golden.at(is_nf4 ? "nf4" : "int8");
      const BlockRun run = {format, is_nf4 ? 64 : golden.at("columns").get<std::int64_t>(), 0,
                            std::ssize(values)};
      const Encoded made = encoded(run, DType::fp32, values);
      const std::vector<std::uint8_t> codes = bytes_of(expected.at("codes"));
      for (std::int64_t i = 0; i < run.count; ++i)
        EXPECT_EQ(code_at(format, made.codes.data(), i), code_at(format, codes.data(), i)) << i;
      const float tolerance = is_nf4 ? 0 : kLastBits;
      const std::vector<float> scales = floats_of(expected.at("scales"));
      ASSERT_EQ(made.scales.size(), scales.size());
      for (std::size_t i = 0; i < scales.size(); ++i)
        EXPECT_NEAR(made.scales[i], scales[i], tolerance * scales[i]) << i;
      const std::vector<float> numbers = decoded(run, DType::fp32, made);
      const std::vector<float> expected_numbers = floats_of(expected.at("decoded"));
      for (std::size_t i = 0; i < numbers.size(); ++i)
        EXPECT_NEAR(numbers[i], expected_numbers[i], tolerance * std::abs(expected_numbers[i])) << i;
    }
  }
}

/// What a checkpoint has of frozen numbers is packed again when a run goes on.
TEST(BlockPacking, KeepsWhatWasPackedOnce) {
  std::mt19937 generator(3);
  std::normal_distribution<float> normal;
  for (const DType precision : {DType::fp32, DType::bf16, DType::fp16}) {
    for (const BlockFormat format : {BlockFormat::int8, BlockFormat::nf4}) {
      SCOPED_TRACE(std::string(name_of(precision)) + (format == BlockFormat::nf4 ? " as nf4" : " as int8"));
      // From less than fp16 has to about its largest.
      for (int exponent = -30; exponent < 14; ++exponent) {
        with_storage_type(precision, [&]<typename T>(T) {
          std::vector<T> values(40 * 13);
          for (T& value : values) value = T(std::ldexp(normal(generator), exponent));
          const BlockRun run = {format, 13, 0, std::ssize(values)};
          const Encoded once = encoded(run, precision, values);
          const std::vector<float> numbers = decoded(run, precision, once);
          std::vector<T> rounded(numbers.size());
          std::ranges::transform(numbers, rounded.begin(), [](float number) { return T(number); });
          const Encoded twice = encoded(run, precision, rounded);
          EXPECT_EQ(twice.scales, once.scales) << exponent;
          EXPECT_EQ(decoded(run, precision, twice), numbers) << exponent;
        });
      }
    }
  }
}

TEST(BlockPacking, OfAnyElementsIsThatOfAllOnAnyThreads) {
  constexpr std::int64_t kCount = 200'001;
  std::vector<float> values(kCount);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = std::sin(static_cast<float>(i * i % 1009));
  for (const BlockFormat format : {BlockFormat::int8, BlockFormat::nf4}) {
    for (const std::int64_t block : {std::int64_t{64}, std::int64_t{999}, kCount}) {
      const BlockRun all = {format, block, 0, kCount};
      const Encoded whole = encoded(all, DType::fp32, values);
      TaskArena(3).execute([&] { EXPECT_EQ(encoded(all, DType::fp32, values), whole); });
      const std::vector<float> numbers = decoded(all, DType::fp32, whole);
      for (const auto& [first, count] :
           {std::pair<std::int64_t, std::int64_t>{0, 1}, {1, 62}, {1000, 129}, {77'777, 100'000}}) {
        const BlockRun run = {format, block, first % block, count};
        const float* scales = whole.scales.data() + first / block;
        std::vector<std::uint8_t> codes(static_cast<std::size_t>(code_bytes(format, count)));
        encode_blocks(run, DType::fp32, values.data() + first, scales, codes.data());
        std::vector<float> part(static_cast<std::size_t>(count));
        decode_blocks(run, DType::fp32, codes.data(), scales, 0, count, part.data());
        EXPECT_TRUE(std::equal(part.begin(), part.end(), numbers.begin() + first)) << first;
        const std::int64_t half = count / 2;
        decode_blocks(run, DType::fp32, codes.data(), scales, half, count - half, part.data());
        EXPECT_TRUE(std::equal(part.begin(), part.end() - half, numbers.begin() + first + half)) << first;
      }
    }
  }
}

TEST(BlockPacking, OfABlockThatIsNotFiniteIsNaNAndOfOneThatVanishesZero) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  for (const BlockFormat format : {BlockFormat::int8, BlockFormat::nf4}) {
    const std::vector<float> values = {1, kInfinity, 2, 3, NAN, 0, -0.0F, 1e-39F, 4, 5};
    const BlockRun run = {format, 2, 0, std::ssize(values)};
    const std::vector<float> numbers = decoded(run, DType::fp32, encoded(run, DType::fp32, values));
    for (const std::size_t i : {0U, 1U, 4U, 5U}) EXPECT_TRUE(std::isnan(numbers[i])) << i;
    for (const std::size_t i : {6U, 7U}) EXPECT_EQ(numbers[i], 0) << i;
    for (const std::size_t i : {3U, 9U}) EXPECT_EQ(numbers[i], values[i]) << i;
  }
}

}  // namespace
}  // namespace strata
