#include <fmt/format.h>

#include <algorithm>
#include <system_error>

#include "base/error.h"
#include "base/nth.h"
#include "engine/model/graph/graph_shape.h"
#include "engine/model/model.h"
#include "engine/run/checkpoint/hf_folder.h"

namespace strata {
namespace fs = std::filesystem;
namespace {

/// A tensor and where its values are.
struct Source {
  std::size_t unit;
  const TensorSpec* tensor;
};

using Shard = std::vector<Source>;

/// Fills one shard after the other, as transformers does; a tensor larger than the limit has a shard to
/// itself.
std::vector<Shard> split(const Model& model, const HfExport& options) {
  std::vector<Shard> shards(1);
  std::int64_t bytes = 0;
  for (std::size_t unit = 0; unit < model.units.size(); ++unit) {
    for (const TensorSpec& tensor : model.units[unit].tensors) {
      if (tensor.is_adapter) continue;
      const std::int64_t size = tensor.elements * size_of(options.dtype);
      if (bytes > 0 && bytes + size > options.shard_bytes) {
        shards.emplace_back();
        bytes = 0;
      }
      shards.back().push_back({unit, &tensor});
      bytes += size;
    }
  }
  return shards;
}

std::string shard_name(std::size_t index, std::size_t count) {
  return count == 1 ? "model.safetensors" : fmt::format("model-{:05}-of-{:05}.safetensors", index + 1, count);
}

void write_shard(FileSystem& file_system, const fs::path& path, const Shard& shard,
                 const ReadParameters& read, DType dtype) {
  std::vector<TensorToWrite> tensors;
  for (const Source& source : shard) tensors.push_back({source.tensor->hf_name, source.tensor->hf_shape});
  SafetensorsWriter writer(file_system, path, dtype, tensors);
  for (const auto& [unit, tensor] : shard) write_tensor(writer, unit, *tensor, read);
  writer.finish();
}

std::string index_text(const std::vector<Shard>& shards, DType dtype) {
  nlohmann::json weight_map;
  std::int64_t total = 0;
  for (std::size_t i = 0; i < shards.size(); ++i) {
    for (const Source& source : shards[i]) {
      weight_map[source.tensor->hf_name] = shard_name(i, shards.size());
      total += source.tensor->elements * size_of(dtype);
    }
  }
  return nlohmann::json{{"metadata", {{"total_size", total}}}, {"weight_map", weight_map}}.dump(2);
}

/// What transformers 4 and 5 spell differently. transformers 4 ignores rope_parameters, and so would rotate
/// by its defaults without a word.
constexpr const char* kSpeltByVersion[] = {
    "rope_parameters",       "rope_scaling", "rope_theta",        "rope_local_base_freq",
    "partial_rotary_factor", "num_experts",  "num_local_experts", "original_max_position_embeddings"};

/// With the spellings that both versions read, which to_hf_config() has.
nlohmann::json for_all_versions(nlohmann::json config, const Architecture& architecture, DType dtype) {
  config.erase("dtype");
  config["torch_dtype"] = dtype == DType::fp32 ? "float32" : "bfloat16";
  const nlohmann::json own = to_hf_config(architecture);
  for (const char* key : kSpeltByVersion) {
    config.erase(key);
    if (const auto found = own.find(key); found != own.end()) config[key] = *found;
  }
  return config;
}

/// A new folder beside `target`, which nothing had the name of.
fs::path make_temporary(FileSystem& file_system, const fs::path& target) {
  for (int copy = 1;; ++copy) {
    fs::path folder = fs::path(target).concat(copy == 1 ? ".tmp" : fmt::format(".tmp-{}", copy));
    if (file_system.exists(folder)) continue;
    file_system.create_folder(folder);
    return folder;
  }
}

void write_files(FileSystem& file_system, const fs::path& folder, const Model& model,
                 const ReadParameters& read, const HfExport& options) {
  const std::vector<Shard> shards = split(model, options);
  for (std::size_t i = 0; i < shards.size(); ++i)
    write_shard(file_system, folder / shard_name(i, shards.size()), shards[i], read, options.dtype);
  if (shards.size() > 1)
    write_file(file_system, folder / "model.safetensors.index.json", index_text(shards, options.dtype));
  write_beside_weights(file_system, folder, options);
  write_file(file_system, folder / "config.json",
             for_all_versions(options.config, model.architecture, options.dtype).dump(2) + "\n");
}

}  // namespace

void write_beside_weights(FileSystem& file_system, const fs::path& folder, const HfExport& options) {
  Companions beside = options.companions;
  std::erase_if(beside, [](const Companion& companion) { return companion.name == "config.json"; });
  write_companions(file_system, folder, beside);
}

void write_tensor(SafetensorsWriter& writer, std::size_t unit, const TensorSpec& tensor,
                  const ReadParameters& read) {
  std::vector<float> piece;
  for (std::int64_t done = 0; done < tensor.elements; done += std::ssize(piece)) {
    resize(piece, std::min(kLargestRead, tensor.elements - done));
    read(unit, {tensor.offset + done, std::ssize(piece), tensor.flat}, piece);
    writer.write(piece);
  }
}

void save_new_folder(const fs::path& folder, FileSystem& file_system,
                     const std::function<void(const fs::path&)>& write) {
  const fs::path target = folder.has_filename() ? folder : folder.parent_path();
  const fs::path name = target.filename();
  if (name.empty() || name == "." || name == "..")
    throw ConfigError(fmt::format("'{}': is no name for a new folder; give the model one", folder.string()));
  std::error_code error;
  // A link to an empty folder is refused now: no folder can be renamed to it at the end.
  const bool is_folder = fs::is_directory(fs::symlink_status(target, error));
  // Nor to a mount point, which is busy.
  if (is_folder && file_system.filesystem_of(target) != file_system.filesystem_of(target / ".."))
    throw ConfigError(
        fmt::format("{0}: is a mount point, which must stay; give the model a new folder below "
                    "it, such as {1}",
                    folder.string(), (target / "model").string()));
  if (is_there(target) && !(is_folder && fs::is_empty(target, error)))
    throw ConfigError(fmt::format("{}: already exists; give the model a new folder", folder.string()));
  const fs::path parent = target.has_parent_path() ? target.parent_path() : fs::path(".");
  file_system.create_folders(parent);
  const fs::path temporary = make_temporary(file_system, target);
  try {
    write(temporary);
    file_system.sync_folder(temporary);
    file_system.rename(temporary, target);
  } catch (...) {
    remove_quietly(file_system, temporary);
    throw;
  }
  file_system.sync_folder(parent);
}

void save_hf_folder(const fs::path& folder, const Model& model, const ReadParameters& read,
                    const HfExport& options, FileSystem& file_system) {
  save_new_folder(folder, file_system,
                  [&](const fs::path& place) { write_files(file_system, place, model, read, options); });
}

}  // namespace strata
