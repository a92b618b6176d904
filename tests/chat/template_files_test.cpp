// Chat templates in models' folders.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "base/error.h"
#include "engine/input/chat/chat_template.h"

namespace strata::chat {
namespace {

using nlohmann::ordered_json;
using ::testing::EndsWith;
using ::testing::HasSubstr;
namespace fs = std::filesystem;

class Folder : public testing::Test {
 protected:
  Folder() { fs::create_directories(folder_ / "additional_chat_templates"); }
  ~Folder() override { fs::remove_all(folder_); }

  void write(const std::string& name, const std::string& text) const {
    std::ofstream(folder_ / name) << text;
  }
  void write_config(const ordered_json& config) const { write("tokenizer_config.json", config.dump()); }

  std::string rendered(const RenderOptions& options = {}) const {
    return ChatTemplate::read(folder_).render(ordered_json::array(), options).text;
  }
  std::string told() const {
    try {
      rendered();
      return "";
    } catch (const ConfigError& error) {
      return error.what();
    }
  }

  const fs::path folder_ =
      fs::temp_directory_path() / ("strata-chat-" + std::to_string(::getpid()) + "-" +
                                   testing::UnitTest::GetInstance()->current_test_info()->name());
};

class TemplateFolder : public Folder {
 protected:
  TemplateFolder() { fs::remove(folder_ / "additional_chat_templates"); }
};

TEST_F(TemplateFolder, HasATemplateInItsConfig) {
  write_config({{"chat_template", "{{ bos_token }}{{ eos_token }}{{ pad_token is defined }}"},
                {"bos_token", "<s>"},
                {"eos_token", {{"content", "</s>"}, {"lstrip", false}}},
                {"pad_token", nullptr}});
  EXPECT_EQ(rendered(), "<s></s>False");
}

TEST_F(TemplateFolder, MayHaveATemplateForTools) {
  write_config({{"chat_template",
                 {{{"name", "default"}, {"template", "plain"}},
                  {{"name", "tool_use"}, {"template", "{% generation %}tools{% endgeneration %}"}}}}});
  EXPECT_EQ(rendered(), "plain");
  RenderOptions options;
  options.tools = ordered_json::array({{{"name", "f"}}});
  EXPECT_EQ(rendered(options), "tools");
  EXPECT_TRUE(ChatTemplate::read(folder_).has_generation(options));
  EXPECT_FALSE(ChatTemplate::read(folder_).has_generation());
}

TEST_F(TemplateFolder, HasAFileThatCountsMoreThanItsConfig) {
  write_config({{"chat_template", "config"}, {"bos_token", "<s>"}});
  write("chat_template.jinja", "file {{ bos_token }}\n");
  EXPECT_EQ(rendered(), "file <s>");
}

TEST_F(Folder, MayHaveFurtherFiles) {
  write("chat_template.jinja", "default");
  write("additional_chat_templates/tool_use.jinja", "tools");
  RenderOptions options;
  options.tools = ordered_json::array();
  EXPECT_EQ(rendered(), "default");
  EXPECT_EQ(rendered(options), "tools");
}

TEST_F(TemplateFolder, MayHaveItsTokensInAFileOfTheirOwn) {
  write_config({{"chat_template", "{{ bos_token }}"}, {"bos_token", "<old>"}});
  write("special_tokens_map.json", R"({"bos_token": {"content": "<new>"}})");
  EXPECT_EQ(rendered(), "<new>");
  write_config({{"chat_template", "{{ bos_token }}"},
                {"bos_token", "<old>"},
                {"added_tokens_decoder", ordered_json::object()}});
  EXPECT_EQ(rendered(), "<old>");
}

TEST_F(TemplateFolder, IsRefusedWithItsPlace) {
  EXPECT_THAT(told(),
              EndsWith("there is no chat template: neither chat_template.jinja nor 'chat_template' in "
                       "tokenizer_config.json"));
  write_config({{"chat_template", 3}});
  EXPECT_THAT(
      told(),
      EndsWith("tokenizer_config.json: chat_template: a template, or a list of templates with names, is "
               "expected here"));
  write_config({{"chat_template", "a\n{% oops %}"}});
  EXPECT_THAT(told(),
              EndsWith("tokenizer_config.json: chat_template: line 2: the tag 'oops' is not supported"));
  write_config({{"chat_template", {{{"name", "x"}, {"template", ""}}}}});
  EXPECT_THAT(told(), HasSubstr("there is no template of the name 'default'"));
  write("chat_template.jinja", "\n\n{{ x.y }}");
  EXPECT_THAT(told(), EndsWith("chat_template.jinja: line 3: 'x' is undefined"));
}

}  // namespace
}  // namespace strata::chat
