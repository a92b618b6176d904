// Which part of a conversation is trained.
#include "engine/input/chat/trained_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <random>

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

TEST(TrainedText, MayBeginTheConversationOfATemplateThatAsksForMore) {
  const std::string source =
      "{% if messages[0].role == 'system' %}{{ messages[0].content }}{% endif %}"
      "{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}";
  EXPECT_THAT(trained(source, ordered_json::parse(R"([{"role": "assistant", "content": "hello"}])")),
              ElementsAre("hello"));
}

TEST(TrainedText, IsWhatGenerationTagsMarkWhereThereAreAny) {
  const std::string source =
      "{% for m in messages %}{% if m.role == 'assistant' %}[{% generation %}{{ m.content }}!{% "
      "endgeneration %}]"
      "{% else %}{{ m.content }}{% endif %}{% endfor %}";
  EXPECT_THAT(trained(source, conversation()), ElementsAre("one!", "two!"));
}

TEST(TrainedText, BeginsWithTheMessagesTextWhereThePromptIsNotHowItBegins) {
  const std::string source =
      "{% for m in messages %}<{{ m.role }}>{{ m.content }}|{% endfor %}"
      "{% if add_generation_prompt %}<assistant><think>{% endif %}";
  EXPECT_THAT(trained(source, conversation()), ElementsAre("one|", "two|"));
}

TEST(TrainedText, MayBeWrittenByTheMessagesNumbers) {
  const std::string source =
      "{% for i in range(messages|length) %}<{{ messages[i].role }}>{{ messages[i].content }}</>{% endfor %}"
      "{% if add_generation_prompt %}<assistant>{% endif %}";
  EXPECT_THAT(trained(source, conversation()), ElementsAre("one</>", "two</>"));
}

TEST(TrainedText, IsNotToldWhereTheTemplateWritesAMessageTwice) {
  const std::string source =
      "{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}"
      "{% for m in messages if m.role == 'assistant' %}{{ m.content }}{% endfor %}"
      "{% if add_generation_prompt %}<assistant>{% endif %}";
  EXPECT_THAT(refusal_of(source, conversation()), HasSubstr("messages[1]: "));
}

TEST(TrainedText, HasNothingThatOthersSayInThePassOfTheMessage) {
  // The pass of a message writes the answers of tools that follow, too.
  const std::string source =
      "{% for m in messages if m.role != 'tool' %}<{{ m.role }}>{{ m.content }}"
      "{% if loop.index < messages|length and messages[loop.index].role == 'tool' %}"
      "[{{ messages[loop.index].content }}]{% endif %}</>{% endfor %}"
      "{% if add_generation_prompt %}<assistant>{% endif %}";
  EXPECT_THAT(refusal_of(source, ordered_json::parse(R"([{"role": "user", "content": "a"},
                  {"role": "assistant", "content": "b"}, {"role": "tool", "content": "c"}])")),
              HasSubstr("messages[1]: "));
}

/// Took a minute when the template was rendered twice for each message.
TEST(TrainedText, IsFoundInTimeLinearInTheTurns) {
  ordered_json messages = ordered_json::array();
  for (int i = 0; i < 3000; ++i) {
    messages.push_back({{"role", "user"}, {"content", std::string(100, 'x')}});
    messages.push_back({{"role", "assistant"}, {"content", std::string(100, 'y')}});
  }
  const auto begun = std::chrono::steady_clock::now();
  const std::vector<std::string> parts = trained(kPlain, messages);
  EXPECT_LT(std::chrono::steady_clock::now() - begun, std::chrono::seconds(10));
  ASSERT_EQ(parts.size(), 3000U);
  for (const std::string& part : parts) ASSERT_EQ(part, std::string(100, 'y') + "</>");
}

/// A template, and a writer of the same text that knows what of it is the assistant's.
class Written {
 public:
  Written& add(const std::string& text) {
    rendering_.text += text;
    return *this;
  }
  Written& add_said(const std::string& text) {
    rendering_.generated.push_back({rendering_.text.size(), rendering_.text.size() + text.size()});
    return add(text);
  }
  const Rendering& rendering() const { return rendering_; }

 private:
  Rendering rendering_;
};

struct Turn {
  std::string role, content;
  bool is_last, is_last_question;
};

struct TemplateForm {
  const char* name;
  const char* source;
  std::function<void(Written&, const Turn&)> write;
  const char* begin = "";
};

