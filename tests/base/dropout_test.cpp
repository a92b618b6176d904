// Dropout keeps as many elements as it is asked to, and none tells of another.
#include "base/dropout.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

namespace strata {
namespace {

constexpr std::int64_t kRows = 512, kColumns = 512;

using Mask = std::vector<bool>;

Mask mask_of(float probability, std::uint32_t site, std::int32_t first_key = 0,
             std::int64_t first_column = 0) {
  Mask mask;
  for (std::int32_t row = 0; row < kRows; ++row) {
    const std::uint32_t hashed = dropout_row(first_key + row, site);
    for (std::int64_t column = 0; column < kColumns; ++column)
      mask.push_back(is_kept(hashed, first_column + column, dropout_threshold(probability)));
  }
  return mask;
}

/// How far a count of independent events is from what is expected, in standard deviations.
double deviations(std::int64_t count, std::int64_t events, double probability) {
  const auto all = static_cast<double>(events);
  return std::abs(static_cast<double>(count) - all * probability) /
         std::sqrt(all * probability * (1 - probability));
}

// Invariant (DropoutMask.*): Dropout depends on the place in the run alone.
TEST(DropoutMask, KeepsTheFractionThatIsAskedFor) {
  for (const float probability : {0.01F, 0.1F, 0.5F, 0.9F}) {
    const Mask mask = mask_of(probability, 7);
    EXPECT_LT(deviations(std::ranges::count(mask, true), kRows * kColumns, 1 - double{probability}), 4)
        << probability;
  }
  EXPECT_EQ(std::ranges::count(mask_of(0, 7), false), 0);
}

/// Keys of neighbours are the hardest case: those of a run are random.
TEST(DropoutMask, TellsNothingOfAnother) {
  const Mask mask = mask_of(0.5F, 1024);
  const struct {
    const char* name;
    Mask other;
  } cases[] = {
      {"the next column", mask_of(0.5F, 1024, 0, 1)},     {"the next token", mask_of(0.5F, 1024, 1)},
      {"the unit's next site", mask_of(0.5F, 1025)},      {"the next unit", mask_of(0.5F, 2048)},
      {"columns far away", mask_of(0.5F, 1024, 0, 4096)}, {"tokens far away", mask_of(0.5F, 1024, 1 << 20)}};
  for (const auto& each : cases) {
    std::int64_t equal = 0;
    for (std::size_t i = 0; i < mask.size(); ++i) equal += int{mask[i] == each.other[i]};
    EXPECT_LT(deviations(equal, std::ssize(mask), 0.5), 4) << each.name;
  }
}

/// Sums over rows and over columns scatter as those of independent events do: chi² of n sums has the standard
/// deviation sqrt(2 · n).
TEST(DropoutMask, IsEvenInRowsAndColumns) {
  constexpr double kKept = 0.75, kVariance = kKept * (1 - kKept);
  const Mask mask = mask_of(0.25F, 3);
  std::vector<double> of_rows(kRows), of_columns(kColumns);
  for (std::size_t i = 0; i < mask.size(); ++i) {
    of_rows[i / kColumns] += mask[i] ? 1 : 0;
    of_columns[i % kColumns] += mask[i] ? 1 : 0;
  }
  for (const std::vector<double>& sums : {of_rows, of_columns}) {
    double square = 0;
    for (const double sum : sums) square += std::pow(sum - kKept * kRows, 2) / (kRows * kVariance);
    EXPECT_NEAR(square, kRows, 4 * std::sqrt(2.0 * kRows));
  }
}

TEST(DropoutMask, GivesWhatIsKeptTheExpectedSum) {
  EXPECT_EQ(dropout_factor(0), 1);
  EXPECT_FLOAT_EQ(dropout_factor(0.2F), 1.25F);
}

}  // namespace
}  // namespace strata
