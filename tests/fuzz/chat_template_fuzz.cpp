// A chat template, and behind a line "--" the messages as JSON.
#include "base/json_text.h"
#include "engine/input/chat/chat_template.h"
#include "engine/input/chat/trained_text.h"
#include "tests/fuzz/target.h"

namespace strata::fuzz {
namespace {

constexpr std::string_view kMessages =
    R"([{"role": "system", "content": "s"}, {"role": "user", "content": "Grüße, 世界"},
        {"role": "assistant", "content": null, "tool_calls": [{"function": {"name": "f", "arguments": {"a": 1.5}}}]},
        {"role": "tool", "content": "4"}, {"role": "assistant", "content": " a\nb ", "reasoning": "r"}])";

void render_template(std::string_view input) {
  const chat::ChatTemplate chat_template =
      chat::ChatTemplate::parse(next_part(input), "t", {{"bos_token", "<s>"}});
  // The budget of a file's JSON, whose keys are sorted there.
  const nlohmann::ordered_json messages = parse_json(input.empty() ? kMessages : input, "messages");
  chat::RenderOptions options;
  options.tools = nlohmann::ordered_json::parse(R"([{"name": "f", "parameters": {"type": "object"}}])");
  options.now_seconds = 0;
  options.limits = {.steps = 100'000, .bytes = 10'000'000, .depth = 400};
  const chat::Rendering rendering = chat_template.render(messages, options);
  std::size_t end = 0;
  for (const chat::Span& span : rendering.generated) {
    require(end <= span.begin && span.begin <= span.end && span.end <= rendering.text.size(),
            "spans are within the text, one behind the other");
    end = span.end;
  }
  options.tools = nullptr;
  chat::render_for_training(chat_template, messages, options);
}

}  // namespace
}  // namespace strata::fuzz

STRATA_FUZZ_TARGET(chat_template, strata::fuzz::render_template)
