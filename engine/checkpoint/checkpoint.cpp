#include "engine/checkpoint/checkpoint.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <memory>
#include <numeric>
#include <string_view>

#include "engine/base/error.h"
#include "engine/checkpoint/safetensors.h"

namespace strata {
namespace fs = std::filesystem;
namespace {

/// "step-00000100", or "step-00000100-2" where that one was taken.
bool is_checkpoint_name(std::string_view name) {
  constexpr std::string_view kPrefix = "step-";
  if (!name.starts_with(kPrefix)) return false;
  name.remove_prefix(kPrefix.size());
  const std::size_t digits = std::min(name.find_first_not_of("0123456789"), name.size());
  const std::string_view copy = name.substr(digits);
  const bool is_copy =
      copy.size() > 1 && copy[0] == '-' && copy.find_first_not_of("0123456789", 1) == copy.npos;
  return digits >= 8 && (copy.empty() || is_copy);
}

bool is_leftover_name(std::string_view name) {
  const std::string suffix = temporary_name("").string();
  if (!name.ends_with(suffix)) return false;
  name.remove_suffix(suffix.size());
  return is_checkpoint_name(name);
}

/// Folders of ours only: whatever else a user keeps there stays.
std::vector<fs::path> folders(const fs::path& path, bool (*is_ours)(std::string_view)) {
  std::vector<fs::path> found;
  if (!is_there(path)) return found;
  try {
    for (const fs::directory_entry& entry : fs::directory_iterator(path)) {
      if (is_ours(entry.path().filename().string())) found.push_back(entry.path());
    }
  } catch (const fs::filesystem_error& error) {
    throw IoError(fmt::format("cannot list {}: {}", path.string(), error.code().message()));
  }
  std::ranges::sort(found);
  return found;
}

void refuse_other_model(const fs::path& folder, const Architecture& stored, const Architecture& expected) {
  const std::string other = difference(stored, expected);
  if (other.empty()) return;
  throw ConfigError(
      fmt::format("checkpoint {} holds another model ({}); use another checkpoint.path or --fresh",
                  folder.string(), other));
}

/// REQUIRES: the folder's files were verified, so they hold the tensors of the manifest's architecture.
void read_state(const fs::path& folder, const Model& model, const StateAccess& state) {
  std::vector<SafetensorsReader> readers;
  for (const StateKind kind : kStateKinds) readers.emplace_back(folder / file_name(kind));
  for (std::size_t unit = 0; unit < model.units.size(); ++unit) {
    for (const StateKind kind : kStateKinds) {
      state.write(unit, kind, [&](std::span<float> flat) {
        std::ranges::fill(flat, 0.0F);
        for (const TensorSpec& tensor : model.units[unit].tensors) {
          readers[static_cast<std::size_t>(kind)].read(
              tensor.hf_name, 0,
              flat.subspan(static_cast<std::size_t>(tensor.offset),
                           static_cast<std::size_t>(tensor.elements)));
        }
      });
    }
  }
}

}  // namespace

void check_checkpoint_writable(const fs::path& path, FileSystem& file_system) {
  const fs::path probe = path / ".writable.tmp";
  try {
    file_system.create_folders(path);
    write_file(file_system, probe, "Checkpoints can be written here.\n");
    file_system.remove_all(probe);
  } catch (const IoError& error) {
    remove_quietly(file_system, probe);
    throw ConfigError(fmt::format("checkpoint.path {} is not writable: {}", path.string(), error.what()));
  }
}

CheckpointStore::CheckpointStore(fs::path path, std::int64_t keep, FileSystem& file_system)
    : path_(std::move(path)), keep_(std::max<std::int64_t>(keep, 1)), file_system_(file_system) {}

void CheckpointStore::remove_leftovers() {
  for (const fs::path& folder : folders(path_, is_leftover_name)) file_system_.remove_all(folder);
}

std::vector<CheckpointStore::Entry> CheckpointStore::entries() const {
  std::vector<Entry> entries;
  for (const fs::path& folder : folders(path_, is_checkpoint_name)) {
    Entry entry{folder, std::nullopt, ""};
    try {
      entry.manifest = read_manifest(folder / kManifestName);
    } catch (const UnknownVersionError&) {
      throw;
    } catch (const Error& error) {
      entry.damage = error.what();
    }
    entries.push_back(std::move(entry));
  }
  const auto generation = [](const Entry& entry) {
    return entry.manifest ? entry.manifest->generation : INT64_MAX;
  };
  std::ranges::stable_sort(entries, std::ranges::greater(), generation);
  return entries;
}

fs::path CheckpointStore::new_folder(std::int64_t step) const {
  const std::string name = fmt::format("step-{:08}", step);
  fs::path folder = path_ / name;
  for (int copy = 2; is_there(folder); ++copy) folder = path_ / fmt::format("{}-{}", name, copy);
  return folder;
}

std::unique_ptr<CheckpointWriter> CheckpointStore::begin(const Model& model, std::int64_t step,
                                                         std::vector<std::size_t> units) {
  Manifest manifest;
  manifest.architecture = model.architecture;
  std::string newest = "there is none before it";
  for (const Entry& entry : entries()) {
    if (!entry.manifest) continue;
    manifest.generation = entry.manifest->generation + 1;
    newest = fmt::format("{} before it is untouched", entry.folder.string());
    break;
  }
  return std::make_unique<CheckpointWriter>(
      file_system_, model, std::move(units),
      CheckpointWriter::Target{
          .folder = new_folder(step),
          .manifest = std::move(manifest),
          .failure = fmt::format("the checkpoint of step {} was not saved ({})", step, newest)});
}

void CheckpointStore::finish(std::unique_ptr<CheckpointWriter> checkpoint, const Progress& progress) {
  checkpoint->finish(progress);
  remove_old();
}

void CheckpointStore::save(const Model& model, const Progress& progress, const StateAccess& state) {
  std::vector<std::size_t> units(model.units.size());
  std::iota(units.begin(), units.end(), std::size_t{0});
  std::unique_ptr<CheckpointWriter> checkpoint = begin(model, progress.step, units);
  for (const std::size_t unit : units) {
    for (const StateKind kind : kStateKinds) {
      const std::span<const float> flat = state.read(unit, kind);
      checkpoint->add(unit, kind, [flat](std::int64_t first, std::int64_t count) {
        return flat.subspan(static_cast<std::size_t>(first), static_cast<std::size_t>(count));
      });
    }
  }
  finish(std::move(checkpoint), progress);
}

void CheckpointStore::remove_old() {
  for (const fs::path& folder : damaged_) remove(folder);
  damaged_.clear();
  std::int64_t kept = 0;
  for (const Entry& entry : entries()) {
    if (entry.manifest && kept++ >= keep_) remove(entry.folder);
  }
}

/// Half removed, it must not look like a damaged checkpoint to the next run, but like the leftover that it
/// is.
void CheckpointStore::remove(const fs::path& folder) {
  const fs::path leftover = temporary_name(folder);
  file_system_.rename(folder, leftover);
  file_system_.sync_folder(path_);
  file_system_.remove_all(leftover);
}

std::optional<LoadedCheckpoint> CheckpointStore::load_newest(const Model& model, const StateAccess& state) {
  LoadedCheckpoint loaded;
  for (const Entry& entry : entries()) {
    if (entry.manifest) refuse_other_model(entry.folder, entry.manifest->architecture, model.architecture);
    try {
      if (!entry.manifest) throw ConfigError(entry.damage);
      verify_files(entry.folder, *entry.manifest);
    } catch (const Error& error) {
      loaded.warnings.push_back(fmt::format("skipped a damaged checkpoint: {}", error.what()));
      damaged_.push_back(entry.folder);
      continue;
    }
    read_state(entry.folder, model, state);
    loaded.progress = entry.manifest->progress;
    loaded.folder = entry.folder;
    return loaded;
  }
  if (loaded.warnings.empty()) return std::nullopt;
  throw ConfigError(fmt::format("no checkpoint in {} is whole ({}); use another checkpoint.path or --fresh",
                                path_.string(), fmt::join(loaded.warnings, "; ")));
}

}  // namespace strata
