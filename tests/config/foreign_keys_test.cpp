// What a person hears who writes a run file in the words of another tool.
#include "engine/config/foreign_keys.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <regex>
#include <set>
#include <sstream>

#include "base/shipped_file.h"
#include "engine/config/foreign_answers.h"
#include "engine/config/keys.h"
#include "tests/config/support.h"
#include "tests/support/source_folder.h"

namespace strata {
namespace {

using test::kMinimal;
using test::refusal;
using ::testing::AllOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::StartsWith;

std::vector<std::string> words_of_list(std::string_view list) {
  std::istringstream stream{std::string(list)};
  return {std::istream_iterator<std::string>(stream), {}};
}

bool is_ours(const std::string& path) {
  return find_path(config_keys(), path) != nullptr || find_path(config_sections(), path) != nullptr;
}

/// Keys that a sentence names, as optimizer.lr.
std::vector<std::string> keys_named_in(const std::string& sentence) {
  static const std::regex kKey("[a-z]+(\\.[a-z_]+)+");
  std::vector<std::string> keys;
  for (std::sregex_iterator match(sentence.begin(), sentence.end(), kKey), end; match != end; ++match) {
    const std::string key = match->str();
    if (find_path(config_sections(), key.substr(0, key.find('.'))) != nullptr) keys.push_back(key);
  }
  return keys;
}

std::string page_text(const std::string& page) {
  std::ifstream file(test::source_folder() / page);
  return {std::istreambuf_iterator<char>(file), {}};
}

TEST(ForeignKeys, AreAnsweredByKeysThatAreThere) {
  std::set<std::string> names;
  for (const ForeignKey& key : foreign_keys()) {
    const std::string ours(key.ours.substr(0, key.ours.find(':')));
    EXPECT_TRUE(ours.empty() || is_ours(ours)) << ours;
    EXPECT_TRUE(!key.ours.empty() || !key.remark.empty()) << key.names;
    for (const std::string& named : keys_named_in(std::string(key.remark)))
      EXPECT_TRUE(is_ours(named)) << named;
    for (const std::string& name : words_of_list(key.names)) {
      EXPECT_FALSE(is_ours(name)) << name;
      EXPECT_TRUE(names.insert(name).second) << name << " stands twice";
    }
  }
}

TEST(ForeignKeys, AreAnsweredWhereverTheyStand) {
  EXPECT_EQ(refusal(kMinimal + "learning_rate: 1e-4\n"),
            "run.yaml:3:1: unknown key 'learning_rate': it is optimizer.lr here");
  EXPECT_THAT(
      refusal(kMinimal + "train: {gradient_accumulation_steps: 4}\n"),
      HasSubstr("3:9: unknown key 'train.gradient_accumulation_steps': it is train.batch here; it counts "
                "all sequences of a step: microbatch × accumulation × data ranks"));
  EXPECT_THAT(refusal(kMinimal, {"num_train_epochs=3"}), HasSubstr("it is train.epochs here"));
  EXPECT_THAT(refusal(kMinimal, {"optimizer.learning-rate=3"}), HasSubstr("it is optimizer.lr here"));
  EXPECT_THAT(refusal(kMinimal + "training: {steps: 5, seq_len: 8}\n"),
              HasSubstr("3:22: unknown key 'training.seq_len': it is data.sequence_length here"));
  EXPECT_THAT(refusal(kMinimal + "zero_optimization:\n  stage: 3\n"),
              HasSubstr("4:3: unknown key 'zero_optimization.stage': it is parallel.zero_stage here"));
  EXPECT_THAT(refusal(kMinimal + "bf16: {enabled: true}\n"), HasSubstr("it is train.precision here"));
  EXPECT_THAT(refusal(R"({"model": {"path": "m"}, "data": {"max_seq_length": 5}})"),
              HasSubstr("run.yaml:1:35: unknown key 'data.max_seq_length': it is data.sequence_length here"));
  EXPECT_THAT(refusal(kMinimal + "wandb_project: x\n"),
              HasSubstr("unknown key 'wandb_project': it has no counterpart: report.tensorboard"));
  EXPECT_THAT(refusal(kMinimal + "sweep: {learning_rate: [1, 2]}\n"), HasSubstr("it is optimizer.lr here"));
}

TEST(ForeignKeys, GoBeforeTheNearestNameUnlessThatIsOneLetterAway) {
  EXPECT_THAT(refusal(kMinimal, {"adapter.r=8"}), HasSubstr("it is adapter.rank here"));
  EXPECT_THAT(refusal(kMinimal, {"data.max_length=8"}), HasSubstr("it is data.sequence_length here"));
  EXPECT_THAT(refusal(kMinimal, {"memory.ram=8GiB"}), HasSubstr("it is memory.host here"));
  EXPECT_THAT(refusal(kMinimal, {"optimizer.beta=1"}), HasSubstr("did you mean 'optimizer.betas'?"));
  EXPECT_THAT(refusal(kMinimal, {"parallel.stage=1"}), HasSubstr("did you mean 'parallel.stages'?"));
  EXPECT_THAT(refusal(kMinimal, {"train.lr=1"}), HasSubstr("did you mean 'optimizer.lr'?"));
}

TEST(ForeignValues, AreRefusedWithOurs) {
  for (const ForeignValue& value : foreign_values()) {
    const std::string key(value.key);
    ASSERT_NE(find_path(config_keys(), key), nullptr) << key;
    for (const std::string& named : keys_named_in(std::string(value.answer)))
      EXPECT_TRUE(is_ours(named)) << named;
    for (const std::string& word : words_of_list(value.values == "*" ? "Qwen/Qwen3-0.6B" : value.values))
      EXPECT_THAT(refusal(kMinimal, {key + "=" + word}),
                  HasSubstr(fmt::format("found '{}'; {}", word, value.answer)))
          << key;
  }
  EXPECT_THAT(refusal(kMinimal, {"train.precision=BFloat16"}), HasSubstr("found 'BFloat16'; write bf16"));
  EXPECT_THAT(refusal(kMinimal + "device: cuda\n"),
              AllOf(StartsWith("run.yaml:3:1: device: expected a map of keys ("),
                    EndsWith("); 'cuda' is a value for device.kind")));
  EXPECT_THAT(refusal("model: Qwen/Qwen3-0.6B\n"), HasSubstr("'Qwen/Qwen3-0.6B' is a value for model.path"));
  EXPECT_THAT(refusal(kMinimal + "optimizer: adamw_torch\n"),
              HasSubstr("'adamw_torch' is a value for optimizer.type; write adamw"));
}

/// The block of text behind the heading, which the other tool would take.
std::string their_file(const std::string& page) {
  const std::string text = page_text(page);
  const std::size_t heading = text.find("## Your configuration and ours");
  const std::size_t begin = text.find('\n', text.find("\n```", heading) + 1) + 1;
  return text.substr(begin, text.find("```", begin) - begin);
}

TEST(ForeignFiles, AreNamedWithThePageThatTranslatesThem) {
  for (const ForeignTool& tool : foreign_tools()) {
    EXPECT_TRUE(std::filesystem::exists(test::source_folder() / tool.page)) << tool.page;
    const std::string file = tool.name == "torchtitan"
                                 ? "# Llama 3\n\n[job]\ndump_folder = \"./outputs\"\n\n[parallelism]\nx = 1\n"
                                 : their_file(std::string(tool.page));
    EXPECT_EQ(refusal(file),
              fmt::format("run.yaml: this is a file of {}, and Strata reads its own run files; {} has "
                          "its keys and ours",
                          tool.name, shipped_file(std::string(tool.page))))
        << file;
  }
  EXPECT_EQ(refusal("title = 'x'\n"), "run.yaml: this is TOML, and a run file is YAML or JSON");
  EXPECT_EQ(refusal("[a.b]\nx = 1\n"), "run.yaml: this is TOML, and a run file is YAML or JSON");
  EXPECT_THAT(refusal(kMinimal + "base_model: x\nsequence_len: 5\n"), HasSubstr("it is model.path here"))
      << "a run file of ours with other words";
}

/// Each row of a page's table of keys begins with the other tool's names.
TEST(ForeignFiles, HaveOnTheirPagesNoKeyWithoutAnAnswer) {
  const std::regex row("^\\| `([a-z_0-9.]+)`[^|]*\\|");
  for (const ForeignTool& tool : foreign_tools()) {
    const std::string text = page_text(std::string(tool.page));
    std::istringstream keys(text.substr(text.find("\n## Keys")));
    int rows = 0;
    std::smatch match;
    for (std::string line; std::getline(keys, line) && !line.starts_with("| command");) {
      if (!std::regex_search(line, match, row)) continue;
      ++rows;
      const std::string key = match[1];
      EXPECT_TRUE(!answer_to_foreign_key(key).empty() || is_ours(key) || key.find("_") == std::string::npos)
          << tool.page << ": " << key;
    }
    EXPECT_GT(rows, 15) << tool.page;
  }
}

}  // namespace
}  // namespace strata
