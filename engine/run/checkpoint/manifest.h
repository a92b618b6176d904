// The manifest of a checkpoint: what it holds, the model, and the checksum of every file, its own included.
// It is written last, so a folder with a manifest that checks out was written to its end.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/file.h"
#include "base/precision.h"
#include "collectives/communicator.h"
#include "engine/config/adapter_section.h"
#include "engine/model/architectures/architecture.h"
#include "optim/counters.h"
#include "optim/loss_scale.h"
#include "optim/update_policy.h"

namespace strata {

/// The checkpoint is whole, but of a version this program does not read: not damage, so nothing may be
/// skipped or removed.
struct UnknownVersionError : ConfigError {
  using ConfigError::ConfigError;
};

/// Where a run stands, beside its state.
struct Progress {
  Counters counters;         ///< older checkpoints only say steps, updates and skipped steps
  LossScale loss_scale;      ///< of an fp16 run
  nlohmann::json sampler;    ///< the data sampler's state, opaque here
  Precision precision = {};  ///< what the run computes in
  /// "key=value" of what plan.search chose, and for how many ranks; nothing if it chose nothing.
  std::vector<std::string> layout = {};
  std::int64_t layout_ranks = 0;
  nlohmann::json schedule = {};  ///< of the learning rate, as it was used; older checkpoints do not say it
  /// Values by key of the settings that decide which samples are read; older checkpoints do not say them.
  std::map<std::string, std::string> data = {};
  friend bool operator==(const Progress&, const Progress&) = default;
};

struct Manifest {
  struct File {
    std::int64_t bytes = 0;
    std::string xxh3;
    friend bool operator==(const File&, const File&) = default;
  };

  /// The weights that adapters were trained beside, which no file of the checkpoint has.
  struct Base {
    std::string path;        ///< model.path, from the root on; empty: they are random
    std::uint64_t seed = 0;  ///< of random ones
    std::string samples;     ///< a hash of some of each tensor's
    ParameterFormat frozen_as = ParameterFormat::precision;  ///< int8 or nf4 if they were kept so
    friend bool operator==(const Base&, const Base&) = default;
  };

  std::int64_t generation = 0;  ///< counts the saves into one checkpoint path; the newest has the highest
  Architecture architecture;
  std::vector<std::string> freeze = {};  ///< patterns of tensors that are not trained
  AdapterSection adapter = {};           ///< without its path, which only says how the run began
  std::optional<Base> base = {};         ///< if there are adapters; older checkpoints have its weights
  /// They say which moments there are. The number of tensors is of use only beside other rules'.
  UpdateRules rules = {{UpdateRule::adamw, 0}};
  bool averages = false;      ///< whether moving averages of weights are among the moments
  std::string run_file = {};  ///< its path from the checkpoint path on; older checkpoints do not say it
  Progress progress;
  std::map<std::string, File> files;            ///< of the state, by name in the checkpoint's folder
  std::map<std::string, File> companions = {};  ///< by name in the folder that it has of them (companions.h)
};

/// Whether state of a run with rules `a` is that of a run with rules `b`.
bool are_alike(const UpdateRules& a, const UpdateRules& b);

/// As `files` stand in the manifest.
void to_json(nlohmann::json& json, const Manifest::File& file);
void from_json(const nlohmann::json& json, Manifest::File& file);

constexpr const char* kManifestName = "manifest.json";

std::string to_text(const Manifest& manifest);

/// Throws DamageError that names `path` if the manifest is damaged, and UnknownVersionError.
Manifest parse_manifest(const std::string& text, const std::filesystem::path& path);
/// Throws DamageError that names `path` if the manifest is damaged or missing, UnknownVersionError, and
/// IoError if it cannot be read.
Manifest read_manifest(const std::filesystem::path& path, FileSystem& file_system = FileSystem::real());

/// How much a rank reads before all meet again: none waits for another longer than this takes.
inline constexpr Bytes kVerifiedBetweenMeetings = GiB;

/// Throws DamageError that names the file if one of the checkpoint's is missing, truncated or changed, and
/// IoError if one cannot be read; reads them from front to back. Of several ranks each reads its share:
/// every size()-th file. All call it together and throw the same.
void verify_files(const std::filesystem::path& folder, const Manifest& manifest,
                  FileSystem& file_system = FileSystem::real(), Communicator* ranks = nullptr,
                  Bytes between_meetings = kVerifiedBetweenMeetings);

/// What tells two models apart, for a person: "hidden 768 vs 512, layers 12 vs 6". Empty if one can go on
/// with the other's state.
std::string difference(const Architecture& stored, const Architecture& expected);

}  // namespace strata
