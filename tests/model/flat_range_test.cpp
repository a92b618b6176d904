#include "engine/model/flat_range.h"
#include "engine/model/model.h"

#include <gtest/gtest.h>

namespace strata {
namespace {

/// Three tensors of 4, 6 and 2 elements at 0, 4 and 12, with padding before the last and behind it.
Unit unit_with_padding() {
  Unit unit;
  unit.elements = 20;
  for (const auto& [name, offset, elements] :
       {std::tuple("a", 0, 4), std::tuple("b", 4, 6), std::tuple("c", 12, 2)}) {
    TensorSpec tensor;
    tensor.hf_name = name;
    tensor.offset = offset;
    tensor.elements = elements;
    tensor.hf_shape = {elements};
    unit.tensors.push_back(tensor);
  }
  return unit;
}

struct Expected {
  std::string name;
  std::int64_t first, last, at;
  bool is_whole;
  friend bool operator==(const Expected&, const Expected&) = default;
};

std::vector<Expected> found_in(const Unit& unit, FlatRange range) {
  std::vector<Expected> found;
  for (const TensorPiece& piece : pieces_in(unit, range))
    found.push_back(
        {piece.tensor->hf_name, piece.first, piece.last, piece.at, piece.count() == piece.tensor->elements});
  return found;
}

TEST(FlatRange, TheWholeUnitHasAllTensorsWhole) {
  const Unit unit = unit_with_padding();
  EXPECT_EQ(found_in(unit, whole(unit)),
            (std::vector<Expected>{{"a", 0, 4, 0, true}, {"b", 0, 6, 4, true}, {"c", 0, 2, 12, true}}));
}

TEST(FlatRange, MayBeginAndEndInsideTensors) {
  const Unit unit = unit_with_padding();
  EXPECT_EQ(found_in(unit, {3, 10}),
            (std::vector<Expected>{{"a", 3, 4, 0, false}, {"b", 0, 6, 1, true}, {"c", 0, 1, 9, false}}));
  EXPECT_EQ(found_in(unit, {5, 3}), (std::vector<Expected>{{"b", 1, 4, 0, false}}));
}

TEST(FlatRange, MayHoldNothingButPadding) {
  const Unit unit = unit_with_padding();
  for (const FlatRange range : {FlatRange{10, 2}, FlatRange{14, 6}, FlatRange{20, 0}, FlatRange{6, 0}})
    EXPECT_TRUE(pieces_in(unit, range).empty()) << range.first;
}

}  // namespace
}  // namespace strata
