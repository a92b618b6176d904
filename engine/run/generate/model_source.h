// The model that a command names by folders: of Hugging Face, or one of Strata's checkpoints, whose
// parameters alone are read, and adapters for it. Adapters are merged as they are read, so that numbers are
// those of a merged export. One thread at a time.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "engine/run/generate/saved_model.h"

namespace strata {

/// The key of data.begin_token in a checkpoint's state of the data sampler, if it is not auto.
constexpr const char* kBeginTokenOfSampler = "begin_token";

struct ModelSource {
  std::unique_ptr<const Model> model;
  ReadParameters read;           ///< lives on the model
  std::filesystem::path folder;  ///< of the model, or of the checkpoint that was taken
  bool is_checkpoint = false;
  std::vector<std::filesystem::path> text_folders;  ///< where its tokenizer may be, the first that has one
  BeginToken begin_token = BeginToken::automatic;   ///< of the checkpoint's run
  std::string name;                                 ///< for a user: the folder, and of a checkpoint the step
  std::vector<std::string> warnings = {};           ///< newer checkpoints that are damaged, a sentence each
};

/// `path` is a folder of Hugging Face, a checkpoint (step-00000100), or a folder of checkpoints, whose newest
/// whole one is taken. `advice` ends the error that the model of a checkpoint's adapters is not there. Throws
/// ConfigError if the folder is none of these, or is damaged or of an unknown kind. Throws IoError if a file
/// cannot be read.
ModelSource open_model(const std::filesystem::path& path, const ModelUse& use, const std::string& advice);

/// The model at `path` with adapters: those of a folder of PEFT or of a checkpoint. Throws as open_model()
/// does, and ConfigError if the adapters are for another model.
ModelSource open_adapted_model(const std::filesystem::path& path, const std::filesystem::path& adapter,
                               const ModelUse& use);

}  // namespace strata
