// tokenizer_config.json that anybody may have written: read, or refused in a sentence.
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "engine/input/chat/template_files.h"
#include "tests/base/temporary_folder.h"
#include "tests/support/damaged_json.h"

namespace strata::chat {
namespace {

using nlohmann::json;

json token(const char* content) {
  return {
      {"content", content}, {"lstrip", false}, {"rstrip", false}, {"normalized", false}, {"special", true}};
}

void expect_read_or_refused(const json& file, const std::string& name, std::uint32_t seed) {
  const test::TemporaryFolder folder;
  test::expect_read_or_refused(file, name, seed, 150, [&](const json& damaged) {
    std::ofstream(folder / name) << damaged.dump();
    find_special_tokens(folder.path());
    if (!find_template_files(folder.path())) return;
    const ChatTemplate chat = ChatTemplate::read(folder.path());
    chat.render({{{"role", "user"}, {"content", "Hello"}}}, {});
  });
}

// Invariant (DamagedTokenizerConfig.*): Files that anybody may have written are read, or refused in a short
// sentence.
TEST(DamagedTokenizerConfig, IsReadOrRefusedInASentence) {
  const json file = {
      {"added_tokens_decoder", {{"0", token("<s>")}, {"1", token("</s>")}}},
      {"bos_token", "<s>"},
      {"eos_token", token("</s>")},
      {"pad_token", nullptr},
      {"additional_special_tokens", {"<tool>", token("<end>")}},
      {"chat_template",
       "{{ bos_token }}{% for m in messages %}{{ m.role }}{{ m.content }}{{ eos_token }}{% endfor %}"},
      {"model_max_length", 1000000000000000019884624838656.0},
      {"add_bos_token", true},
      {"tokenizer_class", "LlamaTokenizer"}};
  expect_read_or_refused(file, "tokenizer_config.json", 57);
  json named = file;
  named["chat_template"] = {{{"name", "default"}, {"template", file["chat_template"]}},
                            {{"name", "tool_use"}, {"template", "x"}}};
  expect_read_or_refused(named, "tokenizer_config.json", 58);
}

}  // namespace
}  // namespace strata::chat
