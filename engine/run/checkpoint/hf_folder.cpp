#include "engine/run/checkpoint/hf_folder.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cassert>
#include <set>

#include "base/bytes.h"
#include "base/excerpt.h"
#include "base/json_text.h"
#include "base/missing_path.h"
#include "base/nth.h"
#include "engine/model/model.h"
#include "engine/model/name_patterns.h"
#include "engine/run/checkpoint/read_weights.h"
#include "engine/run/checkpoint/refusals.h"

namespace strata {
namespace fs = std::filesystem;
namespace {

constexpr const char* kWeights = "model.safetensors";
constexpr const char* kIndex = "model.safetensors.index.json";
constexpr const char *kPickled = "pytorch_model.bin", *kPickledIndex = "pytorch_model.bin.index.json";

/// Folders saved from the bare model (GPT2Model, as on the hub) lack the name that the language model puts in
/// front.
std::string full_name(const std::string& stored, Family family) {
  const std::string prefix = family == Family::gpt2 ? "transformer." : "model.";
  return stored.starts_with(prefix) || stored.starts_with("lm_head.") ? stored : prefix + stored;
}

/// Buffers that old versions of transformers saved beside the parameters; they hold nothing that is learned.
bool is_buffer(const std::string& name) {
  return name.ends_with(".attn.bias") || name.ends_with(".attn.masked_bias") ||
         name.ends_with(".rotary_emb.inv_freq");
}

std::vector<const TensorSpec*> tensors_of(const Model& model) {
  std::vector<const TensorSpec*> tensors;
  for (const Unit& unit : model.units) {
    for (const TensorSpec& tensor : unit.tensors)
      if (!tensor.is_adapter) tensors.push_back(&tensor);
  }
  return tensors;
}

nlohmann::json read_weight_map(const fs::path& index) {
  const nlohmann::json json = read_json_object(index);
  const auto weight_map = json.find("weight_map");
  if (weight_map == json.end() || !weight_map->is_object()) refuse(index, "weight_map is missing");
  return *weight_map;
}

std::set<std::string> files_in(const fs::path& index, const nlohmann::json& weight_map) {
  std::set<std::string> names;
  for (const auto& item : weight_map.items()) {
    const nlohmann::json& value = item.value();
    constexpr std::size_t kLongestName = 255;  // of Linux's file systems
    if (!value.is_string() || value.get_ref<const std::string&>().size() > kLongestName ||
        fs::path(value.get<std::string>()).filename() != value.get<std::string>()) {
      refuse(index, fmt::format("the file of {} is {}; expected a name in the same folder",
                                excerpt(item.key()), json_excerpt(value)));
    }
    names.insert(value.get<std::string>());
  }
  return names;
}

/// model-00001-of-00002.safetensors. Other names in a folder are other models' or other formats'.
bool is_shard(const std::string& name) {
  return matches("model-[0-9][0-9][0-9][0-9][0-9]-of-[0-9][0-9][0-9][0-9][0-9].safetensors", name);
}

/// Nothing if it cannot be read.
std::set<std::string> files_if_readable(const fs::path& index) try {
  return files_in(index, read_weight_map(index));
} catch (const ConfigError&) {
  return {};
} catch (const IoError&) {
  return {};
}

}  // namespace

bool has_pickled_weights(const fs::path& folder) {
  return is_there(folder / kPickled) || is_there(folder / kPickledIndex);
}

std::string unread_weights_warning(const fs::path& folder) {
  if (folder.empty()) return "";
  const bool is_one_file = is_there(folder / kWeights), has_index = is_there(folder / kIndex);
  const std::set<std::string> named =
      has_index ? files_if_readable(folder / kIndex) : std::set<std::string>();
  if (!is_one_file && named.empty()) return "";
  std::vector<std::string> unread;
  if (is_one_file && has_index && named != std::set<std::string>{kWeights}) unread.emplace_back(kIndex);
  for (const std::string& name : FileSystem::real().list(folder))
    if (is_shard(name) && (is_one_file || !named.contains(name))) unread.push_back(name);
  if (unread.empty()) return "";
  std::ranges::sort(unread);
  return fmt::format(
      "{}: of its weights {} read, and not {}: remove what is stale, or name another folder", folder.string(),
      is_one_file ? std::string(kWeights) + " is" : fmt::format("the files that {} names are", kIndex),
      fmt::join(unread, ", "));
}

nlohmann::json read_hf_config(const fs::path& folder) {
  std::error_code cannot_be_asked;
  const bool is_file = fs::is_regular_file(folder, cannot_be_asked);
  if (is_file || !is_there(folder)) {
    refuse(folder, fmt::format("{}; model.path names a folder with a HF model{}",
                               is_file ? "this is no folder" : "no such folder",
                               advice_on_missing_model(folder, "model.path")));
  }
  const fs::path adapter = folder / "adapter_config.json";
  if (is_there(adapter)) {
    refuse(
        adapter,
        "this is a folder of adapters: give it as adapter.path and the model beneath them as model.path, or "
        "move the file away to train the model without them");
  }
  const fs::path path = folder / "config.json";
  if (!is_there(path)) refuse(path, "no such file; a HF model's folder has one");
  return read_json_object(path);
}

HfFolder::HfFolder(fs::path folder, const Model& model) : folder_(std::move(folder)) {
  open_files(model);
  check_tensors(model);
  check_tied_head(model);
}

void HfFolder::open_files(const Model& model) {
  if (is_there(folder_ / kWeights)) {
    add_file(kWeights, model);
    return;
  }
  const fs::path index = folder_ / kIndex;
  if (!is_there(index)) {
    refuse(folder_, fmt::format("there is neither {} nor {}{}", kWeights, kIndex,
                                has_pickled_weights(folder_)
                                    ? fmt::format("; convert {} with transformers' save_pretrained", kPickled)
                                    : ""));
  }
  const nlohmann::json weight_map = read_weight_map(index);
  for (const std::string& name : files_in(index, weight_map)) add_file(name, model);
  check_index(weight_map);
}

void HfFolder::add_file(const std::string& file_name, const Model& model) {
  const fs::path path = folder_ / file_name;
  if (!is_there(path)) refuse(path, fmt::format("no such file, but {} lists it", kIndex));
  std::error_code cannot_be_asked;
  if (!fs::is_regular_file(path, cannot_be_asked))
    refuse(path, "it is listed as a file of tensors, and is none");
  files_.push_back(std::make_unique<SafetensorsReader>(path));
  const SafetensorsReader& file = *files_.back();
  for (const auto& [name, tensor] : file.tensors()) {
    const auto [place, is_new] =
        places_.try_emplace(full_name(name, model.architecture.family), Place{&file, name});
    if (!is_new)
      refuse(path, fmt::format("tensor {} is also in {}", name, place->second.file->path().string()));
  }
}

void HfFolder::check_index(const nlohmann::json& weight_map) const {
  for (const auto& item : weight_map.items()) {
    const fs::path path = folder_ / item.value().get<std::string>();
    const auto file = std::ranges::find(files_, path, [](const auto& reader) { return reader->path(); });
    if (!(*file)->tensors().contains(item.key())) {
      refuse(path, fmt::format("tensor {} is missing, but {} lists it here", item.key(), kIndex));
    }
  }
}

void HfFolder::check_tensors(const Model& model) const {
  std::set<std::string> needed;
  for (const TensorSpec* tensor : tensors_of(model)) {
    needed.insert(tensor->hf_name);
    const auto place = places_.find(tensor->hf_name);
    if (place == places_.end()) {
      const bool head = tensor->hf_name == "lm_head.weight";
      refuse(folder_, fmt::format("tensor {} is missing{}", tensor->hf_name,
                                  head ? "; is tie_word_embeddings in config.json right?" : ""));
    }
    const auto& [file, name] = place->second;
    const StoredTensor& stored = file->at(name);
    if (stored.shape != tensor->hf_shape) {
      refuse(file->path(), fmt::format("tensor {} has shape {}, config.json says {}", name,
                                       format_shape(stored.shape), format_shape(tensor->hf_shape)));
    }
    file->read(name, 0, {});  // refuses a dtype that cannot be read
  }
  for (const auto& [full, place] : places_) {
    const bool tied_head = model.architecture.tied_head && full == "lm_head.weight";
    if (needed.contains(full) || is_buffer(full) || tied_head) continue;
    refuse(place.file->path(),
           fmt::format("unexpected tensor {}: a {} with this config.json has none by that name", place.name,
                       model.architecture.model_type));
  }
}

/// A tied head may be stored twice. It must then be the same twice, or tying would drop one of the two.
void HfFolder::check_tied_head(const Model& model) const {
  if (!model.architecture.tied_head || !places_.contains("lm_head.weight")) return;
  const TensorSpec& embedding = model.embedding().tensors.front();
  const Place& head = places_.at("lm_head.weight");
  const std::string differs =
      "lm_head.weight is not the embedding, but config.json ties them; set tie_word_embeddings to false";
  if (head.file->at(head.name).shape != embedding.hf_shape) refuse(head.file->path(), differs);
  auto left = sized<std::vector<float>>(std::min(embedding.elements, MiB));
  std::vector<float> right(left.size());
  for (std::int64_t first = 0; first < embedding.elements; first += std::ssize(left)) {
    const auto count = static_cast<std::size_t>(std::min(std::ssize(left) + 0L, embedding.elements - first));
    read_tensor(embedding.hf_name, first, std::span(left).first(count));
    read_tensor("lm_head.weight", first, std::span(right).first(count));
    if (!std::equal(left.begin(), left.begin() + static_cast<std::ptrdiff_t>(count), right.begin())) {
      refuse(head.file->path(), differs);
    }
  }
}

void HfFolder::read_tensor(const std::string& hf_name, std::int64_t first, std::span<float> out) const {
  const Place& place = places_.at(hf_name);
  read_weights(*place.file, place.name, first, out);
}

void HfFolder::read_range(const Unit& unit, FlatRange range, std::span<float> flat) const {
  assert(std::ssize(flat) == range.count);
  std::ranges::fill(flat, 0.0F);
  for (const TensorRun& run : runs_in(unit, range)) {
    read_tensor(run.tensor->hf_name, run.first, slice(flat, run.at, run.count()));
  }
}

}  // namespace strata
