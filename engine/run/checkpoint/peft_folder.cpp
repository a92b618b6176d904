#include "engine/run/checkpoint/peft_folder.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <set>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/excerpt.h"
#include "base/json_text.h"
#include "base/missing_path.h"
#include "base/nth.h"
#include "engine/config/adapter_section.h"
#include "engine/config/choices.h"
#include "engine/model/adapter_targets.h"
#include "engine/model/flat_range.h"
#include "engine/model/graph/adapters.h"
#include "engine/model/model.h"
#include "engine/run/checkpoint/read_weights.h"
#include "engine/run/checkpoint/refusals.h"

namespace strata {
namespace fs = std::filesystem;
namespace {

constexpr const char* kConfig = "adapter_config.json";
constexpr const char* kAdapterWeights = "adapter_model.safetensors";
constexpr const char* kPrefix = "base_model.model.";

/// About the folder of the file, if that is not there either.
std::string advice_on_missing_adapter(const fs::path& path) {
  std::error_code cannot_be_asked;
  const fs::path folder = path.parent_path();
  return fs::is_directory(folder, cannot_be_asked) ? "" : advice_on_missing_model(folder, "adapter.path");
}

fs::path existing(const fs::path& path) {
  std::error_code cannot_be_asked;
  if (!fs::is_regular_file(path, cannot_be_asked))
    throw ConfigError(fmt::format("{}: no such file; adapter.path names a folder of PEFT with {} and {}{}",
                                  path.string(), kConfig, kAdapterWeights, advice_on_missing_adapter(path)));
  return path;
}

template <typename Visit>
void for_each_adapter_tensor(const Model& model, const Visit& visit) {
  for (std::size_t unit = 0; unit < model.units.size(); ++unit) {
    for (const TensorSpec& tensor : model.units[unit].tensors)
      if (tensor.is_adapter) visit(unit, tensor);
  }
}

/// Keys of a LoraConfig that change no tensor's meaning: they say where it came from, how it was trained, or
/// which layers it has, as the tensors' names do.
constexpr std::string_view kKeysWithoutMeaning[] = {"auto_mapping",
                                                    "base_model_name_or_path",
                                                    "bias",
                                                    "ensure_weight_tying",
                                                    "eva_config",
                                                    "exclude_modules",
                                                    "fan_in_fan_out",
                                                    "inference_mode",
                                                    "layers_pattern",
                                                    "layers_to_transform",
                                                    "lora_dropout",
                                                    "megatron_config",
                                                    "megatron_core",
                                                    "peft_version",
                                                    "qalora_group_size",
                                                    "revision",
                                                    "runtime_config",
                                                    "target_modules",
                                                    "task_type"};
/// check_config() looks at their values.
constexpr std::string_view kKeysLookedAt[] = {
    "alpha_pattern", "init_lora_weights", "lora_alpha", "peft_type", "r",
    "rank_pattern",  "use_dora",          "use_rslora"};

/// By pissa, olora, corda, loftq and orthogonal PEFT takes from the base's weights what adapters begin with.
void check_initialization(const fs::path& path, const nlohmann::ordered_json& config) {
  const nlohmann::ordered_json way = config.value("init_lora_weights", nlohmann::ordered_json(true));
  if (way.is_null() || way.is_boolean() || way == "gaussian" || way == "eva") return;
  throw ConfigError(fmt::format(
      "{}: init_lora_weights is {}, by which PEFT changes the model's own weights, too; save the adapters "
      "as plain LoRA with PEFT (path_initial_model_for_weight_conversion of its save_pretrained)",
      path.string(), json_excerpt(way)));
}

/// A key that nobody knows may change what the tensors mean, unless it says nothing.
void refuse_unknown_keys(const fs::path& path, const nlohmann::ordered_json& config) {
  for (const auto& [key, value] : config.items()) {
    if (std::ranges::count(kKeysWithoutMeaning, key) + std::ranges::count(kKeysLookedAt, key) > 0) continue;
    const bool says_nothing = value.is_null() || value == false || (value.is_structured() && value.empty());
    if (!says_nothing)
      throw ConfigError(
          fmt::format("{}: {} is {}, and adapters with that are not read; remove the key if it "
                      "changes nothing",
                      path.string(), key, json_excerpt(value)));
  }
}

[[noreturn]] void refuse_value(const fs::path& path, const std::string& key,
                               const nlohmann::ordered_json& value, std::string_view expected) {
  throw ConfigError(
      fmt::format("{}: {} is {}; expected {}", path.string(), key, json_excerpt(value), expected));
}

std::int64_t rank_in(const fs::path& path, const std::string& key, const nlohmann::ordered_json& value) {
  constexpr std::int64_t kMostRank = std::int64_t{1} << 32;
  if (!value.is_number_integer() || value < 1 || value > kMostRank)
    refuse_value(path, key, value, "a positive integer");
  return value.get<std::int64_t>();
}

double alpha_in(const fs::path& path, const std::string& key, const nlohmann::ordered_json& value) {
  if (!value.is_number()) refuse_value(path, key, value, "a number");
  return value.get<double>();
}

template <typename T, typename Read>
ValuesByPattern<T> patterns_in(const fs::path& path, const std::string& key,
                               const nlohmann::ordered_json& config, const Read& read) {
  const nlohmann::ordered_json map = config.value(key, nlohmann::ordered_json());
  if (!map.is_null() && !map.is_object()) refuse_value(path, key, map, "a map of patterns");
  ValuesByPattern<T> values;
  for (const auto& [pattern, value] : map.items())
    values.emplace_back(pattern, read(path, fmt::format("{} of {}", key, excerpt(pattern)), value));
  return values;
}

/// The ranks and alphas that a LoraConfig gives.
AdapterSection ranks_in(const fs::path& path, const nlohmann::ordered_json& config) {
  constexpr int kDefault = 8;
  return {.rank = rank_in(path, "r", config.value("r", nlohmann::ordered_json(kDefault))),
          .alpha = alpha_in(path, "lora_alpha", config.value("lora_alpha", nlohmann::ordered_json(kDefault))),
          .rank_pattern = patterns_in<std::int64_t>(path, "rank_pattern", config, rank_in),
          .alpha_pattern = patterns_in<double>(path, "alpha_pattern", config, alpha_in),
          .path = ""};
}

/// Each layer has the rank and alpha that the folder gives it, whatever keys say so.
void check_ranks(const fs::path& path, const nlohmann::ordered_json& config, const Model& model) {
  const AdapterSection stored = ranks_in(path, config);
  AdapterPatterns theirs(stored, path.string() + ": "), ours(model.adapter, "adapter.");
  const auto expect = [&](const std::string& layer, std::string_view what, const char* key, auto found,
                          auto wanted) {
    if (found == wanted) return;
    throw ConfigError(fmt::format(
        "{}: {} of {} is {}, and this run's is {}; give adapter.{} and adapter.{}_pattern what r, "
        "lora_alpha, rank_pattern and alpha_pattern are there, or change adapter.path",
        path.string(), what, layer, found, wanted, key, key));
  };
  for_each_adapter_tensor(model, [&](std::size_t, const TensorSpec& tensor) {
    if (tensor.adapter_scale == 0) return;  // once a layer
    const std::string layer = adapted_layer(tensor.hf_name);
    const AdapterPatterns::Values found = theirs.of(layer), wanted = ours.of(layer);
    expect(layer, "the rank", "rank", found.rank, wanted.rank);
    expect(layer, "the alpha", "alpha", found.alpha, wanted.alpha);
  });
}

/// What changes the meaning of the tensors.
void check_config(const fs::path& path, const Model& model) {
  // PEFT takes the first pattern that matches, so their order counts.
  const nlohmann::ordered_json config = read_ordered_json_object(existing(path));
  const auto expect = [&](const char* key, const nlohmann::ordered_json& wanted,
                          const nlohmann::ordered_json& absent) {
    const nlohmann::ordered_json found = config.value(key, absent);
    if (found == wanted) return;
    throw ConfigError(
        fmt::format("{}: {} is {}, and this run's adapters have {}; change the run file's "
                    "adapter section or adapter.path",
                    path.string(), key, json_excerpt(found), wanted.dump()));
  };
  expect("peft_type", "LORA", nullptr);
  expect("use_rslora", model.adapter.type == AdapterType::rslora, false);
  expect("use_dora", model.adapter.type == AdapterType::dora, false);
  check_ranks(path, config, model);
  check_initialization(path, config);
  refuse_unknown_keys(path, config);
}

/// The last parts of the names of layers with adapters if they name no other layer, too; else whole names.
std::set<std::string> target_modules(const Model& model) {
  std::set<std::string> layers, ends, others;
  const auto end_of = [](const std::string& layer) { return layer.substr(layer.rfind('.') + 1); };
  for_each_adapter_tensor(model, [&](std::size_t, const TensorSpec& tensor) {
    const std::string layer = adapted_layer(tensor.hf_name);
    layers.insert(layer);
    ends.insert(end_of(layer));
  });
  for (const Unit& unit : model.units) {
    for (const TensorSpec& tensor : unit.tensors) {
      const std::string layer = layer_of(tensor.hf_name);
      if (!tensor.is_adapter && !layers.contains(layer)) others.insert(end_of(layer));
    }
  }
  const bool is_apart =
      std::ranges::none_of(ends, [&](const std::string& end) { return others.contains(end); });
  return is_apart ? ends : layers;
}

template <typename T>
nlohmann::ordered_json map_of(const ValuesByPattern<T>& values) {
  nlohmann::ordered_json map = nlohmann::ordered_json::object();
  for (const auto& [pattern, value] : values) map[pattern] = value;
  return map;
}

nlohmann::ordered_json config_of(const Model& model, const std::string& base) {
  const AdapterSection& adapter = model.adapter;
  return {{"alpha_pattern", map_of(adapter.alpha_pattern)},
          {"base_model_name_or_path", base.empty() ? nlohmann::ordered_json() : nlohmann::ordered_json(base)},
          {"bias", "none"},
          {"fan_in_fan_out", model.architecture.family == Family::gpt2},
          {"inference_mode", true},
          {"lora_alpha", adapter.alpha},
          {"lora_dropout", adapter.dropout},
          {"peft_type", "LORA"},
          {"r", adapter.rank},
          {"rank_pattern", map_of(adapter.rank_pattern)},
          {"target_modules", target_modules(model)},
          {"task_type", "CAUSAL_LM"},
          {"use_dora", adapter.type == AdapterType::dora},
          {"use_rslora", adapter.type == AdapterType::rslora}};
}

/// In a mixture PEFT takes adapters of these layers for those of experts, and drops what dense layers have.
void refuse_dense_layers_of_mixture(const fs::path& folder, const Model& model) {
  if (model.architecture.model_type != "qwen3_moe" || model.architecture.expert_layers() == 0) return;
  for_each_adapter_tensor(model, [&](std::size_t, const TensorSpec& tensor) {
    const std::string layer = adapted_layer(tensor.hf_name);
    if (layer.find(".mlp.") == std::string::npos) return;
    throw ConfigError(
        fmt::format("{}: PEFT would take the adapter of {} for one of experts and drop it, as the model is a "
                    "mixture with "
                    "dense layers; export with --merge, or train with adapter.targets of attention alone",
                    folder.string(), layer));
  });
}

/// Whether the shapes of A, [rank, inputs], or of B, [outputs, rank], differ in the rank alone.
bool differ_in_rank(const std::vector<std::int64_t>& shape, const TensorSpec& tensor) {
  const bool is_down = tensor.adapter_scale != 0;
  return shape.size() == 2 && tensor.hf_shape.size() == 2 &&
         (is_down ? shape.back() == tensor.hf_shape.back() : shape.front() == tensor.hf_shape.front());
}

/// The run has the ranks that the folder's config has.
[[noreturn]] void refuse_other_rank(const fs::path& path, const std::string& name,
                                    const std::vector<std::int64_t>& shape) {
  throw ConfigError(fmt::format(
      "{}: tensor {} has shape {}, and {} beside it gives that layer another rank: the two files were "
      "not saved together; put the {} there that belongs to the tensors",
      path.string(), name, format_shape(shape), kConfig, kConfig));
}

}  // namespace

PeftFolder::PeftFolder(const fs::path& folder, const Model& model)
    : file_(existing(folder / kAdapterWeights)) {
  check_config(folder / kConfig, model);
  std::set<std::string> needed;
  const auto refuse = [&](const std::string& sentence) {
    throw ConfigError(
        fmt::format("{}: {}; change adapter.targets or adapter.path", file_.path().string(), sentence));
  };
  for_each_adapter_tensor(model, [&](std::size_t, const TensorSpec& tensor) {
    const std::string name = kPrefix + tensor.hf_name;
    needed.insert(name);
    const auto stored = file_.tensors().find(name);
    if (stored == file_.tensors().end()) refuse(fmt::format("tensor {} is missing", name));
    if (stored->second.shape != tensor.hf_shape) {
      if (differ_in_rank(stored->second.shape, tensor))
        refuse_other_rank(file_.path(), name, stored->second.shape);
      refuse(fmt::format("tensor {} has shape {}, and this run's has {}", name,
                         format_shape(stored->second.shape), format_shape(tensor.hf_shape)));
    }
    file_.read(name, 0, {});  // refuses a dtype that cannot be read
  });
  for (const auto& [name, tensor] : file_.tensors())
    if (!needed.contains(name)) refuse(fmt::format("this run has no adapter tensor {}", name));
}

AdapterSection peft_section(const fs::path& folder) {
  constexpr std::string_view kDown = ".lora_A.weight";
  const fs::path path = folder / kConfig;
  const nlohmann::ordered_json config = read_ordered_json_object(existing(path));
  AdapterSection section = ranks_in(path, config);
  const bool is_rslora = config.value("use_rslora", nlohmann::ordered_json()) == true;
  const bool is_dora = config.value("use_dora", nlohmann::ordered_json()) == true;
  section.type = is_dora ? AdapterType::dora : is_rslora ? AdapterType::rslora : AdapterType::lora;
  section.targets.clear();
  const SafetensorsReader file(existing(folder / kAdapterWeights));
  for (const auto& [name, tensor] : file.tensors()) {
    if (name.starts_with(kPrefix) && name.ends_with(kDown))
      section.targets.push_back(name.substr(std::string_view(kPrefix).size(),
                                            name.size() - std::string_view(kPrefix).size() - kDown.size()));
  }
  if (section.targets.empty()) refuse(file.path(), fmt::format("it has no tensor {}…{}", kPrefix, kDown));
  return section;
}

std::string base_model_name(const fs::path& folder) {
  const nlohmann::json name =
      read_json_object(existing(folder / kConfig)).value("base_model_name_or_path", nlohmann::json());
  return name.is_string() ? name.get<std::string>() : "";
}

void PeftFolder::read_tensor(const std::string& name, std::int64_t first, std::span<float> out) const {
  read_weights(file_, kPrefix + name, first, out);
}

std::string dropout_warning(const AdapterSection& adapter) {
  const fs::path path = fs::path(adapter.path) / kConfig;
  if (adapter.path.empty() || !is_there(path)) return "";
  const nlohmann::json asked = read_json_object(path).value("lora_dropout", nlohmann::json(0));
  if (!asked.is_number() || asked.get<double>() == adapter.dropout) return "";
  return fmt::format("{}: lora_dropout is {}, and this run drops what adapter.dropout says, {}",
                     path.string(), json_excerpt(asked), adapter.dropout);
}

void save_peft_folder(const fs::path& folder, const Model& model, const ReadParameters& read,
                      const std::string& base, const HfExport& options, FileSystem& file_system) {
  refuse_dense_layers_of_mixture(folder, model);
  save_new_folder(folder, file_system, [&](const fs::path& place) {
    std::vector<TensorToWrite> tensors;
    for_each_adapter_tensor(model, [&](std::size_t, const TensorSpec& tensor) {
      tensors.push_back({kPrefix + tensor.hf_name, tensor.hf_shape});
    });
    SafetensorsWriter writer(file_system, place / kAdapterWeights, options.dtype, tensors);
    for_each_adapter_tensor(
        model, [&](std::size_t unit, const TensorSpec& tensor) { write_tensor(writer, unit, tensor, read); });
    writer.finish();
    write_beside_weights(file_system, place, options);
    write_file(file_system, place / kConfig, config_of(model, base).dump(2) + "\n");
  });
}

namespace {

/// Calls visit(first, values) for a tensor's stretches, from front to back.
template <typename Visit>
void for_each_stretch(const ReadParameters& read, std::size_t unit, const TensorSpec& tensor,
                      const Visit& visit) {
  auto values = sized<std::vector<float>>(std::min(kLargestRead, tensor.elements));
  for (std::int64_t done = 0; done < tensor.elements; done += kLargestRead) {
    const std::int64_t count = std::min(kLargestRead, tensor.elements - done);
    const std::span<float> stretch = slice(values, 0, count);
    read(unit, {tensor.offset + done, count, tensor.flat}, stretch);
    visit(done, stretch);
  }
}

/// What adapters make of one tensor.
class AdapterDelta {
 public:
  AdapterDelta(const ReadParameters& read, std::size_t unit, const AdaptedLayer& layer)
      : layer_(layer), down_(read_all(read, unit, *layer.down)), up_(read_all(read, unit, *layer.up)) {
    for (float& value : up_) value = static_cast<float>(value * layer.down->adapter_scale);
    if (layer.magnitude == nullptr) return;
    auto squares = sized<std::vector<double>>(layer.magnitude->elements);
    for_each_stretch(read, unit, *layer.weight, [&](std::int64_t first, std::span<float> values) {
      add_to(first, values);
      for (std::int64_t i = 0; i < std::ssize(values); ++i)
        squares[output_of(first + i)] += std::pow(double{nth(values, i)}, 2);
    });
    const std::vector<float> magnitudes = read_all(read, unit, *layer.magnitude);
    for (std::size_t i = 0; i < squares.size(); ++i)
      factors_.push_back(squares[i] > 0 ? static_cast<float>(magnitudes[i] / std::sqrt(squares[i])) : 0.0F);
  }

