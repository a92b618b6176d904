// What holds of every template, whatever the original says.
#include <gtest/gtest.h>

#include <random>
#include <thread>

#include "base/error.h"
#include "base/file.h"
#include "engine/input/chat/chat_template.h"
#include "engine/input/chat/meter.h"
#include "engine/input/chat/text_operations.h"
#include "engine/input/text/utf8.h"
#include "tests/support/source_folder.h"

namespace strata::chat {
namespace {

using nlohmann::ordered_json;

const ordered_json kMessages = ordered_json::parse(
    R"([{"role": "system", "content": "s"}, {"role": "user", "content": "Grüße 🙂"}, {"role": "assistant", "content": "a"}])");

/// What a template gives, or why it is refused. Anything but a ConfigError is a failure.
std::string outcome(const std::string& source) {
  RenderOptions options;
  options.limits = {.steps = 20'000, .bytes = 1'000'000, .depth = 400};
  options.now_seconds = 0;
  try {
    return ChatTemplate::parse(source, "t").render(kMessages, options).text;
  } catch (const ConfigError& error) {
    return error.what();
  }
}

std::vector<std::string> words() {
  return {"{{",        "}}",    "{%",       "%}",       "{%-",       "-%}",    "{#",         "#}",
          "for",       "in",    "if",       "else",     "endif",     "endfor", "set",        "=",
          "macro",     "call",  "endmacro", "messages", "loop",      ".",      "index",      "(",
          ")",         "[",     "]",        "{",        "}",         ",",      ":",          "|",
          "tojson",    "join",  "map",      "'role'",   "\"x\"",     "1",      "-1",         "2.5",
          "+",         "~",     "*",        "**",       "%",         "//",     "not",        "and",
          "or",        "is",    "defined",  "string",   "namespace", "ns",     "x",          "content",
          "split",     "range", "none",     "true",     "==",        "<",      "generation", "endgeneration",
          "recursive", "\n",    "é",        " ",        "caller"};
}

TEST(AnyTemplate, IsRenderedOrRefused) {
  std::mt19937 random(1);
  const std::vector<std::string> all = words();
  for (int i = 0; i < 20'000; ++i) {
    std::string source = random() % 2 == 0 ? "{{ " : "{% ";
    for (std::size_t count = random() % 12; count > 0; --count) source += all[random() % all.size()] + " ";
    source += random() % 2 == 0 ? "}}" : "%}";
    const std::string once = outcome(source);
    EXPECT_EQ(outcome(source), once) << source;
    std::string buffer;
    EXPECT_EQ(text::make_valid(once, buffer).data(), once.data()) << source;
  }
}

/// A real template with some characters changed.
TEST(AnyTemplate, IsRenderedOrRefusedWhenItIsDamaged) {
  std::mt19937 random(2);
  for (const char* name : {"macros", "mistral", "qwen_thinking", "llama3_tools"}) {
    const std::string whole =
        read_file(test::source_folder() / "tests/chat/templates" / (std::string(name) + ".jinja"));
    for (int i = 0; i < 300; ++i) {
      std::string source = whole;
      for (std::size_t count = 1 + random() % 3; count > 0; --count) {
        const std::size_t at = random() % source.size(), from = random() % source.size();
        source.replace(at, random() % 9, source.substr(from, random() % 12));
      }
      outcome(source);
    }
  }
}

TEST(AnyTemplate, RendersTheSameFromManyThreads) {
  const ChatTemplate chat_template =
      ChatTemplate::parse(read_file(test::source_folder() / "tests/chat/templates/macros.jinja"), "macros");
  const std::string expected = chat_template.render(kMessages).text;
  std::vector<std::string> texts(4);
  {
    std::vector<std::jthread> threads;
    threads.reserve(texts.size());
    for (std::string& text : texts) {
      threads.emplace_back([&] {
        for (int i = 0; i < 50; ++i) text = chat_template.render(kMessages).text;
      });
    }
  }
  for (const std::string& text : texts) EXPECT_EQ(text, expected);
}

TEST(PlainText, IsItself) {
  std::mt19937 random(3);
  constexpr std::u32string_view kCharacters = U"ab {}%#.é世";
  for (int i = 0; i < 300; ++i) {
    std::string text;
    for (int count = 0; count < 30; ++count)
      text::append_character(text, kCharacters[random() % kCharacters.size()]);
    const auto has = [&](const char* tag) { return text.find(tag) != std::string::npos; };
    if (!has("{{") && !has("{%") && !has("{#")) {
      EXPECT_EQ(outcome(text), text);
    }
    EXPECT_EQ(outcome("{% raw %}" + text + "{% endraw %}"), text);
  }
}

TEST(TextOperations, SplitWhatTheyJoin) {
  const Meter meter{Limits{}};
  std::mt19937 random(4);
  for (int i = 0; i < 500; ++i) {
    std::string text;
    for (std::size_t count = random() % 20; count > 0; --count) text += "ab, "[random() % 4];
    for (const Side side : {Side::left, Side::right}) {
      const auto parts = split_at(meter, text, ",", static_cast<std::int64_t>(random() % 5) - 1, side);
      std::string joined(parts[0]);
      for (std::size_t part = 1; part < parts.size(); ++part) joined.append(",").append(parts[part]);
      EXPECT_EQ(joined, text);
    }
  }
}

}  // namespace
}  // namespace strata::chat
