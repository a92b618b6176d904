// Files of random records in twenty forms and five encodings: each is read as what it says, and counted, or
// refused.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <cstdlib>
#include <functional>
#include <random>

#include "base/file.h"
#include "base/json_text.h"
#include "engine/config/data_section.h"
#include "engine/input/data/token_cache.h"
#include "engine/input/text/utf8.h"
#include "tests/data/corpus.h"
#include "tests/support/source_folder.h"

namespace strata {
namespace {

using nlohmann::ordered_json;

/// A question and its answer, which every form of records can say.
struct Exchange {
  std::string question, answer;
};

enum class Meaning { talks, texts, one_text, refused };

/// A way to write exchanges to a file.
struct Form {
  const char* file;
  Meaning meaning;
  std::function<std::string(const std::vector<Exchange>&)> write;
};

ordered_json message(const char* role, const std::string& content) {
  return ordered_json::object({{"role", std::string(role)}, {"content", content}});
}
ordered_json talk(const Exchange& of) {
  return {{"id", 7}, {"messages", {message("user", of.question), message("assistant", of.answer)}}};
}
ordered_json sharegpt(const Exchange& of) {
  const auto turn = [](const char* from, const std::string& value) {
    return ordered_json::object({{"from", std::string(from)}, {"value", value}});
  };
  return {{"conversations", {turn("human", of.question), turn("gpt", of.answer)}}, {"source", "web"}};
}
ordered_json alpaca(const Exchange& of) {
  return {{"instruction", of.question}, {"input", ""}, {"output", of.answer}};
}
ordered_json trl(const Exchange& of) {
  return {{"prompt", ordered_json::array({message("user", of.question)})},
          {"completion", ordered_json::array({message("assistant", of.answer)})}};
}
ordered_json text(const Exchange& of) {
  return {{"text", of.question + " " + of.answer}};
}

using Write = std::function<std::string(const std::vector<Exchange>&)>;
using One = ordered_json (*)(const Exchange&);

Write lines(One one, const std::string& between = "\n") {
  return [=](const std::vector<Exchange>& exchanges) {
    std::string all;
    for (const Exchange& each : exchanges) all += one(each).dump() + between;
    return all;
  };
}
ordered_json list(One one, const std::vector<Exchange>& exchanges) {
  ordered_json all = ordered_json::array();
  for (const Exchange& each : exchanges) all.push_back(one(each));
  return all;
}
Write array(One one, int indent) {
  return [=](const std::vector<Exchange>& exchanges) { return list(one, exchanges).dump(indent); };
}
Write under_key(One one, int indent) {
  return [=](const std::vector<Exchange>& exchanges) {
    return ordered_json{{"version", "1"}, {"data", list(one, exchanges)}}.dump(indent);
  };
}
Write separated(char separator) {
  return [=](const std::vector<Exchange>& exchanges) {
    std::string all = fmt::format("question{0}answer{0}id\n", separator);
    for (int i = 0; i < 4; ++i)
      for (const Exchange& each : exchanges)
        all += fmt::format("{}{}{}{}7\n", each.question, separator, each.answer, separator);
    return all;
  };
}

std::string prose(const std::vector<Exchange>& exchanges) {
  std::string all;
  for (const Exchange& each : exchanges) all += each.question + "? " + each.answer + ".\n\n";
  return all;
}

std::vector<Form> forms() {
  return {
      {"a.jsonl", Meaning::talks, lines(talk)},
      {"a.ndjson", Meaning::talks, lines(sharegpt)},
      {"a.jsonlines", Meaning::talks, lines(alpaca, "\r\n")},
      {"a.json", Meaning::talks, lines(trl, "\n\n")},
      {"a.txt", Meaning::talks, lines(talk)},
      {"a.json", Meaning::talks, array(alpaca, 1)},
      {"a.json", Meaning::talks, array(sharegpt, -1)},
      {"a.data", Meaning::talks, under_key(talk, 2)},
      {"a.jsonl", Meaning::talks, under_key(alpaca, -1)},
      {"a.json", Meaning::talks,
       [](const std::vector<Exchange>& exchanges) {
         std::string all = "\n";
         for (const Exchange& each : exchanges) all += sharegpt(each).dump(2) + "\n";
         return all;
       }},
      {"a.json", Meaning::texts, lines(text)},
      {"a", Meaning::texts, array(text, 4)},
      {"a.txt", Meaning::one_text, prose},
      {"a.h", Meaning::one_text,
       [](const std::vector<Exchange>& exchanges) {
         return "// " + prose(exchanges) + "\nint a[] = {1, 2};\n";
       }},
      {"package.json", Meaning::one_text,
       [](const std::vector<Exchange>& exchanges) {
         return ordered_json{{"name", exchanges[0].question}, {"files", {exchanges[0].answer}}}.dump(2);
       }},
      {"a.csv", Meaning::refused, separated(',')},
      {"a.tsv", Meaning::refused, separated('\t')},
      {"a.txt", Meaning::refused, separated('\t')},
      {"a.json", Meaning::refused,
       [](const std::vector<Exchange>& exchanges) {
         return ordered_json::array({exchanges[0].question, exchanges[0].answer}).dump();
       }},
      {"a.json", Meaning::refused, lines([](const Exchange& of) {
         return ordered_json{{"unknown", of.answer}, {"x", 1}};
       })},
  };
}

enum class Encoding { utf8, utf8_marked, utf16_little, utf16_big, latin1 };
constexpr std::array kEncodings = {Encoding::utf8, Encoding::utf8_marked, Encoding::utf16_little,
                                   Encoding::utf16_big, Encoding::latin1};

/// UTF-16 without a byte order mark if it is big-endian.
std::string encoded_as(Encoding encoding, const std::string& utf8) {
  if (encoding == Encoding::utf8) return utf8;
  if (encoding == Encoding::utf8_marked) return "\xEF\xBB\xBF" + utf8;
  std::string bytes = encoding == Encoding::utf16_little ? "\xFF\xFE" : "";
  text::for_each_character(utf8, [&](char32_t point, std::size_t, std::size_t) {
    const char low = static_cast<char>(point & 0xff), high = static_cast<char>(point >> 8);
    if (encoding == Encoding::utf16_big) bytes += high;
    bytes += low;
    if (encoding == Encoding::utf16_little) bytes += high;
  });
  return bytes;
}

class RandomDocuments : public ::testing::Test {
 protected:
  RandomDocuments() {
    const std::filesystem::path tests = test::source_folder() / "tests";
    std::filesystem::create_directories(corpus_.path("model"));
    std::filesystem::copy_file(tests / "text/goldens/gpt2.tokenizer.json",
                               corpus_.path("model/tokenizer.json"));
    std::filesystem::copy_file(tests / "chat/templates/chatml_generation.jinja",
                               corpus_.path("model/chat_template.jinja"));
    corpus_.write("model/tokenizer_config.json", R"({"eos_token": "<|endoftext|>"})");
    data_.tokenizer = Tokenizer::automatic;
    data_.tokenizer_path = corpus_.path("model");
    data_.cache = corpus_.path("cache");
  }

