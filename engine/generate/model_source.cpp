#include "engine/generate/model_source.h"

#include <fmt/format.h>

#include <utility>

#include "base/error.h"
#include "base/missing_path.h"
#include "engine/checkpoint/checkpoint_list.h"
#include "engine/checkpoint/initial_weights.h"
#include "engine/checkpoint/manifest.h"
#include "engine/checkpoint/rounded_blocks.h"
#include "engine/checkpoint/stored_state.h"
#include "engine/config/words.h"

namespace strata {
namespace {

namespace fs = std::filesystem;

ModelSource open_folder(const fs::path& folder, DeviceKind device, Rounding rounding) {
  const Architecture architecture =
      parse_architecture(read_hf_config(folder), (folder / "config.json").string());
  ModelSource source{
      .model = std::make_unique<const Model>(build_forward_model(architecture, {}, device, rounding)),
      .read = {},
      .folder = folder,
      .name = folder.string()};
  auto files = std::make_shared<const HfFolder>(folder, *source.model);
  source.read = [files, model = source.model.get()](std::size_t unit, FlatRange range, std::span<float> out) {
    files->read_range(model->units[unit], range, out);
  };
  if (std::string warning = unread_weights_warning(folder); !warning.empty())
    source.warnings.push_back(std::move(warning));
  return source;
}

/// The weights that a checkpoint's adapters stand beside. The file system still has them, or nobody does.
ReadTensor open_base(const fs::path& folder, const Manifest& manifest, const Model& model) {
  auto config = std::make_shared<RunConfig>();
  config->model.path = manifest.base->path;
  config->train.seed = manifest.base->seed;
  if (!config->model.path.empty() && !is_there(config->model.path)) {
    throw ConfigError(
        fmt::format("checkpoint {} has adapters alone, and the model that they belong to is not there: {}; "
                    "put it there, or export the checkpoint with --merge where it is",
                    folder.string(), config->model.path));
  }
  const BaseWeights base = base_weights(*config, model);
  if (base.identity.samples != manifest.base->samples) {
    throw ConfigError(fmt::format("{} has other weights than those that checkpoint {} has adapters of",
                                  config->model.path.empty() ? "its seed" : config->model.path,
                                  folder.string()));
  }
  return [config, read = base.read](const TensorSpec& tensor, std::int64_t first, std::span<float> out) {
    read(tensor, first, out);
  };
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

ModelSource open_checkpoint(const fs::path& folder, DeviceKind device, Rounding rounding) {
  const Manifest manifest = read_manifest(folder / kManifestName);
  verify_files(folder, manifest);
  ModelSource source{.model = std::make_unique<const Model>(build_forward_model(
                         manifest.architecture, manifest.freeze, device, rounding, manifest.adapter)),
                     .read = {},
                     .folder = folder,
                     .is_checkpoint = true,
                     .begin_token = begin_token_in(manifest),
                     .name = fmt::format("{} (step {})", folder.string(), manifest.progress.step)};
  auto state = std::make_shared<StoredState>(
      folder, manifest, *source.model, FileSystem::real(),
      manifest.base ? as_trained(open_base(folder, manifest, *source.model), manifest) : ReadTensor());
  source.read = [state](std::size_t unit, FlatRange range, std::span<float> out) {
    state->read(unit, weights_in(range.flat), range, out);
  };
  return source;
}

/// The newest of a folder's checkpoints that is whole.
ModelSource open_newest(const std::vector<CheckpointEntry>& entries, DeviceKind device, Rounding rounding) {
  std::vector<std::string> damages;
  for (const CheckpointEntry& entry : entries) {
    damages.push_back(entry.damage);
    if (!entry.manifest) continue;
    try {
      ModelSource source = open_checkpoint(entry.folder, device, rounding);
      damages.pop_back();
      source.warnings = std::move(damages);
      return source;
    } catch (const DamageError& error) {
      damages.back() = error.what();
    }
  }
  throw ConfigError(fmt::format("no checkpoint is whole: {}", damages.front()));
}

}  // namespace

Model build_forward_model(Architecture architecture, const std::vector<std::string>& freeze,
                          DeviceKind device, Rounding rounding, const RunConfig::AdapterSection& adapter) {
  architecture.balance_coefficient = 0;
  Model model = build_model(architecture, freeze, {}, rounding, adapter);
  model.max_chunk_bytes = max_chunk_bytes(device);
  return model;
}

ModelSource open_model(const fs::path& path, DeviceKind device, Rounding rounding) {
  if (is_there(path / kManifestName)) return open_checkpoint(path, device, rounding);
  if (is_there(path / "config.json") || is_there(path / "adapter_config.json"))
    return open_folder(path, device, rounding);
  std::error_code cannot_be_asked;
  const bool is_file = fs::is_regular_file(path, cannot_be_asked);
  const std::vector<CheckpointEntry> entries =
      is_file ? std::vector<CheckpointEntry>() : list_checkpoints(FileSystem::real(), path);
  if (!entries.empty()) return open_newest(entries, device, rounding);
  throw ConfigError(fmt::format(
      "{} is no model: expected a Hugging Face folder with config.json, a checkpoint (step-00000100), or a "
      "folder of checkpoints, as checkpoint.path names it{}",
      path.string(), fs::is_directory(path, cannot_be_asked) ? "" : advice_on_missing_model(path, "")));
}

}  // namespace strata
