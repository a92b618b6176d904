// A model as one of Strata's checkpoints has it, and with the adapters of one merged. Parameters alone are
// read, a stretch at a time, from files that are there already. One thread at a time.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "base/precision.h"
#include "engine/config/adapter_section.h"
#include "engine/model/model.h"
#include "engine/run/checkpoint/hf_folder.h"
#include "engine/run/checkpoint/manifest.h"

namespace strata {

/// A model whose passes are forward only: without what the auxiliary loss of experts needs. As build_model().
Model build_forward_model(Architecture architecture, const std::vector<std::string>& freeze = {},
                          DeviceKind device = DeviceKind::cpu, Rounding rounding = Rounding::none,
                          const AdapterSection& adapter = {});

/// What a model is for, and which of a checkpoint's weights it has.
struct ModelUse {
  DeviceKind device = DeviceKind::cpu;
  Rounding rounding = Rounding::none;  ///< of products
  bool averaged = false;               ///< moving averages of what was trained, in place of the weights
};

/// How the weights beneath a checkpoint's adapters are found.
struct BaseOptions {
  std::filesystem::path folder;  ///< a Hugging Face folder; empty: the one that the checkpoint names
  bool is_read = true;           ///< false: only adapters will be read, so the weights need not be there
  std::string advice;            ///< how a user names the folder, for the error that it is not there
};

struct SavedModel {
  std::filesystem::path folder;  ///< of the checkpoint
  Manifest manifest;
  std::shared_ptr<const Model> model;  ///< with its adapters
  ReadParameters read;                 ///< keeps the model
  std::vector<std::string> warnings;   ///< newer checkpoints that are damaged, a sentence each
};

/// Whether the folder is a checkpoint (step-00000100).
bool is_checkpoint(const std::filesystem::path& folder);

/// `path` is a checkpoint, or a folder of checkpoints, whose newest whole one is taken. Throws ConfigError if
/// there is none, if it is damaged or of an unknown kind, or if it lacks the averages that are asked for. So
/// it does if the weights beneath its adapters are not there or are others. Throws IoError if a file cannot
/// be read.
SavedModel open_saved_model(const std::filesystem::path& path, const ModelUse& use, const BaseOptions& base);

/// A model without adapters.
struct MergedModel {
  std::unique_ptr<const Model> model;
  ReadParameters read;  ///< lives on the model
};

/// Adds the adapters to the weights, as merge_adapters() does, so that numbers are those of a merged export.
MergedModel merged(std::shared_ptr<const Model> adapted, ReadParameters read, const ModelUse& use);

}  // namespace strata
