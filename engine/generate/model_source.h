// The model that a command names by a folder: of Hugging Face, or one of Strata's checkpoints, whose
// parameters alone are read. One thread at a time.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "base/precision.h"
#include "engine/checkpoint/hf_folder.h"
#include "engine/config/run_config.h"
#include "engine/model/model.h"

namespace strata {

/// The key of data.begin_token in a checkpoint's state of the data sampler, if it is not auto.
constexpr const char* kBeginTokenOfSampler = "begin_token";

struct ModelSource {
  std::unique_ptr<const Model> model;
  ReadParameters read;           ///< lives on the model
  std::filesystem::path folder;  ///< of the model, or of the checkpoint that was taken
  bool is_checkpoint = false;
  BeginToken begin_token = BeginToken::automatic;  ///< of the checkpoint's run
  std::string name;                                ///< for a user: the folder, and of a checkpoint the step
  std::vector<std::string> warnings = {};          ///< newer checkpoints that are damaged, a sentence each
};

/// A model whose passes are forward only: without what the auxiliary loss of experts needs. As build_model().
Model build_forward_model(Architecture architecture, const std::vector<std::string>& freeze = {},
                          DeviceKind device = DeviceKind::cpu, Rounding rounding = Rounding::none,
                          const RunConfig::AdapterSection& adapter = {});

/// `path` is a folder of Hugging Face, a checkpoint (step-00000100), or a folder of checkpoints, whose newest
/// whole one is taken. Throws ConfigError if the folder is none of these, or is damaged or of an unknown
/// kind. Throws IoError if a file cannot be read.
ModelSource open_model(const std::filesystem::path& path, DeviceKind device, Rounding rounding);

}  // namespace strata
