// What files hold, by content and name: records are found wherever they are, data in other forms is refused,
// and source code and prose are texts.
#include "engine/input/data/document_form.h"

#include <gmock/gmock.h>

#include <string>

#include "engine/config/choices.h"
#include "engine/input/data/file_pattern.h"
#include "tests/data/corpus.h"

namespace strata {
namespace {

using ::testing::HasSubstr;

class DocumentForms : public ::testing::Test {
 protected:
  DocumentForm form(const std::string& name, const std::string& content,
                    const DocumentOptions& options = {}) const {
    return layout_of_documents(MappedFile(corpus_.write(name, content)), options).form;
  }
  std::string refused(const std::string& name, const std::string& content,
                      const DocumentOptions& options = {}) const {
    return refusal([&] { form(name, content, options); });
  }

  Corpus corpus_;
};

const std::string kTalk = R"({"messages": [{"role": "user", "content": "hi"}]})";

TEST_F(DocumentForms, OfRecordsAreFoundInAnyFile) {
  const std::string lines = kTalk + "\n" + kTalk + "\n";
  for (const char* name : {"a.json", "a.ndjson", "a.jsonlines", "a.jsonl", "a.txt", "a"}) {
    EXPECT_EQ(form(name, lines), DocumentForm::lines) << name;
    EXPECT_EQ(form(name, "\xEF\xBB\xBF\n" + lines), DocumentForm::lines) << name;
    EXPECT_EQ(form(name, R"({"any": 1})" + std::string("\n") + R"({"any": 2})"), DocumentForm::lines) << name;
    EXPECT_EQ(form(name, "[" + kTalk + "]"), DocumentForm::array) << name;
    EXPECT_EQ(form(name, R"({"data": [)" + kTalk + "]}"), DocumentForm::array) << name;
    EXPECT_EQ(form(name, R"({"data": [{"any": 1}]})"), DocumentForm::array) << name;
    EXPECT_EQ(form(name, R"({"version": 2, "data": [)" + kTalk + R"(], "of": {}})"), DocumentForm::array)
        << name;
    EXPECT_EQ(form(name, kTalk), DocumentForm::lines) << name;
    EXPECT_EQ(form(name, "{\n\"text\": \"a\"\n}\n{\n\"text\": \"b\"}"), DocumentForm::values) << name;
  }
  EXPECT_EQ(form("a.json", R"({"conversations": [{"from": "human", "value": "hi"}]})"), DocumentForm::lines);
  EXPECT_EQ(form("a.json", R"({"instruction": "do", "input": "", "output": "done"})"), DocumentForm::lines);
  for (const char* name : {"a.ndjson", "a.jsonlines", "a.JSONL"})
    EXPECT_EQ(form(name, "no JSON"), DocumentForm::lines) << name;
}

TEST_F(DocumentForms, OfSourceCodeAndProseAreTexts) {
  for (const auto& [name, text] :
       {std::pair("package.json", R"({"name": "a", "authors": [{"name": "b"}], "text": {"a": 1}})"),
        {"notebook.ipynb", R"({"cells": [{"source": ["a"]}], "metadata": {}, "nbformat": 4})"},
        {"a.md", "{\"title\": \"front matter\"}\n\nA text behind it."},
        {"a.txt", "[1] a reference\n{and more}"},
        {"a.txt", "{{ template }}"},
        {"a.txt", "{% for a in b %}"},
        {"a.py", "[{'a': 1}]"},
        {"a.cpp", "{\n  \"not a key\"\n}"},
        {"a.h", "#pragma once\n\t\tint a;\n\t\tint b;\n"},
        {"a.txt", "PARIS is a city, and PA is a state."},
        {"a.txt", ""},
        {"a.json", " "}})
    EXPECT_EQ(form(name, text), DocumentForm::text) << name << ": " << text;
}

TEST_F(DocumentForms, OfTheQuickstartAndOfTheStandardLibrarysHeadersAreTexts) {
  for (const std::string pattern : {STRATA_SOURCE_DIR "/examples/text/*.txt", "/usr/include/c++/**/*"}) {
    for (const std::string& file : expand_pattern(pattern))
      EXPECT_EQ(layout_of_documents(MappedFile(file)).form, DocumentForm::text) << file;
  }
}

TEST_F(DocumentForms, OfTablesAndOtherDataAreRefused) {
  std::string tabs;
  for (int i = 0; i < 20; ++i) tabs += "a\tb\tc\n";
  for (const auto& [name, content, what] :
       {std::tuple("a.csv", std::string("a,b\n1,2\n"), "a table of comma-separated values"),
        {"a.TSV", std::string("a\tb\n"), "a table of tab-separated values"},
        {"a.txt", tabs, "its first 20 lines have one number of tabs"},
        {"train", std::string("PAR1\0\0", 6), "a Parquet table"},
        {"a.txt.gz", std::string("\x1f\x8b\x08"), "compressed (gzip)"},
        {"a.zip", std::string("PK\x03\x04"), "a zip archive"},
        {"a.txt", std::string("\xff\xfe", 2) + std::string("a\0", 2), "text in UTF-16"},
        {"a.txt", std::string("w\0i\0d\0e\0 \0t\0e\0x\0t\0", 18), "text in UTF-16"}}) {
    EXPECT_THAT(refused(name, content), HasSubstr(what));
    EXPECT_EQ(form(name, content, {.format = DataFormat::text}), DocumentForm::text) << name;
  }
  tabs.replace(tabs.size() - 3, 1, " ");
  EXPECT_EQ(form("a.txt", tabs), DocumentForm::text);
}

TEST_F(DocumentForms, OfJsonThatSaysNotWhatIsTrainedOnAreRefused) {
  EXPECT_THAT(refused("a.json", R"(["a", "b"])"), HasSubstr("its array has no objects"));
  EXPECT_THAT(refused("a.json", R"({"train": [)" + kTalk + R"(], "test": [)" + kTalk + "]}"),
              HasSubstr(R"(lists of records under "train" and "test")"));
}

TEST_F(DocumentForms, AreThoseThatTheRunFileSays) {
  EXPECT_EQ(form("a.jsonl", kTalk, {.format = DataFormat::text}), DocumentForm::text);
  EXPECT_EQ(form("a.json", R"({"any": 1})", {.format = DataFormat::records}), DocumentForm::lines);
  EXPECT_THAT(refused("a.txt", "prose", {.format = DataFormat::records}),
              HasSubstr("data.format is records, and the file begins with no JSON object"));
  const DocumentOptions named = {.fields = RecordFields(RecordFields::Names{{"text", "body"}})};
  EXPECT_EQ(form("a.json", R"({"body": "a"})", named), DocumentForm::lines);
  EXPECT_EQ(form("a.json", R"({"body": "a"})"), DocumentForm::text);
}

TEST_F(DocumentForms, OfFilesWhoseBytesAreTokensMustBeTexts) {
  const std::string file = corpus_.write("a.json", kTalk + "\n" + kTalk);
  EXPECT_THAT(refusal([&] { open_text(file); }), HasSubstr("it holds JSON records"));
  EXPECT_THAT(refusal([&] { open_text(corpus_.write("a.csv", "1,2")); }), HasSubstr("comma-separated"));
  EXPECT_EQ(open_text(file, DataFormat::text).ids, 2 * std::ssize(kTalk) + 1);
  const TokenSegment marked = open_text(corpus_.write("a.txt", "\xEF\xBB\xBFhi"));
  EXPECT_EQ(marked.tokens(), 3);
  EXPECT_EQ(TokenSource({marked}, 256).byte_order_marks(), 1);
}

}  // namespace
}  // namespace strata