  const TensorSpec* weight() const { return layer_.weight; }

  /// Elements [first, first + values.size()) of the weight, row-major.
  void merge_into(std::int64_t first, std::span<float> values) const {
    add_to(first, values);
    for (std::int64_t i = 0; i < std::ssize(values) && !factors_.empty(); ++i)
      nth(values, i) *= factors_[output_of(first + i)];
  }

 private:
  /// The output that an element of the weight belongs to.
  std::size_t output_of(std::int64_t element) const {
    const std::int64_t columns = layer_.weight->hf_shape.back();
    return static_cast<std::size_t>(layer_.order == WeightOrder::linear ? element / columns
                                                                        : element % columns);
  }

  void add_to(std::int64_t first, std::span<float> values) const {
    const std::int64_t columns = layer_.weight->hf_shape.back(), rank = layer_.down->hf_shape.front();
    const std::int64_t inputs = layer_.down->hf_shape.back();
    const bool is_linear = layer_.order == WeightOrder::linear;
    const auto at = [](const std::vector<float>& matrix, std::int64_t row, std::int64_t width,
                       std::int64_t column) { return nth(matrix, row * width + column); };
    for (std::int64_t done = 0; done < std::ssize(values);) {
      const std::int64_t row = (first + done) / columns, column = (first + done) % columns;
      const std::int64_t count = std::min(columns - column, std::ssize(values) - done);
      const std::span<float> part = slice(values, done, count);
      for (std::int64_t r = 0; r < rank; ++r) {
        const float factor = is_linear ? at(up_, row, rank, r) : at(down_, r, inputs, row);
        for (std::int64_t i = 0; i < count; ++i) {
          nth(part, i) +=
              factor * (is_linear ? at(down_, r, inputs, column + i) : at(up_, column + i, rank, r));
        }
      }
      done += count;
    }
  }

