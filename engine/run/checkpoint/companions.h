// The files beside a model's weights that its users need: its config.json, and what turns text into its
// tokens and back. They are small, so a run reads them once, every checkpoint has them, and an export puts
// them beside the weights. Plain functions.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "base/file.h"
#include "engine/run/checkpoint/manifest.h"

namespace strata {

struct Companion {
  std::string name;  ///< relative to the model's folder, such as additional_chat_templates/rag.jinja
  std::string content;
};
using Companions = std::vector<Companion>;

/// Where they come from. Empty: there is no such place.
struct CompanionSources {
  std::filesystem::path model;      ///< a Hugging Face folder
  std::filesystem::path tokenizer;  ///< a folder with a tokenizer, or a tokenizer.json by any name
};

/// The folder of a checkpoint that has them.
constexpr const char* kCompanionFolder = "model";

/// Reads config.json and generation_config.json of the model's folder, and the tokenizer's and the chat
/// templates' files of the other. Links are followed. What is not there is left out; what is there and
/// cannot be read, or exceeds `limit` with those before it, is left out with a warning.
Companions find_companions(const CompanionSources& sources, std::vector<std::string>& warnings,
                           Bytes limit = 256 * MiB);

/// Those of a checkpoint in `folder`. What is missing, damaged or unknown to this program is left out with a
/// warning.
Companions stored_companions(const std::filesystem::path& folder, const Manifest& manifest,
                             std::vector<std::string>& warnings,
                             FileSystem& file_system = FileSystem::real());

/// Writes them into an existing folder that has none of them, and returns what a manifest says of them. Syncs
/// files and the folders that it makes. Throws IoError.
std::map<std::string, Manifest::File> write_companions(FileSystem& file_system,
                                                       const std::filesystem::path& folder,
                                                       const Companions& companions);

/// Null if there is none of that name.
const Companion* find(const Companions& companions, std::string_view name);
/// Whether one of them holds a vocabulary.
bool have_tokenizer(const Companions& companions);

}  // namespace strata