const std::vector<TemplateForm>& forms() {
  static const std::vector<TemplateForm> forms = {
      {"an end behind the conversation, as Phi-3's",
       "{% for m in messages %}<|{{ m.role }}|>\n{{ m.content }}<|end|>\n{% endfor %}"
       "{% if add_generation_prompt %}<|assistant|>\n{% else %}<|endoftext|>{% endif %}",
       [](Written& out, const Turn& turn) {
         out.add("<|" + turn.role + "|>\n");
         const std::string end = "<|end|>\n", all = turn.is_last ? "<|endoftext|>" : "";
         turn.role == "assistant" ? out.add_said(turn.content + end + all)
                                  : out.add(turn.content + end + all);
       }},
      {"thoughts in the last turn, as Qwen3's",
       "{% for m in messages %}<|im_start|>{{ m.role }}\n{% if m.role == 'assistant' and loop.last "
       "%}<think>\n\n"
       "</think>\n\n{% endif %}{{ m.content }}<|im_end|>\n{% endfor %}"
       "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}",
       [](Written& out, const Turn& turn) {
         out.add("<|im_start|>" + turn.role + "\n");
         const std::string thoughts = turn.is_last ? "<think>\n\n</think>\n\n" : "",
                           said = turn.content + "<|im_end|>\n";
         turn.role == "assistant" ? out.add_said(thoughts + said) : out.add(said);
       }},
      {"a prompt to think, and answers without thoughts, as DeepSeek-R1's",
       "{% for m in messages %}{% if m.role == 'assistant' %}<|A|>{{ m.content.split('</think>')[-1] "
       "}}<|end|>"
       "{% else %}<|U|>{{ m.content }}{% endif %}{% endfor %}{% if add_generation_prompt %}<|A|><think>\n{% "
       "endif %}",
       [](Written& out, const Turn& turn) {
         if (turn.role != "assistant") return void(out.add("<|U|>" + turn.content));
         out.add("<|A|>").add_said(turn.content + "<|end|>");
       }},
      {"a word before the last question, as Mistral's system prompt",
       "<s>{% set ns = namespace(last=0) %}{% for m in messages if m.role == 'user' %}{% set ns.last = "
       "ns.last + 1 %}"
       "{% endfor %}{% set at = namespace(n=0) %}{% for m in messages %}{% if m.role == 'user' %}"
       "{% set at.n = at.n + 1 %}[INST] {% if at.n == ns.last %}Be brief.\n\n{% endif %}{{ m.content "
       "}}[/INST]"
       "{% else %} {{ m.content }}</s>{% endif %}{% endfor %}",
       [](Written& out, const Turn& turn) {
         if (turn.role == "assistant") return void(out.add_said(" " + turn.content + "</s>"));
         out.add("[INST] ").add(turn.is_last_question ? "Be brief.\n\n" : "").add(turn.content + "[/INST]");
       },
       "<s>"},
      {"empty lines between messages, as Alpaca's",
       "{% for m in messages %}### {{ m.role }}:\n{{ m.content }}{% if m.role == 'assistant' %}</s>{% endif "
       "%}"
       "{% if not loop.last %}{{ '\n\n' }}{% endif %}{% endfor %}"
       "{% if add_generation_prompt %}{{ '\n\n' }}### assistant:\n{% endif %}",
       [](Written& out, const Turn& turn) {
         out.add("### " + turn.role + ":\n");
         turn.role == "assistant" ? out.add_said(turn.content + "</s>") : out.add(turn.content);
         out.add(turn.is_last ? "" : "\n\n");
       }}};
  return forms;
}

/// What the assistant says is found exactly, whatever it says: the prompts' own words, too.
TEST(TrainedText, IsWhatRandomConversationsSay) {
  std::mt19937 random(54);
  const auto below = [&](std::size_t end) {
    return std::uniform_int_distribution<std::size_t>(0, end - 1)(random);
  };
  const std::vector<std::string> words = {
      "yes",     "<|",   "<|end|>\n", "assistant", "user", "\n",    " ", "### user:\n", "<t", "<|im_start|>",
      "[INST] ", "</s>", "Grüße",     "<b>",       "</b>", "<|A|>", "<"};
  for (int i = 0; i < 1500; ++i) {
    const TemplateForm& form = forms()[below(forms().size())];
    const std::size_t turns = 1 + below(5);
    ordered_json messages = ordered_json::array();
    Written expected;
    expected.add(form.begin);
    for (std::size_t turn = 0; turn < turns; ++turn) {
      for (const std::string role : {"user", "assistant"}) {
        std::string content;
        for (std::size_t count = 1 + below(4); count > 0; --count) content += words[below(words.size())];
        const bool is_last = turn + 1 == turns;
        messages.push_back({{"role", role}, {"content", content}});
        form.write(expected, {role, content, is_last && role == "assistant", is_last});
      }
    }
    const Rendering found = render_for_training(ChatTemplate::parse(form.source, "t"), messages);
    ASSERT_EQ(found.text, expected.rendering().text) << form.name;
    ASSERT_EQ(found.generated, expected.rendering().generated) << form.name << ": " << messages;
  }
}

}  // namespace
}  // namespace strata::chat
