#include "engine/run/assembly/default_folder.h"

#include <fmt/format.h>

#include <filesystem>

#include "base/error.h"
#include "base/json_text.h"
#include "base/resolved_path.h"
#include "engine/config/model_names.h"
#include "engine/config/run_config.h"
#include "engine/model/model.h"
#include "engine/run/checkpoint/checkpoint.h"
#include "engine/run/execute/run_record.h"

namespace strata {
namespace {

namespace fs = std::filesystem;

/// What a folder's newest checkpoint says; empty: there is none, or it is older than what it says.
std::string run_file_of_newest(const fs::path& folder) {
  for (const CheckpointEntry& entry : list_checkpoints(FileSystem::real(), folder))
    if (entry.manifest) return entry.manifest->run_file;
  return "";
}

}  // namespace

void refuse_other_run(const std::string& run_file, const RunModels& run, const std::string& advice) {
  const fs::path folder = run.checkpoint_path;
  if (folder != default_checkpoint_folder(run_file)) return;
  const auto refuse_other = [&](const fs::path& place, const std::string& saved) {
    // A record holds no bytes that are no UTF-8.
    if (saved.empty() || json_text(saved) == json_text(seen_from(place, run_file))) return;
    const fs::path other = (resolved(place) / saved).lexically_normal();
    throw ConfigError(
        fmt::format("checkpoint.path {}: what is saved there is of the run file {}, not of {}; {}",
                    place.string(), other.string(), resolved(run_file).string(), advice));
  };
  if (run.is_several) refuse_other(folder, load_run_record(folder).run_file);
  for (const NamedRun& model : run.models) {
    const std::string own = run.is_several ? folder_of_model(folder, model.name) : folder.string();
    if (model.config.checkpoint.path == own) refuse_other(own, run_file_of_newest(own));
  }
}

}  // namespace strata
