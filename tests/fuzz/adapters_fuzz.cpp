// Adapters: the targets of a run file, a line each, then a folder's adapter_config.json and its tensors.
// Parts that are empty are good ones.
#include "base/file.h"
#include "engine/config/adapter_section.h"
#include "engine/config/choices.h"
#include "engine/model/build_model.h"
#include "engine/model/model.h"
#include "engine/run/checkpoint/peft_folder.h"
#include "tests/fuzz/target.h"

namespace strata::fuzz {
namespace {

Model model_with(const std::vector<std::string>& targets) {
  const nlohmann::json config = {
      {"model_type", "qwen2"},    {"num_hidden_layers", 1},       {"hidden_size", 4},
      {"num_attention_heads", 1}, {"num_key_value_heads", 1},     {"intermediate_size", 4},
      {"vocab_size", 2},          {"max_position_embeddings", 4}, {"tie_word_embeddings", true}};
  return build_model(
      parse_architecture(config, "fuzz"),
      {.adapter = {.type = AdapterType::lora, .rank = 2, .alpha = 2, .targets = targets, .path = ""}});
}

std::vector<std::string> lines_of(std::string_view text) {
  std::vector<std::string> lines;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    lines.emplace_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return lines;
}

/// The files of adapters of all linear layers.
struct GoodFiles {
  GoodFiles() {
    const auto zeros = [](std::size_t, FlatRange, std::span<float> out) { std::ranges::fill(out, 0.0F); };
    save_peft_folder(folder() / "good", model_with({AdapterSection::kAllLinear}), zeros, "", {});
    config = read_file(folder() / "good" / "adapter_config.json");
    tensors = read_file(folder() / "good" / "adapter_model.safetensors");
  }
  std::string config, tensors;
};

void read_adapters(std::string_view input) {
  static const GoodFiles good;
  const std::string_view targets = next_part(input), config = next_part(input);
  const Model model =
      model_with(targets.empty() ? std::vector<std::string>{AdapterSection::kAllLinear} : lines_of(targets));
  write("adapter_config.json", config.empty() ? std::string_view(good.config) : config);
  write("adapter_model.safetensors", input.empty() ? std::string_view(good.tensors) : input);
  const PeftFolder adapters(folder(), model);
  for (const Unit& unit : model.units) {
    for (const TensorSpec& tensor : unit.tensors) {
      std::vector<float> values(static_cast<std::size_t>(tensor.elements));
      if (tensor.is_adapter) adapters.read_tensor(tensor.hf_name, 0, values);
    }
  }
}

}  // namespace
}  // namespace strata::fuzz

STRATA_FUZZ_TARGET(adapters, strata::fuzz::read_adapters)
