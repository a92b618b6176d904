#include "engine/checkpoint/peft_folder.h"

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
#include "engine/checkpoint/read_weights.h"
#include "engine/config/words.h"
#include "engine/graph/adapters.h"
#include "engine/model/adapter_targets.h"
#include "engine/model/flat_range.h"

namespace strata {
namespace fs = std::filesystem;
namespace {

constexpr const char* kConfig = "adapter_config.json";
constexpr const char* kAdapterWeights = "adapter_model.safetensors";
constexpr const char* kPrefix = "base_model.model.";

fs::path existing(const fs::path& path) {
  std::error_code cannot_be_asked;
  if (!fs::is_regular_file(path, cannot_be_asked))
    throw ConfigError(fmt::format("{}: no such file; adapter.path names a folder of PEFT with {} and {}",
                                  path.string(), kConfig, kAdapterWeights));
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
void check_initialization(const fs::path& path, const nlohmann::json& config) {
  const nlohmann::json way = config.value("init_lora_weights", nlohmann::json(true));
  if (way.is_null() || way.is_boolean() || way == "gaussian" || way == "eva") return;
  throw ConfigError(fmt::format(
      "{}: init_lora_weights is {}, by which PEFT changes the model's own weights, too; save the adapters "
      "as plain LoRA with PEFT (path_initial_model_for_weight_conversion of its save_pretrained)",
      path.string(), json_excerpt(way)));
}

/// A key that nobody knows may change what the tensors mean, unless it says nothing.
void refuse_unknown_keys(const fs::path& path, const nlohmann::json& config) {
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

/// What changes the meaning of the tensors.
void check_config(const fs::path& path, const RunConfig::AdapterSection& adapter) {
  const nlohmann::json config = read_json_object(existing(path));
  const auto expect = [&](const char* key, const nlohmann::json& wanted, const nlohmann::json& absent) {
    const nlohmann::json found = config.value(key, absent);
    if (found == wanted) return;
    throw ConfigError(
        fmt::format("{}: {} is {}, and this run's adapters have {}; change the run file's "
                    "adapter section or adapter.path",
                    path.string(), key, json_excerpt(found), wanted.dump()));
  };
  expect("peft_type", "LORA", nullptr);
  expect("r", adapter.rank, 8);
  const nlohmann::json alpha = config.value("lora_alpha", nlohmann::json(8));
  if (!alpha.is_number() || alpha.get<double>() != adapter.alpha) expect("lora_alpha", adapter.alpha, 8);
  expect("use_rslora", adapter.type == AdapterType::rslora, false);
  expect("use_dora", adapter.type == AdapterType::dora, false);
  for (const char* key : {"rank_pattern", "alpha_pattern"}) {
    const nlohmann::json pattern = config.value(key, nlohmann::json());
    if (!pattern.is_null() && !pattern.empty()) expect(key, nlohmann::json::object(), nullptr);
  }
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

nlohmann::json config_of(const Model& model, const std::string& base) {
  const RunConfig::AdapterSection& adapter = model.adapter;
  return {{"peft_type", "LORA"},
          {"task_type", "CAUSAL_LM"},
          {"base_model_name_or_path", base.empty() ? nlohmann::json() : nlohmann::json(base)},
          {"r", adapter.rank},
          {"lora_alpha", adapter.alpha},
          {"lora_dropout", adapter.dropout},
          {"target_modules", target_modules(model)},
          {"bias", "none"},
          {"fan_in_fan_out", model.architecture.family == Family::gpt2},
          {"use_rslora", adapter.type == AdapterType::rslora},
          {"use_dora", adapter.type == AdapterType::dora},
          {"inference_mode", true}};
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

}  // namespace

PeftFolder::PeftFolder(const fs::path& folder, const Model& model)
    : file_(existing(folder / kAdapterWeights)) {
  check_config(folder / kConfig, model.adapter);
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
    if (stored->second.shape != tensor.hf_shape)
      refuse(fmt::format("tensor {} has shape {}, and this run's has {}", name,
                         format_shape(stored->second.shape), format_shape(tensor.hf_shape)));
    file_.read(name, 0, {});  // refuses a dtype that cannot be read
  });
  for (const auto& [name, tensor] : file_.tensors())
    if (!needed.contains(name)) refuse(fmt::format("this run has no adapter tensor {}", name));
}

void PeftFolder::read_tensor(const std::string& name, std::int64_t first, std::span<float> out) const {
  read_weights(file_, kPrefix + name, first, out);
}

std::string dropout_warning(const RunConfig::AdapterSection& adapter) {
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
  std::vector<float> values(static_cast<std::size_t>(std::min(kLargestRead, tensor.elements)));
  for (std::int64_t done = 0; done < tensor.elements; done += kLargestRead) {
    const std::int64_t count = std::min(kLargestRead, tensor.elements - done);
    const std::span<float> stretch = std::span(values).first(static_cast<std::size_t>(count));
    read(unit, {tensor.offset + done, count, tensor.flat}, stretch);
    visit(done, stretch);
  }
}

/// What adapters make of one tensor.
class AdapterDelta {
 public:
  AdapterDelta(const ReadParameters& read, std::size_t unit, const AdaptedLayer& layer, double scale)
      : layer_(layer), down_(read_all(read, unit, *layer.down)), up_(read_all(read, unit, *layer.up)) {
    for (float& value : up_) value = static_cast<float>(value * scale);
    if (layer.magnitude == nullptr) return;
    std::vector<double> squares(static_cast<std::size_t>(layer.magnitude->elements));
    for_each_stretch(read, unit, *layer.weight, [&](std::int64_t first, std::span<float> values) {
      add_to(first, values);
      for (std::int64_t i = 0; i < std::ssize(values); ++i)
        squares[output_of(first + i)] += std::pow(double{values[static_cast<std::size_t>(i)]}, 2);
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
      values[static_cast<std::size_t>(i)] *= factors_[output_of(first + i)];
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
                       std::int64_t column) {
      return matrix[static_cast<std::size_t>(row * width + column)];
    };
    for (std::int64_t done = 0; done < std::ssize(values);) {
      const std::int64_t row = (first + done) / columns, column = (first + done) % columns;
      const std::int64_t count = std::min(columns - column, std::ssize(values) - done);
      const std::span<float> part =
          values.subspan(static_cast<std::size_t>(done), static_cast<std::size_t>(count));
      for (std::int64_t r = 0; r < rank; ++r) {
        const float factor = is_linear ? at(up_, row, rank, r) : at(down_, r, inputs, row);
        for (std::int64_t i = 0; i < count; ++i) {
          part[static_cast<std::size_t>(i)] +=
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
        merging->last =
            std::make_unique<AdapterDelta>(read, unit, layer->second, adapter_scale(model.adapter));
      merging->last->merge_into(piece.first, out.subspan(static_cast<std::size_t>(piece.at),
                                                         static_cast<std::size_t>(piece.count())));
    }
  };
}

}  // namespace strata
