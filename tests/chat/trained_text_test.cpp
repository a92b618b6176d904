// Which part of a conversation is trained.
#include "engine/chat/trained_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"

namespace strata::chat {
namespace {

using nlohmann::ordered_json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr const char* kPlain =
    "{% for m in messages %}<{{ m.role }}>{{ m.content }}</>{% endfor %}"
    "{% if add_generation_prompt %}<assistant>{% endif %}";

ordered_json conversation() {
  return ordered_json::parse(
      R"([{"role": "user", "content": "Grüße"}, {"role": "assistant", "content": "one"},
                                 {"role": "user", "content": "?"}, {"role": "assistant", "content": "two"}])");
}

std::vector<std::string> trained(const std::string& source, const ordered_json& messages) {
  const Rendering rendering = render_for_training(ChatTemplate::parse(source, "t"), messages);
  std::vector<std::string> parts;
  for (const auto& [begin, end] : rendering.generated)
    parts.push_back(rendering.text.substr(begin, end - begin));
  return parts;
}

std::string refusal_of(const std::string& source, const ordered_json& messages) {
  try {
    trained(source, messages);
    return "";
  } catch (const ConfigError& error) {
    return error.what();
  }
}

TEST(TrainedText, IsWhatEachAssistantMessageAddsBehindThePrompt) {
  EXPECT_THAT(trained(kPlain, conversation()), ElementsAre("one</>", "two</>"));
}

TEST(TrainedText, IsNothingWithoutTheAssistant) {
  EXPECT_TRUE(trained(kPlain, ordered_json::parse(R"([{"role": "user", "content": "x"}])")).empty());
}

TEST(TrainedText, MayBeginTheConversation) {
  EXPECT_THAT(trained(kPlain, ordered_json::parse(R"([{"role": "assistant", "content": "hello"}])")),
              ElementsAre("hello</>"));
}

TEST(TrainedText, IsNotToldWhereTheTemplateNeedsAMessageBeforeTheAssistants) {
  const std::string source =
      "{% if messages[0].role == 'system' %}{{ messages[0].content }}{% endif %}"
      "{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}";
  EXPECT_THAT(refusal_of(source, ordered_json::parse(R"([{"role": "assistant", "content": "hello"}])")),
              HasSubstr("messages[0]: the template cannot write what stands before a conversation that the "
                        "assistant begins (t: line 1: list object has no element 0): "));
}

TEST(TrainedText, IsWhatGenerationTagsMarkWhereThereAreAny) {
  const std::string source =
      "{% for m in messages %}{% if m.role == 'assistant' %}[{% generation %}{{ m.content }}!{% "
      "endgeneration %}]"
      "{% else %}{{ m.content }}{% endif %}{% endfor %}";
  EXPECT_THAT(trained(source, conversation()), ElementsAre("one!", "two!"));
}

TEST(TrainedText, IsNotToldWhereThePromptIsNotHowTheMessageBegins) {
  const std::string source =
      "{% for m in messages %}{{ m.content }}|{% endfor %}"
      "{% if add_generation_prompt %}<think>{% endif %}";
  EXPECT_THAT(
      refusal_of(source, conversation()),
      HasSubstr("messages[1]: what the template writes before this message, with the prompt to generate"));
}

TEST(TrainedText, IsNotToldWhereLaterMessagesChangeEarlierOnes) {
  const std::string source =
      "{% for m in messages %}<{{ m.role }}>{{ m.content if m.role == 'user' or loop.last else 'forgotten' }}"
      "{% endfor %}{% if add_generation_prompt %}<assistant>{% endif %}";
  EXPECT_THAT(refusal_of(source, conversation()),
              HasSubstr("messages[1]: the template writes the messages to this one in another way"));
  EXPECT_EQ(refusal_of(source, ordered_json::parse(R"([{"role": "user", "content": "x"},
                                                 {"role": "assistant", "content": "y"}])")),
            "");
}

}  // namespace
}  // namespace strata::chat
