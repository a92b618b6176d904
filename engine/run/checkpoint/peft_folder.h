// A model's adapters as the folder that PEFT reads and writes: adapter_config.json and
// adapter_model.safetensors, whose tensors are called base_model.model.LAYER.lora_A.weight, …lora_B.weight
// and …lora_magnitude_vector.
#pragma once

#include <filesystem>
#include <span>
#include <string>

#include "base/file.h"
#include "engine/config/adapter_section.h"
#include "engine/run/checkpoint/hf_folder.h"
#include "engine/run/checkpoint/safetensors.h"

namespace strata {

struct Model;

/// Reading may happen from several threads.
class PeftFolder {
 public:
  /// Throws ConfigError if its adapters are not exactly those of `model`: their layers, type, ranks and
  /// alphas.
  PeftFolder(const std::filesystem::path& folder, const Model& model);

  /// Elements [first, first + out.size()) of one of the model's adapter tensors.
  void read_tensor(const std::string& name, std::int64_t first, std::span<float> out) const;

 private:
  SafetensorsReader file_;
};

/// The `adapter` section that asks for just the adapters of a folder of PEFT, but for its path. Throws
/// ConfigError for what is damaged or of no kind that is read.
AdapterSection peft_section(const std::filesystem::path& folder);

/// The model that a folder of PEFT was trained on, as the folder names it: a path, or a name on a hub. Empty:
/// it names none. Throws ConfigError if its configuration is damaged.
std::string base_model_name(const std::filesystem::path& folder);

/// If adapter.path names a folder that asks for another dropout than adapter.dropout: a sentence that says
/// so. Empty otherwise; what is wrong with the folder is said where it is read.
std::string dropout_warning(const AdapterSection& adapter);

/// Writes a new folder for PeftModel.from_pretrained, as save_hf_folder() does; of `options` it takes the
/// dtype and what is put beside the weights. `base` is the folder of the model beneath the adapters, or
/// empty. Throws as save_hf_folder() does.
void save_peft_folder(const std::filesystem::path& folder, const Model& model, const ReadParameters& read,
                      const std::string& base, const HfExport& options,
                      FileSystem& file_system = FileSystem::real());

/// Reads the model's own tensors with their adapters merged: W + scale · B · A, added up in fp32. DoRA's
/// magnitudes then scale each row to the length that they say. Holds the adapters of one tensor at a time,
/// and with magnitudes reads that tensor once more. One thread. `model` must outlive it.
ReadParameters merge_adapters(const Model& model, ReadParameters read);

}  // namespace strata
