// A model as the Hugging Face folder that transformers reads and writes: config.json and model.safetensors,
// or an index with shards. Tensors are read and written a stretch at a time, so a folder larger than the
// memory is no trouble. Reading may happen from several threads.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "base/dtype.h"
#include "base/file.h"
#include "engine/model/flat_range.h"
#include "engine/model/graph/unit.h"
#include "engine/run/checkpoint/companions.h"
#include "engine/run/checkpoint/safetensors.h"
#include "engine/run/checkpoint/state_access.h"

namespace strata {

struct Model;

/// config.json of a folder. Throws ConfigError if the folder, the file or anything in it is wrong.
nlohmann::json read_hf_config(const std::filesystem::path& folder);

/// Whether the folder has weights as torch.save() writes them, which nobody reads beside safetensors.
bool has_pickled_weights(const std::filesystem::path& folder);

/// A sentence for a folder in which files of weights stand that were not saved together: which are read, as
/// transformers does, and which are not. Empty otherwise; what is wrong with the files that are read is said
/// where they are read.
std::string unread_weights_warning(const std::filesystem::path& folder);

class HfFolder {
 public:
  /// Opens the folder's weights and checks that they are exactly what `model` needs: every tensor but those
  /// of adapters there, of its shape and a readable dtype, and none left over. Throws ConfigError. Names may
  /// lack the "transformer." or "model." in front.
  HfFolder(std::filesystem::path folder, const Model& model);

  /// Elements [first, first + out.size()) of the tensor with this HF name.
  void read_tensor(const std::string& hf_name, std::int64_t first, std::span<float> out) const;
  /// A part of a unit's flat parameters, zeros in its padding. REQUIRES: flat.size() == range.count, and no
  /// adapters in it.
  void read_range(const Unit& unit, FlatRange range, std::span<float> flat) const;

 private:
  struct Place {
    const SafetensorsReader* file;
    std::string name;  ///< in that file
  };

  void open_files(const Model& model);
  void add_file(const std::string& file_name, const Model& model);
  void check_index(const nlohmann::json& weight_map) const;
  void check_tensors(const Model& model) const;
  void check_tied_head(const Model& model) const;

  std::filesystem::path folder_;
  std::vector<std::unique_ptr<SafetensorsReader>> files_;
  std::map<std::string, Place> places_;  ///< by full HF name
};

/// Fills `out` with the range of a unit's parameters as fp32, by its index in Model::units; at most
/// kLargestRead elements, so that nobody holds a whole tensor.
using ReadParameters = std::function<void(std::size_t unit, FlatRange range, std::span<float> out)>;

struct HfExport {
  nlohmann::json config;       ///< config.json: to_hf_config(), or that of the folder the model came from
  Companions companions = {};  ///< all but config.json are put beside the weights
  DType dtype = DType::fp32;   ///< of the tensors; bf16 rounds to nearest even
  std::int64_t shard_bytes = 5'000'000'000;  ///< larger models become several files with an index, as HF does
};

/// Makes a new folder of what `write` writes into the one it is given. It appears under its name when it is
/// whole and on the disk; until then it stands beside it, under a name that nothing had. Throws ConfigError
/// if `folder` exists and is not empty, is a mount point or no name of its own, IoError if writing fails;
/// then nothing is left behind.
void save_new_folder(const std::filesystem::path& folder, FileSystem& file_system,
                     const std::function<void(const std::filesystem::path&)>& write);

/// Its companions but for config.json.
void write_beside_weights(FileSystem& file_system, const std::filesystem::path& folder,
                          const HfExport& options);

/// The next tensor of a file, a stretch at a time.
void write_tensor(SafetensorsWriter& writer, std::size_t unit, const TensorSpec& tensor,
                  const ReadParameters& read);

/// Writes a new folder for from_pretrained, as save_new_folder() does, of the model without its adapters.
void save_hf_folder(const std::filesystem::path& folder, const Model& model, const ReadParameters& read,
                    const HfExport& options, FileSystem& file_system = FileSystem::real());

}  // namespace strata