  static std::vector<float> read_all(const ReadParameters& read, std::size_t unit, const TensorSpec& tensor) {
    std::vector<float> values;
    for_each_stretch(read, unit, tensor, [&](std::int64_t, std::span<const float> stretch) {
      values.insert(values.end(), stretch.begin(), stretch.end());
    });
    return values;
  }

  AdaptedLayer layer_;
  std::vector<float> down_, up_;
  std::vector<float> factors_;  ///< by output; none: all are 1
};

struct Merging {
  std::map<const TensorSpec*, AdaptedLayer> layers;  ///< by their weights
  std::unique_ptr<AdapterDelta> last;                ///< tensors are read from front to back
};

}  // namespace

ReadParameters merge_adapters(const Model& model, ReadParameters read) {
  const auto merging = std::make_shared<Merging>();
  for (const Unit& unit : model.units) {
    for (const AdaptedLayer& layer : adapted_layers(unit, model.graph_of(unit)))
      merging->layers.emplace(layer.weight, layer);
  }
  return [&model, merging, read = std::move(read)](std::size_t unit, FlatRange range, std::span<float> out) {
    read(unit, range, out);
    for (const TensorPiece& piece : pieces_in(model.units[unit], range)) {
      const auto layer = merging->layers.find(piece.tensor);
      if (layer == merging->layers.end()) continue;
      if (merging->last == nullptr || merging->last->weight() != piece.tensor)
        merging->last = std::make_unique<AdapterDelta>(read, unit, layer->second);
      merging->last->merge_into(piece.first, slice(out, piece.at, piece.count()));
    }
  };
}

}  // namespace strata
