#include "engine/run/checkpoint/companions.h"

#include <gmock/gmock.h>
#include <sys/stat.h>

#include <filesystem>

#include "engine/run/checkpoint/checkpoint.h"
#include "tests/base/temporary_folder.h"
#include "tests/checkpoint/support.h"

namespace strata {
namespace {

namespace fs = std::filesystem;
using test::TemporaryFolder;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

class CompanionFiles : public ::testing::Test {
 protected:
  void write(const std::string& name, const std::string& content) const {
    fs::create_directories((folder_ / name).parent_path());
    write_file(FileSystem::real(), folder_ / name, content);
  }
  std::map<std::string, std::string> find(const std::string& tokenizer, Bytes limit = MiB) {
    std::map<std::string, std::string> found;
    const CompanionSources sources = {folder_ / "model", folder_ / tokenizer};
    for (const Companion& each : find_companions(sources, warnings_, limit)) found[each.name] = each.content;
    return found;
  }
  static std::vector<std::string> names(const std::map<std::string, std::string>& found) {
    std::vector<std::string> names;
    names.reserve(found.size());
    for (const auto& [name, content] : found) names.push_back(name);
    return names;
  }

  TemporaryFolder folder_;
  std::vector<std::string> warnings_;
};

// Invariant of state and checkpoints (CompanionFiles.*): A checkpoint is enough to use the model. It has the
// model's config, tokenizer and chat templates as they were when its run began. An export has them beside the
// weights.
TEST_F(CompanionFiles, AreWhatAModelsFolderHasBesideWeights) {
  for (const char* name :
       {"config.json", "generation_config.json", "tokenizer.json", "tokenizer_config.json",
        "special_tokens_map.json", "added_tokens.json", "vocab.json", "merges.txt", "tokenizer.model",
        "chat_template.jinja", "chat_template.json", "additional_chat_templates/rag.jinja",
        "additional_chat_templates/notes.txt", "model.safetensors", "README.md"})
    write(std::string("model/") + name, name);
  EXPECT_THAT(names(find("model")),
              UnorderedElementsAre("config.json", "generation_config.json", "tokenizer.json",
                                   "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json",
                                   "vocab.json", "merges.txt", "tokenizer.model", "chat_template.jinja",
                                   "chat_template.json", "additional_chat_templates/rag.jinja"));
  EXPECT_THAT(warnings_, IsEmpty());
}

TEST_F(CompanionFiles, OfATokenizerElsewhereAreThatOnes) {
  for (const char* name : {"config.json", "tokenizer.json", "vocab.json", "generation_config.json"})
    write(std::string("model/") + name, "model's");
  write("other/tokenizer.json", "other's");
  write("other/config.json", "other's");
  const std::map<std::string, std::string> of_folder = {
      {"config.json", "model's"}, {"generation_config.json", "model's"}, {"tokenizer.json", "other's"}};
  EXPECT_EQ(find("other"), of_folder);
  fs::rename(folder_ / "other/tokenizer.json", folder_ / "other/mine.json");
  EXPECT_EQ(find("other/mine.json"), of_folder);
  EXPECT_THAT(warnings_, IsEmpty());
}

TEST_F(CompanionFiles, AreReadThroughLinks) {
  write("blobs/1", "linked");
  fs::create_directory(folder_ / "model");
  fs::create_symlink("../blobs/1", folder_ / "model/tokenizer.json");
  EXPECT_EQ(find("model"), (std::map<std::string, std::string>{{"tokenizer.json", "linked"}}));
  EXPECT_THAT(warnings_, IsEmpty());
}

TEST_F(CompanionFiles, ThatCannotBeReadAreLeftOutWithASentence) {
  write("model/tokenizer.json", "good");
  fs::create_directory(folder_ / "model/vocab.json");
  ASSERT_EQ(::mkfifo((folder_ / "model/merges.txt").c_str(), 0600), 0);
  fs::create_symlink("nowhere", folder_ / "model/chat_template.jinja");
  write("model/additional_chat_templates", "a file");
  EXPECT_THAT(names(find("model")), ElementsAre("tokenizer.json"));
  EXPECT_THAT(warnings_, UnorderedElementsAre(
                             AllOf(HasSubstr("go without vocab.json"), HasSubstr("directory")),
                             AllOf(HasSubstr("go without merges.txt"), HasSubstr("not a regular file")),
                             AllOf(HasSubstr("go without chat_template.jinja"), HasSubstr("No such file")),
                             HasSubstr("go without additional_chat_templates")));
}

TEST_F(CompanionFiles, ThatAreHugeAreLeftOutWithASentence) {
  write("model/tokenizer.json", std::string(100, 'x'));
  write("model/tokenizer.model", std::string(100, 'x'));
  write("model/chat_template.jinja", "x");
  EXPECT_THAT(names(find("model", 150)), ElementsAre("chat_template.jinja", "tokenizer.json"));
  EXPECT_THAT(warnings_, ElementsAre(AllOf(HasSubstr("tokenizer.model"), HasSubstr("too much"))));
}

TEST_F(CompanionFiles, AreInEveryCheckpointAndCounted) {
  const auto companions = std::make_shared<const Companions>(
      Companions{{"config.json", "{}"}, {"additional_chat_templates/rag.jinja", "{{ messages }}"}});
  const Model model = test::tiny_llama();
  test::State state(model, 1);
  CheckpointStore store(folder_ / "out", 1, test::quick());
  fs::create_directory(folder_ / "out");
  const Bytes alone = store.space_needed(model, state.access(), 1).each;
  store.set_companions(companions);
  EXPECT_GE(store.space_needed(model, state.access(), 1).each, alone + 2 * 4 * KiB);
  for (const int step : {1, 2}) store.save(model, test::progress_at(step), state.access());
  const fs::path saved = folder_ / "out/step-00000002";
  EXPECT_EQ(test::names_in(folder_ / "out"), std::set<std::string>{"step-00000002"});
  const Manifest manifest = read_manifest(saved / kManifestName);
  const Companions stored = stored_companions(saved, manifest, warnings_);
  ASSERT_EQ(stored.size(), 2U);
  for (const Companion& each : *companions) EXPECT_EQ(strata::find(stored, each.name)->content, each.content);
  EXPECT_THAT(warnings_, IsEmpty());
}

TEST_F(CompanionFiles, OfACheckpointThatAreDamagedAreLeftOutAndItsStateIsRead) {
  const Model model = test::tiny_llama();
  test::State state(model, 1), loaded(model, 0);
  CheckpointStore store(folder_ / "out", 1, test::quick());
  store.set_companions(std::make_shared<const Companions>(
      Companions{{"config.json", "{}"}, {"tokenizer.json", "{}"}, {"merges.txt", "a b"}}));
  store.save(model, test::progress_at(1), state.access());
  const fs::path saved = folder_ / "out/step-00000001";
  test::flip_bit(saved / "model/tokenizer.json", 0);
  fs::remove(saved / "model/merges.txt");
  EXPECT_TRUE(store.load_newest(model, loaded.access()));
  EXPECT_EQ(loaded, state);
  const Companions stored = stored_companions(saved, read_manifest(saved / kManifestName), warnings_);
  ASSERT_EQ(stored.size(), 1U);
  EXPECT_EQ(stored.front().name, "config.json");
  EXPECT_THAT(warnings_, UnorderedElementsAre(HasSubstr("merges.txt is left out"),
                                              HasSubstr("tokenizer.json is left out")));
}

TEST_F(CompanionFiles, OfAManifestThatNamesOthersAreNotFollowed) {
  write("secret", "x");
  Manifest manifest;
  for (const char* name : {"../secret", "/etc/passwd", "additional_chat_templates/../../secret", "x/y.jinja"})
    manifest.companions[name] = {1, hex(hash_text("x"))};
  fs::create_directories(folder_ / "step/model");
  EXPECT_THAT(stored_companions(folder_ / "step", manifest, warnings_), IsEmpty());
  EXPECT_EQ(warnings_.size(), 4U);
}

TEST_F(CompanionFiles, AreExportedBesideTheWeights) {
  const Model model = test::tiny_llama();
  test::State state(model, 1);
  HfExport options;
  options.config = to_hf_config(model.architecture);
  options.companions = {{"config.json", "not this"},
                        {"additional_chat_templates/rag.jinja", "{{ messages }}"}};
  save_hf_folder(folder_ / "exported", model, test::read_from(state), options, test::quick());
  EXPECT_EQ(test::names_in(folder_ / "exported"),
            (std::set<std::string>{"additional_chat_templates", "config.json", "model.safetensors"}));
  EXPECT_EQ(read_file(folder_ / "exported/additional_chat_templates/rag.jinja"), "{{ messages }}");
  EXPECT_THAT(read_file(folder_ / "exported/config.json"), HasSubstr("llama"));
}

}  // namespace
}  // namespace strata
