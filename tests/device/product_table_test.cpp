#include "engine/device/product_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"

namespace strata {
namespace {

using ::testing::HasSubstr;

const ProductTable kTable = {{{"GPU A: 3 x 4 x 5", "00ff"}, {"GPU A: 3 x 4 x 6", "0100"}, {"GPU B", "00ff"}}};

std::string refusal(const std::string& text) {
  try {
    parse_product_table(text);
  } catch (const DamageError& error) {
    return error.what();
  }
  return "accepted";
}

// Invariant (ProductTable.*): A product table decides the bits.
TEST(ProductTable, IsReadAsItWasPrinted) {
  EXPECT_EQ(parse_product_table(print(kTable)), kTable);
  EXPECT_EQ(parse_product_table(print(ProductTable())), ProductTable());
}

TEST(ProductTable, KeepsWhatItKnows) {
  ProductTable table = {{{"GPU B", "0200"}}};
  table.add(kTable);
  EXPECT_EQ(*table.find("GPU B"), "0200");
  EXPECT_EQ(*table.find("GPU A: 3 x 4 x 6"), "0100");
  EXPECT_EQ(table.find("GPU C"), nullptr);
}

TEST(ProductTable, HasAHashOfEverythingInIt) {
  ProductTable other = kTable;
  EXPECT_EQ(hash_of(other), hash_of(kTable));
  other.algorithms["GPU B"] = "0100";
  EXPECT_NE(hash_of(other), hash_of(kTable));
}

/// Every single byte, and every length but that without the last line's end.
TEST(ProductTable, IsRefusedIfAnythingWasChanged) {
  const std::string text = print(kTable);
  for (std::size_t i = 0; i < text.size(); ++i) {
    std::string changed = text;
    changed[i] = static_cast<char>(changed[i] ^ 1);
    EXPECT_NE(refusal(changed), "accepted") << "byte " << i;
  }
  for (std::size_t length = 0; length + 1 < text.size(); ++length)
    EXPECT_NE(refusal(text.substr(0, length)), "accepted") << length << " bytes";
  EXPECT_THAT(refusal("my notes\n"), HasSubstr("does not begin as a table of products"));
  EXPECT_THAT(refusal("strata products 1: 1\nx y z\n"), HasSubstr("line 2 is not what was written there"));
  EXPECT_THAT(refusal("strata products 1: 4\n" + text.substr(text.find('\n') + 1)),
              HasSubstr("3 products and not as many as its first line says"));
}

}  // namespace
}  // namespace strata
