#include "base/enum_array.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace strata {

enum class Season : std::uint8_t { spring, summer, autumn };
inline constexpr std::array kSeasons = {Season::spring, Season::summer, Season::autumn};
constexpr const auto& values_of(Season) {
  return kSeasons;
}

namespace {

using ::testing::ElementsAre;

TEST(EnumArrays, HaveAValueForEachEnumerator) {
  constexpr EnumArray<Season, int> kDegrees = {12, 25, 10};
  static_assert(kDegrees.size() == 3 && kDegrees[Season::summer] == 25);
  EnumArray<Season, int> degrees = kDegrees;
  degrees[Season::autumn] = 9;
  EXPECT_NE(degrees, kDegrees);
  EXPECT_THAT(degrees.values, ElementsAre(12, 25, 9));
}

TEST(EnumArrays, AreZeroWhereNothingIsGiven) {
  const EnumArray<Season, int> nothing, first = {7};
  EXPECT_THAT(nothing.values, ElementsAre(0, 0, 0));
  EXPECT_THAT(first.values, ElementsAre(7, 0, 0));
}

TEST(EnumTables, AreGivenAValueForEachEnumerator) {
  using Names = EnumTable<Season, std::string_view>;
  constexpr Names kNames = {"a", "b", "c"};
  static_assert(kNames[Season::autumn] == "c");
  static_assert(!std::is_constructible_v<Names, const char*, const char*>);
  static_assert(!std::is_default_constructible_v<Names>);
}

TEST(EnumArrays, VisitKeysWithTheirValuesInOrder) {
  EnumArray<Season, std::string> names = {"a", "b", "c"};
  names.for_each([](Season season, std::string& name) { name += std::to_string(static_cast<int>(season)); });
  EXPECT_THAT(names.values, ElementsAre("a0", "b1", "c2"));
}

TEST(Elements, AreFoundBySignedNumbersAndEnumerators) {
  std::vector<int> values = {3, 4, 5};
  nth(values, std::int64_t{1}) = 40;
  EXPECT_EQ(nth(values, Season::summer), 40);
  std::vector<bool> bits = {false, false};
  nth(bits, std::int32_t{1}) = true;
  EXPECT_THAT(bits, ElementsAre(false, true));
}

TEST(Elements, AreCutByAFirstAndACount) {
  std::vector<int> values = {3, 4, 5, 6};
  slice(values, std::int64_t{1}, std::int32_t{2})[0] = 7;
  EXPECT_THAT(slice(values, 0, 3), ElementsAre(3, 7, 5));
  EXPECT_THAT(span_of(values.data() + 2, std::int64_t{2}), ElementsAre(5, 6));
}

}  // namespace
}  // namespace strata
