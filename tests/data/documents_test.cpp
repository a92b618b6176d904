// Files as documents, above all the arrays of JSON that people's conversations come in.
#include "engine/input/data/documents.h"

#include <gmock/gmock.h>

#include <string>
#include <utility>
#include <vector>

#include "tests/data/corpus.h"

namespace strata {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class Documents : public ::testing::Test {
 protected:
  /// What the file's documents are, each behind the line where it begins.
  std::vector<std::pair<std::int64_t, std::string>> read(const std::string& name,
                                                         const std::string& content) const {
    const std::vector<std::string> files = {corpus_.write(name, content)};
    DocumentReader reader(files);
    std::vector<std::pair<std::int64_t, std::string>> documents;
    for (TextDocument next; reader.next(next);) documents.emplace_back(next.line, next.source);
    return documents;
  }

  Corpus corpus_;
};

TEST_F(Documents, AreTheElementsOfAnArrayOfObjects) {
  const std::string array =
      " [\n"
      "  {\"text\": \"a ] , \\\" \\\\\", \"of\": [1, {}]},\n"
      "\n"
      "  {\n"
      "    \"text\": \"b\"\n"
      "  }, 7,\n"
      "  []\n"
      "]\n";
  for (const char* name : {"a.json", "a.JSON"})
    for (const char* mark : {"", "\xEF\xBB\xBF"})
      EXPECT_THAT(
          read(name, mark + array),
          ElementsAre(std::pair(2, "{\"text\": \"a ] , \\\" \\\\\", \"of\": [1, {}]}"),
                      std::pair(4, "{\n    \"text\": \"b\"\n  }"), std::pair(6, "7"), std::pair(7, "[]\n")));
}

TEST_F(Documents, AreWholeFilesOfJsonThatHoldsNoRecords) {
  for (const char* json : {"{\"name\": \"a\"}", "{\"text\": {}}", " "})
    EXPECT_THAT(read("a.json", json), ElementsAre(std::pair(0, json)));
  EXPECT_THAT(read("a.txt", "[\"text\"]"), ElementsAre(std::pair(0, "[\"text\"]")));
}

TEST_F(Documents, AreTheElementsOfAListUnderAKey) {
  EXPECT_THAT(read("a.json",
                   "{\"version\": [1],\n\"data\": [\n{\"text\": \"a\"},\n{\"text\": \"b\"}], \"of\": []}\n"),
              ElementsAre(std::pair(3, "{\"text\": \"a\"}"), std::pair(4, "{\"text\": \"b\"}")));
}

TEST_F(Documents, AreObjectsOverSeveralLines) {
  EXPECT_THAT(read("a.json", "\n{\n\"text\": \"a }\"\n}\n{\"text\": \"b\"} \n\n{\n}\n"),
              ElementsAre(std::pair(2, "{\n\"text\": \"a }\"\n}"), std::pair(5, "{\"text\": \"b\"}"),
                          std::pair(7, "{\n}")));
  EXPECT_THAT(refusal([&] { read("a.json", "{\"text\":\n\"a\"}\n{\"text\": \n"); }),
              HasSubstr("a.json:3: the object ends nowhere"));
  EXPECT_THAT(refusal([&] { read("a.json", "{\"text\":\n\"a\"}\nmore"); }),
              HasSubstr("a.json:3: a JSON object is expected here"));
}

TEST_F(Documents, BeginBehindAByteOrderMark) {
  EXPECT_THAT(read("a.txt", "\xEF\xBB\xBFhi"), ElementsAre(std::pair(0, "hi")));
  EXPECT_THAT(read("a.jsonl", "\xEF\xBB\xBF\n{}"), ElementsAre(std::pair(2, "{}")));
}

TEST_F(Documents, OfABrokenArrayAreRefusedByTheirLine) {
  for (const auto& [json, complaint] :
       {std::pair("[{\"text\": \"a\"},\n {\"text\": \"b\"}", "a.json:2: the array of documents ends nowhere"),
        {"[{\"text\": \"a\"},\n {\"text\": \"b]", "a.json:2: the array of documents ends nowhere"},
        {"[{\"text\"", "a.json:1: the array of documents ends nowhere"},
        {"[{\"text\": \"a\"},", "a.json:1: the array of documents ends nowhere"},
        {"[{\"text\": \"a\"},\n\n]", "a.json:3: an element is missing"},
        {"[{\"text\": \"a\"}, ,\n {\"text\": \"b\"}]", "a.json:1: an element is missing"},
        {"[{\"text\": \"a\"},\n {\"text\": \"b\"}]\n[", "a.json:2: there is more behind the array"}})
    EXPECT_THAT(refusal([&, json = json] { read("a.json", json); }), HasSubstr(complaint)) << json;
}

TEST_F(Documents, OfAnArrayAreGoneOnWithAnywhere) {
  const std::vector<std::string> files = {
      corpus_.write("a.json", "[{\"text\": \"a\"},\n{\"text\": \"b\"} ,\n\n{\"text\": \"c\"}\n]\n"),
      corpus_.write("b.jsonl", "{\"text\": \"d\"}\n{\"text\": \"e\"}\n"),
      corpus_.write("c.json", "{\"data\": [{\"text\": \"f\"},\n{\"text\": \"g\"}]}"),
      corpus_.write("d.json", "{\"text\":\n\"h\"}\n{\"text\":\n\"i\"}")};
  std::vector<TextDocument> documents;
  std::vector<DocumentReader::Position> positions;
  DocumentReader reader(files);
  for (TextDocument next; reader.next(next);) {
    documents.push_back(next);
    positions.push_back(reader.position());
  }
  ASSERT_EQ(documents.size(), 9U);
  for (std::size_t i = 0; i + 1 < documents.size(); ++i) {
    DocumentReader other(files);
    other.go_to(positions[i]);
    TextDocument next;
    ASSERT_TRUE(other.next(next));
    EXPECT_EQ(next.place(), documents[i + 1].place());
    EXPECT_EQ(next.source, documents[i + 1].source);
    EXPECT_EQ(other.position(), positions[i + 1]);
  }
}

}  // namespace
}  // namespace strata