  /// Words of Latin-1's letters, so that every encoding can say them.
  std::vector<Exchange> exchanges(std::mt19937& random) const {
    const auto words = [&] {
      constexpr std::array kWords = {"what", "gr\u00fcn", "\u00e7a", "boat", "{", "\"so\"", "text", "7"};
      std::string all = "a";
      for (unsigned i = random() % 6; i > 0; --i) all += std::string(" ") + kWords[random() % kWords.size()];
      return all;
    };
    std::vector<Exchange> all(5 + random() % 4);
    for (Exchange& each : all) each = {words(), words()};
    return all;
  }

  /// Ids and marks of what a run reads.
  std::pair<std::string, std::string> read(const std::string& file, DocumentsRead& documents) const {
    const CachedTokens made = cached_tokens(data_, std::vector{file}, 1);
    documents = made.read;
    const std::filesystem::path marks = std::filesystem::path(made.file).replace_extension(".trained");
    return {read_file(made.file), is_there(marks) ? read_file(marks) : ""};
  }

  void try_form(const Form& form, Encoding encoding, const std::vector<Exchange>& exchanges) {
    const std::string content = form.write(exchanges);
    const std::string file = corpus_.write(form.file, encoded_as(encoding, content));
    SCOPED_TRACE(fmt::format("encoding {}: {}", static_cast<int>(encoding), content));
    const bool is_wide = encoding == Encoding::utf16_little || encoding == Encoding::utf16_big;
    const bool is_text = form.meaning == Meaning::one_text;
    const bool is_broken = encoding == Encoding::latin1 && !text::is_ascii(content);
    const std::string of_bytes = refusal([&] { open_text(file); });
    EXPECT_EQ(of_bytes == "accepted", is_text && !is_wide) << of_bytes;
    DocumentsRead documents;
    if (is_wide || form.meaning == Meaning::refused || (is_broken && !is_text)) {
      EXPECT_NE(refusal([&] { read(file, documents); }), "accepted");
      return;
    }
    const auto [ids, marks] = read(file, documents);
    EXPECT_EQ(documents.all(), is_text ? 1 : std::ssize(exchanges));
    EXPECT_EQ(documents.byte_order_marks, encoding == Encoding::utf8_marked ? 1 : 0);
    EXPECT_EQ(documents.replaced > 0, is_broken);
    EXPECT_EQ(marks.empty(), form.meaning != Meaning::talks);
    if (form.meaning == Meaning::talks) {
      DocumentsRead plain;
      const auto expected = read(corpus_.write("plain.jsonl", lines(talk)(exchanges)), plain);
      EXPECT_EQ(std::pair(ids, marks), expected);
    }
  }

  Corpus corpus_;
  DataSection data_;
};

/// STRATA_TEST_DOCUMENTS is how many times each is tried.
TEST_F(RandomDocuments, AreReadAsWhatTheySayOrRefused) {
  const char* more = std::getenv("STRATA_TEST_DOCUMENTS");  // NOLINT(concurrency-mt-unsafe)
  const int times = more != nullptr ? std::atoi(more) : 1;
  std::mt19937 random(54);
  for (int i = 0; i < times && !HasFailure(); ++i) {
    for (const Form& form : forms())
      for (const Encoding encoding : kEncodings) try_form(form, encoding, exchanges(random));
  }
}

}  // namespace
}  // namespace strata
