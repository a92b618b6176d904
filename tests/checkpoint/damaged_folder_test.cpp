// JSON of folders of Hugging Face that anybody may have written: read, or refused in a sentence.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/file.h"
#include "engine/config/adapter_section.h"
#include "engine/config/choices.h"
#include "engine/model/build_model.h"
#include "engine/run/checkpoint/hf_folder.h"
#include "engine/run/checkpoint/peft_folder.h"
#include "tests/base/overwrite.h"
#include "tests/base/temporary_folder.h"
#include "tests/checkpoint/support.h"
#include "tests/support/damaged_json.h"

namespace strata::test {
namespace {

using nlohmann::json;

json tiny_config() {
  return {{"model_type", "qwen2"},    {"num_hidden_layers", 1},       {"hidden_size", 4},
          {"num_attention_heads", 1}, {"num_key_value_heads", 1},     {"intermediate_size", 4},
          {"vocab_size", 2},          {"max_position_embeddings", 4}, {"tie_word_embeddings", true}};
}

const ReadParameters kZeros = [](std::size_t, FlatRange, std::span<float> out) {
  std::ranges::fill(out, 0.0F);
};

TEST(DamagedFolder, OfAdaptersIsReadOrRefusedInASentence) {
  const TemporaryFolder folder;
  const Model model = build_model(parse_architecture(tiny_config(), "tiny"),
                                  {.adapter = {.type = AdapterType::lora,
                                               .rank = 2,
                                               .alpha = 2,
                                               .targets = {AdapterSection::kAllLinear},
                                               .path = ""}});
  save_peft_folder(folder / "peft", model, kZeros, "", {}, quick());
  const std::filesystem::path path = folder / "peft/adapter_config.json";
  json config = json::parse(read_file(path));
  for (const char* key : {"rank_pattern", "alpha_pattern"}) config[key] = json::object();
  config["init_lora_weights"] = true;
  AdapterSection adapter = model.adapter;
  adapter.path = (folder / "peft").string();
  expect_read_or_refused(config, "adapter_config.json", 55, 250, [&](const json& damaged) {
    overwrite(path, damaged.dump());
    dropout_warning(adapter);
    const PeftFolder read(folder / "peft", model);
  });
}

// Invariant (DamagedFolder.*): Files that anybody may have written are read, or refused in a short sentence.
TEST(DamagedFolder, OfSeveralFilesIsReadOrRefusedInASentence) {
  const TemporaryFolder folder;
  const Model model = build_model(parse_architecture(tiny_config(), "tiny"));
  HfExport options;
  options.config = to_hf_config(model.architecture);
  save_hf_folder(folder / "hf", model, kZeros, options, quick());
  const std::filesystem::path whole = folder / "hf/model.safetensors",
                              index = folder / "hf/model.safetensors.index.json";
  json map = json::object();
  for (const Unit& unit : model.units)
    for (const TensorSpec& tensor : unit.tensors) map[tensor.hf_name] = "model-00001-of-00001.safetensors";
  std::filesystem::rename(whole, folder / "hf/model-00001-of-00001.safetensors");
  const json file = {{"metadata", {{"total_size", 100}}}, {"weight_map", map}};
  expect_read_or_refused(file, "/hf", 56, 250, [&](const json& damaged) {
    overwrite(index, damaged.dump());
    const HfFolder read(folder / "hf", model);
  });
}

}  // namespace
}  // namespace strata::test
