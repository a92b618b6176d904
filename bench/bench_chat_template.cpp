// Conversations rendered by chat templates: bench_chat_template CASES [RESULTS]
// Each line of CASES is a JSON object: "template" or "folder", "messages", and if they are to be given
// "special_tokens", "tools", "variables", "add_generation_prompt" and "trains". RESULTS gets a line for each:
// "text" and "spans", or "error". For tests/chat/compare_templates.py. Prints how fast they are.
#include <fmt/format.h>

#include <chrono>
#include <fstream>
#include <map>
#include <memory>

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "engine/input/chat/chat_template.h"
#include "engine/input/chat/trained_text.h"

namespace strata::chat {
namespace {

using nlohmann::ordered_json;

ChatTemplate template_of(const ordered_json& description) {
  if (description.contains("folder")) return ChatTemplate::read(description["folder"].get<std::string>());
  SpecialTokens tokens;
  const ordered_json named = description.value("special_tokens", ordered_json::object());
  for (const auto& [name, token] : named.items()) tokens[name] = token.get<std::string>();
  return ChatTemplate::parse(description.at("template").get<std::string>(), "template", std::move(tokens));
}

ordered_json result_of(const ordered_json& description) {
  try {
    const ChatTemplate chat_template = template_of(description);
    const RenderOptions options{.add_generation_prompt = description.value("add_generation_prompt", false),
                                .tools = description.value("tools", ordered_json()),
                                .variables = description.value("variables", ordered_json::object()),
                                .now_seconds = {},
                                .limits = {}};
    const Rendering rendering = description.value("trains", false)
                                    ? render_for_training(chat_template, description.at("messages"), options)
                                    : chat_template.render(description.at("messages"), options);
    ordered_json spans = ordered_json::array();
    for (const auto& [begin, end] : rendering.generated) spans.push_back({begin, end});
    return {{"text", rendering.text}, {"spans", spans}};
  } catch (const ConfigError& error) {
    return {{"error", error.what()}};
  }
}

void run(const char* cases_file, const char* results_file) {
  std::ifstream cases(cases_file);
  std::ofstream results;
  if (results_file != nullptr) results.open(results_file);
  double seconds = 0;
  std::size_t count = 0, bytes = 0;
  for (std::string line; std::getline(cases, line); ++count) {
    const ordered_json description = ordered_json::parse(line);
    const auto begin = std::chrono::steady_clock::now();
    const ordered_json result = result_of(description);
    seconds += std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    bytes += result.value("text", "").size();
    results << result.dump() << '\n';
  }
  fmt::print("{} conversations of {:.1f} MB in {:.2f} s, with reading their templates\n", count,
             static_cast<double>(bytes) / 1e6, seconds);
}

}  // namespace
}  // namespace strata::chat

int main(int count, char** arguments) {
  if (count < 2) {
    fmt::print(stderr, "bench_chat_template CASES [RESULTS]\n");
    return 2;
  }
  strata::chat::run(arguments[1], count > 2 ? arguments[2] : nullptr);
}
