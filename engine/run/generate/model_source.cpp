#include "engine/run/generate/model_source.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

#include "base/error.h"
#include "base/missing_path.h"
#include "engine/config/choices.h"
#include "engine/model/weight_norms.h"
#include "engine/run/checkpoint/checkpoint_list.h"
#include "engine/run/checkpoint/companions.h"
#include "engine/run/checkpoint/peft_folder.h"

namespace strata {
namespace {

namespace fs = std::filesystem;

ModelSource open_folder(const fs::path& folder, const ModelUse& use) {
  if (use.averaged)
    throw ConfigError(fmt::format(
        "--ema: {} is a Hugging Face folder, which has no moving averages of weights; name a checkpoint",
        folder.string()));
  const Architecture architecture =
      parse_architecture(read_hf_config(folder), (folder / "config.json").string());
  ModelSource source{
      .model = std::make_unique<const Model>(build_forward_model(architecture, {}, use.device, use.rounding)),
      .read = {},
      .folder = folder,
      .text_folders = {folder},
      .name = folder.string()};
  auto files = std::make_shared<const HfFolder>(folder, *source.model);
  source.read = [files, model = source.model.get()](std::size_t unit, FlatRange range, std::span<float> out) {
    files->read_range(model->units[unit], range, out);
  };
  if (std::string warning = unread_weights_warning(folder); !warning.empty())
    source.warnings.push_back(std::move(warning));
  return source;
}

/// As data_of() of a run has put it beside the state of its sampler; auto is not named.
BeginToken begin_token_in(const Manifest& manifest) {
  const nlohmann::json& sampler = manifest.progress.sampler;
  const auto found = sampler.is_object() ? sampler.find(kBeginTokenOfSampler) : sampler.end();
  if (found == sampler.end() || !found->is_string()) return BeginToken::automatic;
  const auto& words = Words<BeginToken>::list;
  const auto word = std::ranges::find(words, found->get_ref<const std::string&>());
  return word == words.end() ? BeginToken::automatic : static_cast<BeginToken>(word - words.begin());
}

ModelSource source_of(SavedModel saved, const ModelUse& use) {
  MergedModel model = merged(std::move(saved.model), std::move(saved.read), use);
  return {.model = std::move(model.model),
          .read = std::move(model.read),
          .folder = saved.folder,
          .is_checkpoint = true,
          .text_folders = {saved.folder / kCompanionFolder},
          .begin_token = begin_token_in(saved.manifest),
          .name = fmt::format("{} (step {})", saved.folder.string(), saved.manifest.progress.counters.step),
          .warnings = std::move(saved.warnings)};
}

/// Reads a tensor of the model beneath adapters, by its place in `source`.
ReadTensor tensors_of(std::shared_ptr<const Model> model, ReadParameters read) {
  struct Place {
    std::size_t unit;
    const TensorSpec* tensor;
  };
  std::map<std::string, Place> places;
  for (std::size_t unit = 0; unit < model->units.size(); ++unit)
    for (const TensorSpec& tensor : model->units[unit].tensors)
      places.emplace(tensor.hf_name, Place{unit, &tensor});
  return [model = std::move(model), read = std::move(read), places = std::move(places)](
             const TensorSpec& tensor, std::int64_t first, std::span<float> out) {
    const Place& place = places.at(tensor.hf_name);
    read(place.unit, {place.tensor->offset + first, std::ssize(out), place.tensor->flat}, out);
  };
}

/// The adapters of a folder of PEFT beside the weights of `base`.
MergedModel with_peft_folder(std::shared_ptr<const Model> base, ReadParameters read, const fs::path& adapter,
                             const ModelUse& use) {
  auto adapted = std::make_shared<const Model>(
      build_forward_model(base->architecture, {}, use.device, use.rounding, peft_section(adapter)));
  auto adapters = std::make_shared<const PeftFolder>(adapter, *adapted);
  const ReadTensor read_tensor = [adapters, beneath = tensors_of(std::move(base), std::move(read))](
                                     const TensorSpec& tensor, std::int64_t first, std::span<float> out) {
    if (tensor.is_adapter) {
      adapters->read_tensor(tensor.hf_name, first, out);
    } else {
      beneath(tensor, first, out);
    }
  };
  return merged(
      adapted,
      [model = adapted.get(), read_tensor](std::size_t unit, FlatRange range, std::span<float> out) {
        fill_unit(model->units[unit], range, read_tensor, ReadTensor(), out);
      },
      use);
}

}  // namespace

ModelSource open_model(const fs::path& path, const ModelUse& use, const std::string& advice) {
  if (is_checkpoint(path))
    return source_of(open_saved_model(path, use, {.folder = {}, .advice = advice}), use);
  if (is_there(path / "config.json") || is_there(path / "adapter_config.json")) return open_folder(path, use);
  std::error_code cannot_be_asked;
  const bool is_file = fs::is_regular_file(path, cannot_be_asked);
  if (!is_file && !checkpoint_folders(FileSystem::real(), path).empty())
    return source_of(open_saved_model(path, use, {.folder = {}, .advice = advice}), use);
  throw ConfigError(fmt::format(
      "{} is no model: expected a Hugging Face folder with config.json, a checkpoint (step-00000100), or a "
      "folder of checkpoints, as checkpoint.path names it{}",
      path.string(), fs::is_directory(path, cannot_be_asked) ? "" : advice_on_missing_model(path, "")));
}

ModelSource open_adapted_model(const fs::path& path, const fs::path& adapter, const ModelUse& use) {
  if (!is_there(adapter)) throw ConfigError(fmt::format("--adapter: {} is not there", adapter.string()));
  if (!is_there(adapter / "adapter_config.json")) {
    if (!is_there(path / "config.json"))
      throw ConfigError(
          fmt::format("{} has checkpoints of adapters, and {} is no Hugging Face folder, to which "
                      "they belong; name that one",
                      adapter.string(), path.string()));
    SavedModel saved = open_saved_model(adapter, use, {.folder = path, .advice = ""});
    if (!saved.manifest.base)
      throw ConfigError(fmt::format("checkpoint {} has a whole model, and no adapters that belong to {}",
                                    saved.folder.string(), path.string()));
    ModelSource source = source_of(std::move(saved), use);
    source.text_folders.push_back(path);
    return source;
  }
  ModelSource source = open_model(path, use, "");
  try {
    MergedModel model = with_peft_folder(std::move(source.model), std::move(source.read), adapter, use);
    source.model = std::move(model.model);
    source.read = std::move(model.read);
  } catch (const ConfigError& error) {
    throw ConfigError(
        fmt::format("{} has no adapters of {}: {}", adapter.string(), path.string(), error.what()));
  }
  source.text_folders.insert(source.text_folders.begin(), adapter);
  source.name += " with " + adapter.string();
  return source;
}

}  // namespace strata
