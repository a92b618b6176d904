#include "engine/input/data/file_pattern.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/data/corpus.h"

namespace strata {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class FilePattern : public ::testing::Test {
 protected:
  FilePattern() {
    for (const char* name : {"b.txt", "a.txt", "c.md", ".hidden.txt", "deep/d.txt", "deep/er/e.txt",
                             ".git/f.txt", "[x].txt", "bits/g.h"}) {
      corpus_.write(name, "x");
    }
  }

  /// The matches relative to the corpus.
  std::vector<std::string> expand(const std::string& pattern) const {
    std::vector<std::string> names;
    for (const std::string& file : expand_pattern(corpus_.path(pattern))) {
      names.push_back(file.substr(corpus_.path("").size()));
    }
    return names;
  }

  Corpus corpus_;
};

TEST_F(FilePattern, MatchesWithinAFolderInTheOrderOfNames) {
  EXPECT_THAT(expand("*.txt"), ElementsAre("[x].txt", "a.txt", "b.txt"));
  EXPECT_THAT(expand("?.[tm]*"), ElementsAre("a.txt", "b.txt", "c.md"));
  EXPECT_THAT(expand("*/*.h"), ElementsAre("bits/g.h"));
}

TEST_F(FilePattern, MatchesAnyDepthWithTwoStars) {
  EXPECT_THAT(expand("**/*.txt"), ElementsAre("[x].txt", "a.txt", "b.txt", "deep/d.txt", "deep/er/e.txt"));
  EXPECT_THAT(expand("deep/**"), ElementsAre("deep/d.txt", "deep/er/e.txt"));
  EXPECT_THAT(expand("**/**/e.txt"), ElementsAre("deep/er/e.txt"));
}

TEST_F(FilePattern, TakesAnExistingNameLiterally) {
  EXPECT_THAT(expand("[x].txt"), ElementsAre("[x].txt"));
  EXPECT_THAT(expand(".hidden.txt"), ElementsAre(".hidden.txt"));
}

TEST_F(FilePattern, MatchesNoFoldersAndNoMissingFiles) {
  EXPECT_THAT(expand("deep"), IsEmpty());
  EXPECT_THAT(expand("missing/*.txt"), IsEmpty());
  EXPECT_THAT(expand("a.txt/*"), IsEmpty());
}

TEST_F(FilePattern, DoesNotFollowLinksToFoldersWithTwoStars) {
  std::filesystem::create_directory_symlink(corpus_.path(""), corpus_.path("deep/loop"));
  EXPECT_THAT(expand("deep/**/*.txt"), ElementsAre("deep/d.txt", "deep/er/e.txt"));
}

TEST_F(FilePattern, TakesManyTwoStarsInARowAsOne) {
  std::string name, stars;
  for (int level = 0; level < 24; ++level) {
    name += "n/";
    stars += "**/";
  }
  corpus_.write(name + "e.txt",
                "");  // that many ways to share out its folders to the stars would take for ever
  EXPECT_THAT(expand("n/" + stars + "*.txt"), ElementsAre(name + "e.txt"));
}

TEST_F(FilePattern, ReadsRelativePatternsFromTheCurrentFolder) {
  const auto before = std::filesystem::current_path();
  std::filesystem::current_path(corpus_.path(""));
  const auto names = expand_pattern("*.md");
  const auto nested = expand_pattern("./deep/**");
  std::filesystem::current_path(before);
  EXPECT_THAT(names, ElementsAre("c.md"));
  EXPECT_THAT(nested, ElementsAre("./deep/d.txt", "./deep/er/e.txt"));
}

}  // namespace
}  // namespace strata
