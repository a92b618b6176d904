#include "engine/input/text/utf8.h"

#include <gtest/gtest.h>

namespace strata::text {
namespace {

std::string valid(std::string_view text) {
  std::string buffer;
  return std::string(make_valid(text, buffer));
}

TEST(Utf8, ThatIsValidStaysWhereItIs) {
  std::string buffer;
  for (const std::string_view text : {"", "abc", "é中🙂", "\xf4\x8f\xbf\xbf", "\xef\xbf\xbd"}) {
    EXPECT_EQ(make_valid(text, buffer).data(), text.data()) << text;
  }
}

// The examples of the Unicode standard, section 3.9, tables 3-8 to 3-11, and Python's.
TEST(Utf8, HasOneReplacementForEachLongestBeginning) {
  const std::string r = "\xef\xbf\xbd";
  EXPECT_EQ(valid("\xff"), r);
  EXPECT_EQ(valid("\xc0\xaf\xe0\x80\xbf\xf0\x81\x82\x41"), r + r + r + r + r + r + r + r + "A");
  EXPECT_EQ(valid("\xed\xa0\x80\xed\xbf\xbf\xed\xaf\x41"), r + r + r + r + r + r + r + r + "A");
  EXPECT_EQ(valid("\xf4\x91\x92\x93\xff\x41\x80\xbf\x42"), r + r + r + r + r + "A" + r + r + "B");
  EXPECT_EQ(valid("\xe1\x80\xe2\xf0\x91\x92\xf1\xbf\x41"), r + r + r + r + "A");
  EXPECT_EQ(valid("é\xe4\xb8"), "é" + r);
  EXPECT_EQ(valid("\xe4\xb8é"), r + "é");
}

TEST(Utf8, IsWhatItsCodePointsAre) {
  for (const char32_t c :
       {U'\0', U'a', U'\x7f', U'\x80', U'\x7ff', U'\x800', U'\xffff', U'\x10000', U'\x10ffff'}) {
    std::string text = "x";
    append_character(text, c);
    EXPECT_EQ(code_point_at(text, 1), c);
    EXPECT_EQ(1 + character_bytes(text[1]), text.size());
    EXPECT_EQ(character_before(text, text.size()), 1U);
    EXPECT_EQ(count_characters(text), 2U);
    EXPECT_EQ(is_ascii(text + "12345678"), c < 0x80);
  }
}

}  // namespace
}  // namespace strata::text
