// The weights that a run begins with: those of folders, where the run file names them, and random ones
// elsewhere.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>

#include "engine/model/flat_range.h"
#include "engine/run/checkpoint/hf_folder.h"
#include "engine/run/checkpoint/peft_folder.h"
#include "engine/run/checkpoint/stored_state.h"

namespace strata {

struct Model;
struct RunConfig;

/// Reading may happen from several threads.
class InitialWeights {
 public:
  /// Opens the folders of model.path and adapter.path. Throws ConfigError as they do. `model` must outlive
  /// it.
  InitialWeights(const RunConfig& config, const Model& model);

  /// A part of a unit's flat parameters, zeros in its padding, by the threads of the arena that the caller
  /// runs in. REQUIRES: out.size() == range.count.
  void read(const Unit& unit, FlatRange range, std::span<float> out) const;
  /// Elements [first, first + out.size()) of a whole tensor.
  void read_tensor(const TensorSpec& tensor, std::int64_t first, std::span<float> out) const;

  /// It covers some weights of each tensor of the folders, which finds folders that hold other weights of the
  /// same shapes, and is the same whatever part of them a rank has. Empty if there is no folder.
  std::string hash_of_samples() const;
  /// A hash of some weights of each frozen tensor, whether they come from a folder or not.
  std::string hash_of_frozen_samples() const;

  /// "weights from FOLDER", for a person.
  std::string description() const;

 private:
  ReadTensor as_passes_decode(const ReadTensor& read) const;
  std::string hash_of_tensors(const std::function<bool(const TensorSpec&)>& takes) const;

  const RunConfig& config_;
  const Model& model_;
  std::optional<HfFolder> folder_;
  std::optional<PeftFolder> adapters_;
};

/// What adapters stand beside, as checkpoints name it. `config` and `model` must outlive it.
BaseWeights base_weights(const RunConfig& config, const Model& model);

}  // namespace strata
