// Goldens: what the package transformers renders of conversations by the templates in templates/, and of
// small templates for single features (make_goldens.py).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/file.h"
#include "engine/input/chat/chat_template.h"
#include "engine/input/chat/trained_text.h"
#include "tests/support/source_folder.h"

namespace strata::chat {
namespace {

using nlohmann::ordered_json;
using ::testing::EndsWith;

const SpecialTokens kSpecialTokens = {
    {"bos_token", "<s>"}, {"eos_token", "</s>"}, {"unk_token", "<unk>"}, {"pad_token", "<pad>"}};

ordered_json read_golden(const std::string& name) {
  return ordered_json::parse(read_file(test::source_folder() / "tests/chat/goldens" / name));
}

ordered_json spans_of(const Rendering& rendering) {
  ordered_json spans = ordered_json::array();
  for (const auto& [begin, end] : rendering.generated) spans.push_back({begin, end});
  return spans;
}

/// Runs `render` and compares what it gives, or why it refuses, with the golden.
template <typename Render>
void expect_equal(const Render& render, const ordered_json& expected, const std::string& what) {
  try {
    const Rendering rendering = render();
    ASSERT_FALSE(expected.contains("error")) << what << " gives " << rendering.text;
    EXPECT_EQ(rendering.text, expected.at("text").get<std::string>()) << what;
    EXPECT_EQ(spans_of(rendering), expected.at("spans")) << what;
  } catch (const ConfigError& error) {
    ASSERT_TRUE(expected.contains("error")) << what << ": " << error.what();
    EXPECT_THAT(error.what(), EndsWith(expected.at("error").get<std::string>())) << what;
  }
}

class Conversations : public testing::TestWithParam<const char*> {
 protected:
  static RenderOptions options_of(const ordered_json& golden) {
    static const ordered_json tools = read_golden("tools.json");
    RenderOptions options{.add_generation_prompt = golden.value("add_generation_prompt", false),
                          .tools = {},
                          .variables = golden.value("variables", ordered_json::object()),
                          .now_seconds = {},
                          .limits = {}};
    if (!golden.contains("tools")) return options;
    for (const ordered_json& number : golden.at("tools"))
      options.tools.push_back(tools.at(number.get<std::size_t>()));
    return options;
  }

  const std::string name_ = GetParam();
  const ChatTemplate template_ = ChatTemplate::parse(
      read_file(test::source_folder() / "tests/chat/templates" / (name_ + ".jinja")), name_, kSpecialTokens);
  const ordered_json goldens_ = read_golden(name_ + ".json");
};

// Invariant of data (Conversations.*): Conversations have the text of the original. Texts and trained spans
// equal those that transformers renders. A wrong or hostile template gets a sentence with its line.
TEST_P(Conversations, HaveTheTextOfTheOriginal) {
  for (const ordered_json& golden : goldens_) {
    expect_equal([&] { return template_.render(golden.at("messages"), options_of(golden)); },
                 golden.at("expected"), golden.at("messages").dump());
  }
}

TEST_P(Conversations, AreTrainedWhereTheirPrefixesSay) {
  for (const ordered_json& golden : goldens_) {
    const ordered_json& trained = golden.at("trained");
    if (golden.contains("add_generation_prompt")) continue;
    const auto render = [&] {
      return render_for_training(template_, golden.at("messages"), options_of(golden));
    };
    if (trained.is_null()) {
      EXPECT_THROW(render(), ConfigError) << golden;
      continue;
    }
    const ordered_json spans = spans_of(render());
    ASSERT_EQ(spans.size(), trained.size()) << golden;
    // A null is a message whose span prefixes do not tell.
    for (std::size_t i = 0; i < trained.size(); ++i) {
      if (!trained[i].is_null()) {
        EXPECT_EQ(spans[i], trained[i]) << golden;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Templates, Conversations,
                         testing::Values("chatml", "chatml_generation", "deepseek", "gemma", "llama3_tools",
                                         "macros", "mistral", "phi", "qwen_thinking"),
                         [](const auto& info) { return std::string(info.param); });

Rendering render_small(const ordered_json& source, const ordered_json& variables) {
  RenderOptions options;
  options.variables = variables;
  return ChatTemplate::parse(source.get<std::string>(), "t").render(ordered_json::array(), options);
}

TEST(Features, GiveTheTextsOfTheOriginal) {
  for (const ordered_json& golden : read_golden("features.json")) {
    expect_equal([&] { return render_small(golden[0], golden[1]); }, golden[2], golden[0].dump());
  }
}

TEST(RandomTemplates, GiveTheTextsOfTheOriginal) {
  const ordered_json goldens = read_golden("random.json");
  for (std::size_t i = 1; i < goldens.size(); ++i) {
    ordered_json expected = {{"text", goldens[i][1]}, {"spans", ordered_json::array()}};
    if (goldens[i][1].is_null()) expected = {{"error", ""}};
    expect_equal([&] { return render_small(goldens[i][0], goldens[0]); }, expected, goldens[i][0].dump());
  }
}

}  // namespace
}  // namespace strata::chat
