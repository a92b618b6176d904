// The state in a checkpoint's files. One rank wrote them, or many ranks each wrote their part. This knows the
// files' names and where each tensor's elements lie, and reads any range of the state. One thread at a time.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/file.h"
#include "engine/run/checkpoint/manifest.h"
#include "engine/run/checkpoint/safetensors.h"
#include "engine/run/checkpoint/state_access.h"

namespace strata {

/// The file with what one of `ranks` saves of one kind: "master.safetensors" of the only one,
/// "master-00002-of-00004.safetensors" of rank 1 of 4.
std::string file_name(StateKey key, int rank, int ranks);

/// How a file names and shapes its part of a unit's tensors, in the order of their elements:
/// - a whole tensor by its HF name and shape;
/// - a part as "NAME[first:last]", with these elements in one dimension;
/// - parts of equal length at one distance as "NAME[first:last+distance*count]", with a row for each part.
/// The parts that other ranks save are left out.
std::vector<TensorToWrite> stored_tensors(const Model& model, const Unit& unit, StateKey key,
                                          FlatRange range);

/// The weights that adapters stand beside, for checkpoints that only name them.
struct BaseWeights {
  Manifest::Base identity;
  ReadTensor read;
  bool as_trained = false;  ///< read them as a checkpoint's run did, if it kept them as codes in blocks
};

using TensorsByName = std::map<std::string, TensorSpec>;

class StoredState {
 public:
  /// Reads the headers of the files. Throws DamageError that names the file, or the folder, if they do not
  /// hold every element of the model's state just once. The manifest says which moments that has. `base`
  /// reads what the manifest only names. `model` must outlive this.
  StoredState(const std::filesystem::path& folder, const Manifest& manifest, const Model& model,
              FileSystem& file_system = FileSystem::real(), ReadTensor base = {});

  /// A range of a unit's state, zeros in its padding. REQUIRES: flat.size() == range.count; a base, if it is
  /// asked for what is frozen and the manifest only names that.
  void read(std::size_t unit, StateKey key, FlatRange range, std::span<float> flat);
  /// Elements [first, first + values.size()) of one of the model's whole tensors.
  void read_tensor(StateKey key, const TensorSpec& tensor, std::int64_t first, std::span<float> values);

 private:
  /// Elements [first, last) of a tensor, which stand in a file from byte `offset` on.
  struct Part {
    std::int64_t first, last;
    std::size_t file;
    std::int64_t offset;
  };
  using Parts = std::map<std::string, std::vector<Part>>;  ///< by HF name, in the order of their elements

  void add_file(const std::filesystem::path& path, StateKey key, const TensorsByName& tensors);
  void check_tensors(StateKey key, const UpdateRules& rules, const TensorsByName& tensors);
  void check_parts(StateKey key, const TensorSpec& tensor);
  const FileReader& open(std::size_t file);

  FileSystem* file_system_;
  std::filesystem::path folder_;
  const Model& model_;
  bool names_base_;
  ReadTensor base_;
  std::vector<std::filesystem::path> files_;
  EnumArray<StateKey, Parts> parts_;
  std::optional<FileReader> open_;  ///< the file that was read last: neighbours tend to lie in one
};

}  // namespace strata
