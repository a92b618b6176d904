#include "engine/run/generate/saved_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

#include "base/error.h"
#include "base/nth.h"
#include "engine/config/run_config.h"
#include "engine/model/build_model.h"
#include "engine/run/checkpoint/checkpoint_list.h"
#include "engine/run/checkpoint/initial_weights.h"
#include "engine/run/checkpoint/peft_folder.h"
#include "engine/run/checkpoint/rounded_blocks.h"
#include "engine/run/checkpoint/stored_state.h"

namespace strata {
namespace {

namespace fs = std::filesystem;

/// The weights that a checkpoint's adapters stand beside. The file system still has them, or nobody does.
ReadTensor open_base(const fs::path& checkpoint, const Manifest& manifest, const Model& model,
                     const BaseOptions& options) {
  auto config = std::make_shared<RunConfig>();
  config->model.path = options.folder.empty() ? manifest.base->path : options.folder.string();
  config->train.seed = manifest.base->seed;
  if (!config->model.path.empty() && !is_there(config->model.path)) {
    throw ConfigError(fmt::format(
        "checkpoint {} has adapters alone, and the model that they belong to is not there: {}; {}",
        checkpoint.string(), config->model.path, options.advice));
  }
  const BaseWeights base = base_weights(*config, model);
  if (base.identity.samples != manifest.base->samples) {
    throw ConfigError(fmt::format("{} has other weights than those that checkpoint {} has adapters of",
                                  config->model.path.empty() ? "its seed" : config->model.path,
                                  checkpoint.string()));
  }
  return [config, read = base.read](const TensorSpec& tensor, std::int64_t first, std::span<float> out) {
    read(tensor, first, out);
  };
}

void refuse_lack_of_averages(const fs::path& folder, const Manifest& manifest) {
  if (!manifest.averages)
    throw ConfigError(
        fmt::format("--ema: checkpoint {} is of a run without train.ema, so it has no moving averages of "
                    "weights; leave --ema out",
                    folder.string()));
  if (manifest.progress.counters.updates == 0)
    throw ConfigError(
        fmt::format("--ema: the run of checkpoint {} has made no update, so nothing was "
                    "averaged; leave --ema out",
                    folder.string()));
}

SavedModel open_checkpoint(const fs::path& folder, const ModelUse& use, const BaseOptions& base) {
  Manifest manifest = read_manifest(folder / kManifestName);
  verify_files(folder, manifest);
  if (use.averaged) refuse_lack_of_averages(folder, manifest);
  auto model = std::make_shared<const Model>(build_forward_model(manifest.architecture, manifest.freeze,
                                                                 use.device, use.rounding, manifest.adapter));
  ReadTensor weights;
  if (manifest.base && base.is_read)
    weights = as_trained(open_base(folder, manifest, *model, base), manifest);
  auto state =
      std::make_shared<StoredState>(folder, manifest, *model, FileSystem::real(), std::move(weights));
  const StateKey trained = use.averaged ? key_of(Moment::ema) : StateKey::master;
  ReadParameters read = [model, state, trained](std::size_t unit, FlatRange range, std::span<float> out) {
    state->read(unit, range.flat == Flat::trained ? trained : StateKey::frozen, range, out);
  };
  return {.folder = folder,
          .manifest = std::move(manifest),
          .model = std::move(model),
          .read = std::move(read),
          .warnings = {}};
}

}  // namespace

Model build_forward_model(Architecture architecture, const std::vector<std::string>& freeze,
                          DeviceKind device, Rounding rounding, const AdapterSection& adapter) {
  architecture.balance_coefficient = 0;
  Model model = build_model(architecture, {.rounding = rounding, .adapter = adapter, .freeze = freeze});
  model.max_chunk_bytes = max_chunk_bytes(device);
  return model;
}

bool is_checkpoint(const fs::path& folder) {
  return is_there(folder / kManifestName);
}

SavedModel open_saved_model(const fs::path& path, const ModelUse& use, const BaseOptions& base) {
  if (is_checkpoint(path)) return open_checkpoint(path, use, base);
  std::vector<std::string> damages;
  for (const CheckpointEntry& entry : list_checkpoints(FileSystem::real(), path)) {
    damages.push_back(entry.damage);
    if (!entry.manifest) continue;
    try {
      SavedModel saved = open_checkpoint(entry.folder, use, base);
      damages.pop_back();
      saved.warnings = std::move(damages);
      return saved;
    } catch (const DamageError& error) {
      damages.back() = error.what();
    }
  }
  if (damages.empty()) throw ConfigError(fmt::format("there is no checkpoint in {}", path.string()));
  throw ConfigError(fmt::format("no checkpoint is whole: {}", damages.front()));
}

MergedModel merged(std::shared_ptr<const Model> adapted, ReadParameters read, const ModelUse& use) {
  MergedModel result;
  result.model =
      std::make_unique<const Model>(build_forward_model(adapted->architecture, {}, use.device, use.rounding));
  std::map<std::string, const TensorSpec*> places;  // in the model with adapters, by HF name
  for (const Unit& unit : adapted->units)
    for (const TensorSpec& tensor : unit.tensors) places.emplace(tensor.hf_name, &tensor);
  ReadParameters sums = merge_adapters(*adapted, std::move(read));
  result.read = [adapted = std::move(adapted), sums = std::move(sums), places = std::move(places),
                 model = result.model.get()](std::size_t unit, FlatRange range, std::span<float> out) {
    std::ranges::fill(out, 0.0F);
    for (const TensorPiece& piece : pieces_in(model->units[unit], range)) {
      const TensorSpec& place = *places.at(piece.tensor->hf_name);
      sums(unit, {place.offset + piece.first, piece.count(), place.flat},
           slice(out, piece.at, piece.count()));
    }
  };
  return result;
}

}  // namespace strata
