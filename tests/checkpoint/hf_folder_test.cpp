#include "engine/run/checkpoint/hf_folder.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "tests/base/expect_error.h"
#include "tests/base/faulty_file_system.h"
#include "tests/base/overwrite.h"
#include "tests/base/temporary_folder.h"
#include "tests/checkpoint/support.h"

namespace strata {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using test::expect_error;
using test::FaultyFileSystem;
using test::overwrite;
using test::quick;
using test::State;
using test::TemporaryFolder;

void save(const fs::path& folder, const Model& model, State& state, HfExport options = {},
          FileSystem& file_system = quick()) {
  if (options.config.is_null()) options.config = to_hf_config(model.architecture);
  save_hf_folder(folder, model, test::read_from(state), options, file_system);
}

/// The folder's parameters in place of whatever the state had.
void load(const fs::path& folder, const Model& model, State& state) {
  const HfFolder hf(folder, model);
  for (std::size_t unit = 0; unit < model.units.size(); ++unit)
    hf.read_range(model.units[unit], whole(model.units[unit]), state.flat(unit));
}

void expect_equal_parameters(const Model& model, State& left, State& right) {
  for (std::size_t unit = 0; unit < model.units.size(); ++unit) {
    EXPECT_TRUE(std::ranges::equal(left.flat(unit), right.flat(unit))) << model.units[unit].name;
  }
}

/// A model.safetensors with the model's tensors after `edit` of the list of their names and shapes; every
/// value is 1.
void write_weights(const fs::path& folder, const Model& model,
                   const std::function<void(std::vector<TensorToWrite>&)>& edit,
                   const std::string& name = "model.safetensors") {
  std::vector<TensorToWrite> tensors;
  for (const Unit& unit : model.units) {
    for (const TensorSpec& tensor : unit.tensors) tensors.push_back({tensor.hf_name, tensor.hf_shape});
  }
  edit(tensors);
  fs::remove(folder / name);
  SafetensorsWriter writer(quick(), folder / name, DType::fp32, tensors);
  for (const TensorToWrite& tensor : tensors) {
    writer.write(std::vector<float>(static_cast<std::size_t>(tensor.elements()), 1.0F));
  }
  writer.finish();
}

TEST(HfFolder, WhatIsSavedIsLoaded) {
  for (const Model& model : {test::tiny_gpt2(), test::tiny_llama(), test::tiny_llama(true)}) {
    const TemporaryFolder folder;
    State saved(model, 1);
    State loaded(model, 1000);
    save(folder / "model", model, saved);
    load(folder / "model", model, loaded);
    expect_equal_parameters(model, saved, loaded);
    EXPECT_EQ(parse_architecture(read_hf_config(folder / "model"), "test"), model.architecture);
    EXPECT_FALSE(is_there(folder / "model" / "model.safetensors.index.json"));
  }
}

TEST(HfFolder, ShardsHaveAnIndexAndLoadTheSame) {
  const TemporaryFolder folder;
  const Model model = test::tiny_llama();
  State saved(model, 1);
  State loaded(model, 1000);
  HfExport options;
  options.shard_bytes = 300;
  save(folder / "model", model, saved, options);
  load(folder / "model", model, loaded);
  expect_equal_parameters(model, saved, loaded);
  const json index = json::parse(read_file(folder / "model" / "model.safetensors.index.json"));
  EXPECT_EQ(index["weight_map"]["model.embed_tokens.weight"], "model-00001-of-00008.safetensors");
  EXPECT_EQ(index["weight_map"]["lm_head.weight"], "model-00008-of-00008.safetensors");
  EXPECT_EQ(index["metadata"]["total_size"], model.parameters() * 4);
  EXPECT_FALSE(is_there(folder / "model" / "model.safetensors"));
}

TEST(HfFolder, Bf16RoundsAndSaysSoInTheConfig) {
  const TemporaryFolder folder;
  const Model model = test::tiny_llama();
  State saved(model, 1000.5F);
  State loaded(model, 1);
  HfExport options;
  options.dtype = DType::bf16;
  save(folder / "model", model, saved, options);
  load(folder / "model", model, loaded);
  EXPECT_EQ(loaded.flat(0)[3], static_cast<float>(bfloat16(saved.flat(0)[3])));
  EXPECT_NE(loaded.flat(0)[3], saved.flat(0)[3]);
  EXPECT_EQ(read_hf_config(folder / "model")["torch_dtype"], "bfloat16");
}

TEST(HfFolder, AStretchOfATensorIsRead) {
  const TemporaryFolder folder;
  const Model model = test::tiny_llama();
  State saved(model, 1);
  save(folder / "model", model, saved);
  std::vector<float> out(2);
  HfFolder(folder / "model", model).read_tensor("model.embed_tokens.weight", 3, out);
  EXPECT_EQ(out, (std::vector<float>{4, 5}));
}

TEST(HfFolder, NamesMayLackWhatTheLanguageModelPutsInFront) {
  for (const Model& model : {test::tiny_gpt2(), test::tiny_llama(true)}) {
    const TemporaryFolder folder;
    write_weights(folder.path(), model, [](auto& tensors) {
      for (TensorToWrite& tensor : tensors) tensor.name = tensor.name.substr(tensor.name.find('.') + 1);
    });
    State state(model, 0);
    load(folder.path(), model, state);
    EXPECT_EQ(state.flat(0)[0], 1.0F);
  }
}

TEST(HfFolder, BuffersOfOldVersionsAreIgnored) {
  const TemporaryFolder folder;
  const Model model = test::tiny_gpt2();
  write_weights(folder.path(), model, [](auto& tensors) {
    tensors.push_back({"h.0.attn.bias", {1, 1, 3, 3}});
    tensors.push_back({"transformer.h.0.attn.masked_bias", {}});
  });
  EXPECT_NO_THROW(HfFolder(folder.path(), model));
}

TEST(HfFolder, ATiedHeadMayBeStoredTwiceWhereItIsTheSame) {
  const Model model = test::tiny_llama(true);
  const TemporaryFolder same;
  write_weights(same.path(), model, [](auto& tensors) { tensors.push_back({"lm_head.weight", {5, 8}}); });
  EXPECT_NO_THROW(HfFolder(same.path(), model));

  const TemporaryFolder other;
  const Model untied = test::tiny_llama(false);
  State state(untied, 1);
  save(other / "model", untied, state);
  expect_error<ConfigError>([&] { HfFolder(other / "model", model); },
                            {"lm_head.weight is not the embedding", "set tie_word_embeddings to false"});
}

TEST(HfFolder, AMissingFolderOrFileIsNamed) {
  const TemporaryFolder folder;
  const Model model = test::tiny_llama();
  expect_error<ConfigError>([&] { read_hf_config(folder / "none"); },
                            {(folder / "none").string(), "no such folder"});
  expect_error<ConfigError>([&] { read_hf_config(folder.path()); }, {"config.json", "no such file"});
  expect_error<ConfigError>(
      [&] { HfFolder(folder.path(), model); },
      {folder.path().string(), "neither model.safetensors nor model.safetensors.index.json"});
  write_file(quick(), folder / "pytorch_model.bin", "x");
  expect_error<ConfigError>([&] { HfFolder(folder.path(), model); }, {"convert pytorch_model.bin"});
  write_file(quick(), folder / "config.json", "{");
  expect_error<ConfigError>([&] { read_hf_config(folder.path()); }, {"config.json:1:2", "not valid JSON"});
}

/// transformers reads model.safetensors where there is one, else what the index names.
TEST(HfFolder, FilesThatWereNotSavedTogetherAreNamed) {
  const TemporaryFolder folder;
  const Model model = test::tiny_llama();
  State state(model, 1);
  HfExport options;
  options.shard_bytes = 500;
  const fs::path saved = folder / "model", index = saved / "model.safetensors.index.json";
  save(saved, model, state, options);
  const auto warning = [&] { return unread_weights_warning(saved); };
  EXPECT_EQ(warning(), "");
  EXPECT_EQ(unread_weights_warning(""), "");
  EXPECT_EQ(unread_weights_warning(folder / "none"), "");
  for (const char* beside : {"consolidated.safetensors", "adapter_model.safetensors", "pytorch_model.bin"})
    write_file(quick(), saved / beside, "x");
  EXPECT_EQ(warning(), "");
  write_file(quick(), saved / "model-00003-of-00003.safetensors", "of another model");
  EXPECT_EQ(warning(), saved.string() +
                           ": of its weights the files that model.safetensors.index.json names are read, "
                           "and not model-00003-of-00003.safetensors: remove what is stale, or name "
                           "another folder");
  load(saved, model, state);
  write_weights(saved, model, [](auto&) {});
  const std::string whole = warning();
  for (const char* part :
       {"of its weights model.safetensors is read, and not model-00001-of-", "model.safetensors.index.json:"})
    EXPECT_NE(whole.find(part), std::string::npos) << whole;
  load(saved, model, state);
  EXPECT_EQ(state.flat(0)[0], 1.0F);
  for (const std::string& name : quick().list(saved))
    if (name.starts_with("model-")) fs::remove(saved / name);
  EXPECT_NE(warning(), "");
  overwrite(index, json{{"weight_map", {{"lm_head.weight", "model.safetensors"}}}}.dump());
  EXPECT_EQ(warning(), "");
  overwrite(index, "no JSON");
  EXPECT_NE(warning(), "");
}

TEST(HfFolder, APointerOfGitLfsIsNamed) {
  const std::string pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12345\n";
  for (const char* file : {"model.safetensors", "config.json"}) {
    const TemporaryFolder folder;
    const Model model = test::tiny_llama();
    State saved(model, 1);
    save(folder / "model", model, saved);
    overwrite(folder / "model" / file, pointer);
    expect_error<ConfigError>(
        [&] {
          read_hf_config(folder / "model");
          HfFolder(folder / "model", model);
        },
        {file, "Git LFS pointer", "git lfs pull"});
  }
}

TEST(HfFolder, AnAdapterBesideTheModelIsRefused) {
  const TemporaryFolder folder;
  write_file(quick(), folder / "adapter_config.json", "{}");
  const auto read = [&] { read_hf_config(folder.path()); };
  expect_error<ConfigError>(read, {(folder / "adapter_config.json").string(), "give it as adapter.path"});
  write_file(quick(), folder / "config.json", "{}");
  expect_error<ConfigError>(read, {"adapter_config.json: this is a folder of adapters"});
}

TEST(HfFolder, ATensorThatIsMissingMisshapenOrTooManyIsNamed) {
  const Model model = test::tiny_llama();
  const TemporaryFolder folder;
  const auto refused = [&](const std::function<void(std::vector<TensorToWrite>&)>& edit,
                           const std::vector<std::string>& parts) {
    write_weights(folder.path(), model, edit);
    expect_error<ConfigError>([&] { HfFolder(folder.path(), model); }, parts);
  };
  refused([](auto& tensors) { tensors.erase(tensors.begin() + 2); },
          {folder.path().string(), "tensor model.layers.0.self_attn.q_proj.weight is missing"});
  refused([](auto& tensors) { tensors.pop_back(); },
          {"tensor lm_head.weight is missing; is tie_word_embeddings in config.json right?"});
  refused(
      [](auto& tensors) {
        tensors[0].shape = {8, 5};
      },
      {"model.safetensors: tensor model.embed_tokens.weight has shape [8, 5], config.json says [5, 8]"});
  refused(
      [](auto& tensors) {
        tensors.push_back({"model.layers.1.mlp.up_proj.weight", {2}});
      },
      {"unexpected tensor model.layers.1.mlp.up_proj.weight"});
  refused(
      [](auto& tensors) {
        tensors.push_back({"embed_tokens.weight", {5, 8}});
      },
      {"embed_tokens.weight is also in"});
}

TEST(HfFolder, ATensorOfADtypeThatCannotBeReadIsRefusedBeforeReading) {
  const TemporaryFolder folder;
  const Model model = test::tiny_llama();
  write_weights(folder.path(), model, [](auto&) {});
  std::string content = read_file(folder / "model.safetensors");
  content.replace(content.find("\"F32\""), 5, "\"I32\"");
  overwrite(folder / "model.safetensors", content);
  expect_error<ConfigError>([&] { HfFolder(folder.path(), model); },
                            {"tensor model.embed_tokens.weight is I32", "F32, BF16, F16"});
}

TEST(HfFolder, AWrongIndexIsRefused) {
  const TemporaryFolder folder;
  const Model model = test::tiny_llama();
  const auto refused = [&](const json& index, const std::vector<std::string>& parts) {
    overwrite(folder / "model.safetensors.index.json", index.dump());
    expect_error<ConfigError>([&] { HfFolder(folder.path(), model); }, parts);
  };
  refused(json::object(), {"model.safetensors.index.json", "weight_map is missing"});
  refused({{"weight_map", {{"a", "../../secret"}}}},
          {"the file of a is \"../../secret\"", "in the same folder"});
  refused({{"weight_map", {{"a", 3}}}}, {"the file of a is 3"});
  for (const char* none : {"..", ".", ""})
    refused({{"weight_map", {{"a", none}}}}, {"listed as a file of tensors, and is none"});
  refused({{"weight_map", {{"a", "shard"}}}},
          {(folder / "shard").string(), "no such file, but model.safetensors.index.json"});
  write_weights(
      folder.path(), model, [](auto&) {}, "shard");
  refused({{"weight_map", {{"a", "shard"}}}}, {(folder / "shard").string(), "tensor a is missing"});
}

std::string nested(int depth) {
  std::string text = R"({"weight_map": {"a": 1}, "model_type": "llama", "pruned_heads": )";
  return text + std::string(static_cast<std::size_t>(depth), '[') +
         std::string(static_cast<std::size_t>(depth), ']') + "}";
}

TEST(HfFolder, JsonThatIsMalformedOrTooDeepIsRefusedWithItsPosition) {
  const TemporaryFolder folder;
  const fs::path config = folder / "config.json", index = folder / "model.safetensors.index.json";
  test::overwrite(config, "{\n  \"model_type\": \"llama\",\n}");
  expect_error<ConfigError>([&] { read_hf_config(folder.path()); },
                            {config.string() + ":3:1: this is not valid JSON"});
  test::overwrite(config, nested(100'000));
  expect_error<ConfigError>([&] { read_hf_config(folder.path()); },
                            {config.string() + ":1:", "nested more than 64 levels"});
  const Model model = test::tiny_llama();
  test::overwrite(index, nested(100'000));
  expect_error<ConfigError>([&] { HfFolder(folder.path(), model); },
                            {index.string() + ":1:", "nested more than 64 levels"});
}

TEST(HfFolder, AnExistingFolderIsNotOverwritten) {
  const TemporaryFolder folder;
  const Model model = test::tiny_llama();
  State state(model, 1);
  fs::create_directory(folder / "model");
  save(folder / "model", model, state);  // an empty one is fine
  expect_error<ConfigError>([&] { save(folder / "model", model, state); },
                            {(folder / "model").string(), "already exists"});
}

TEST(HfFolder, AFailedSaveLeavesNothingWhereverItFails) {
  const Model model = test::tiny_llama();
  State state(model, 1);
  HfExport options;
  options.shard_bytes = 500;
  FaultyFileSystem counting;
  const TemporaryFolder whole;
  save(whole / "model", model, state, options, counting);
  const int last = counting.operations() - 1;  // the sync of the folder above, after the rename
  for (int fail_at = 0; fail_at < last; ++fail_at) {
    const TemporaryFolder folder;
    FaultyFileSystem file_system(fail_at);
    expect_error<IoError>([&] { save(folder / "model", model, state, options, file_system); },
                          {"injected failure"});
    EXPECT_TRUE(fs::is_empty(folder.path())) << fail_at;
  }
}

TEST(HfExportFolder, IsMadeBesideWhatSomebodyElseHasThere) {
  const TemporaryFolder folder;
  const Model model = test::tiny_llama();
  State saved(model, 1), loaded(model, 0);
  fs::create_directory(folder / "model.tmp");
  write_file(quick(), folder / "model.tmp" / "thesis", "precious");
  write_file(quick(), folder / "model.tmp-2", "precious too");
  save(folder / "model", model, saved);
  EXPECT_EQ(read_file(folder / "model.tmp" / "thesis"), "precious");
  EXPECT_EQ(read_file(folder / "model.tmp-2"), "precious too");
  EXPECT_EQ(test::names_in(folder.path()), (std::set<std::string>{"model", "model.tmp", "model.tmp-2"}));
  load(folder / "model", model, loaded);
  expect_equal_parameters(model, saved, loaded);
}

TEST(HfExportFolder, IsReadInPiecesThatDoNotGrowWithTheModel) {
  const TemporaryFolder folder;
  const Model model = test::tiny_llama(false, 1024);
  ASSERT_GT(model.units[1].elements, 4 * kLargestRead);
  State saved(model, 1), loaded(model, 0);
  std::int64_t largest = 0;
  const ReadParameters read = test::read_from(saved);
  save_hf_folder(
      folder / "model", model,
      [&](std::size_t unit, FlatRange range, std::span<float> out) {
        largest = std::max(largest, range.count);
        read(unit, range, out);
      },
      {.config = to_hf_config(model.architecture)}, quick());
  EXPECT_EQ(largest, kLargestRead);
  load(folder / "model", model, loaded);
  expect_equal_parameters(model, saved, loaded);
}

/// transformers 4 knows no rope_parameters, and would take its default base.
TEST(HfExportFolder, HasSpellingsThatOldAndNewVersionsRead) {
  const TemporaryFolder folder;
  Model model = test::tiny_llama();
  model.architecture.rope.theta = 777;
  model.architecture.rope.linear_factor = 4;
  State state(model, 1);
  HfExport options;
  options.config = to_hf_config(model.architecture);
  for (const char* key : {"rope_theta", "rope_scaling"}) options.config.erase(key);
  options.config["rope_parameters"] = {{"rope_type", "linear"}, {"factor", 4}, {"rope_theta", 777}};
  options.config["bos_token_id"] = 3;
  save(folder / "model", model, state, options);
  const json config = read_hf_config(folder / "model");
  EXPECT_FALSE(config.contains("rope_parameters"));
  EXPECT_EQ(config["rope_theta"], 777);
  EXPECT_EQ(config["rope_scaling"], (json{{"rope_type", "linear"}, {"factor", 4}}));
  EXPECT_EQ(config["bos_token_id"], 3);
  EXPECT_EQ(parse_architecture(config, "test"), model.architecture);
}

TEST(HfExportFolder, GoesAwayWhereTheStateCannotBeRead) {
  const TemporaryFolder folder;
  const Model model = test::tiny_llama();
  EXPECT_THROW(save_hf_folder(
                   folder / "model", model,
                   [](std::size_t, FlatRange, std::span<float>) { throw ConfigError("damaged"); },
                   {.config = to_hf_config(model.architecture)}, quick()),
               ConfigError);
  EXPECT_TRUE(fs::is_empty(folder.path()));
}

}  // namespace
}  // namespace strata
