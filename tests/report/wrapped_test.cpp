// Text that is wrapped for a terminal: no word is cut or lost, and what follows stands under its text.
#include "engine/tools/report/wrapped.h"

#include <gtest/gtest.h>

#include <sstream>
#include <string>
#include <vector>

#include "engine/tools/report/progress_text.h"

namespace strata {
namespace {

std::vector<std::string> words_of(const std::string& text) {
  std::istringstream stream(text);
  std::vector<std::string> words;
  for (std::string word; stream >> word;) words.push_back(word);
  return words;
}

TEST(Wrapped, GoesOnUnderItsText) {
  EXPECT_EQ(wrapped("step     8 microbatches of 4 x 512 tokens, layer_major\nend\n", 34),
            "step     8 microbatches of 4 x 512\n"
            "         tokens, layer_major\nend\n");
  EXPECT_EQ(wrapped("  --json TEXT    write the figures to this file", 34),
            "  --json TEXT    write the figures\n"
            "                 to this file");
  EXPECT_EQ(wrapped("  A step is planned to take 3 s.", 20), "  A step is planned\n  to take 3 s.");
}

TEST(Wrapped, GoesOnUnderAColumnOfATable) {
  const std::string row = "good kernel       Linux 6.1, with io_uring and more";
  EXPECT_EQ(wrapped(row, 40, 6), "good kernel       Linux 6.1, with\n                  io_uring and more");
  EXPECT_EQ(wrapped("bad  drive        a folder that is not there", 40, 6),
            "bad  drive        a folder that is not\n                  there");
}

TEST(Wrapped, OfATextColumnThatIsTooFarRightGoesOnAtTheLinesBeginning) {
  EXPECT_EQ(wrapped("a name of many words  text of it", 24), "a name of many words\ntext of it");
}

TEST(Wrapped, CutsNoWordAndLosesNone) {
  const std::string text =
      "model    a/folder/whose/name/is/long/indeed: 3.34 M parameters …\n\n"
      "  Norms cost nothing in it; ½ of them\n  at_the_end_of_it_all  b\n";
  for (std::size_t columns = 1; columns < 80; ++columns) {
    const std::string narrow = wrapped(text, columns);
    EXPECT_EQ(words_of(narrow), words_of(text)) << columns;
    std::istringstream lines(narrow);
    for (std::string line; std::getline(lines, line);) {
      const std::size_t most = line.starts_with("model") ? 2 : 1;  // its label, too
      if (columns_of(line) > columns) {
        EXPECT_LE(words_of(line).size(), most) << columns << ": " << line;
      }
    }
  }
  EXPECT_EQ(wrapped(text, 200), text);
}

TEST(Wrapped, OutputThatIsNoTerminalStaysAsItIs) {
  const std::string text(500, 'x');
  EXPECT_EQ(for_output(text + " y"), text + " y");
}

}  // namespace
}  // namespace strata
