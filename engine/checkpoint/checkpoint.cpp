#include "engine/checkpoint/checkpoint.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <memory>
#include <random>
#include <string_view>
#include <system_error>

#include "collectives/agreement.h"
#include "engine/base/system_error.h"
#include "engine/base/watchdog.h"
#include "engine/checkpoint/stored_state.h"

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
  const WatchedWait wait([&path] { return "listing " + path.string(); });
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

void read_state(StoredState& stored, const Model& model, const StateAccess& state) {
  for (std::size_t unit = 0; unit < model.units.size(); ++unit) {
    for (const StateKind kind : kStateKinds) {
      state.write(unit, kind,
                  [&](std::span<float> flat) { stored.read(unit, kind, state.loaded(unit, kind), flat); });
    }
  }
}

/// A file by a name that nothing else has; it goes with this object.
class Probe {
 public:
  explicit Probe(FileSystem& file_system) : file_system_(file_system) {}
  ~Probe() {
    if (created_) remove_quietly(file_system_, path_);
  }
  Probe(const Probe&) = delete;
  Probe& operator=(const Probe&) = delete;

  /// The user may have named a link.
  void write(const fs::path& folder) {
    std::error_code error;
    path_ = fs::canonical(folder, error) / fmt::format(".writable-{:08x}.tmp", std::random_device()());
    if (error) throw_system_error("find", folder, error.value());
    FileWriter file(file_system_, path_);
    created_ = true;
    file.write(std::as_bytes(std::span(std::string_view("Checkpoints can be written here.\n"))));
    file.finish();
  }
  std::string name() const { return path_.filename().string(); }

 private:
  FileSystem& file_system_;
  fs::path path_;
  bool created_ = false;
};

}  // namespace

void check_checkpoint_writable(const fs::path& path, FileSystem& file_system, Communicator* ranks) {
  const int rank = ranks == nullptr ? 0 : ranks->rank();
  Probe probe(file_system);
  const auto write_probe = [&] {
    try {
      if (rank == 0) file_system.create_folders(path);
      probe.write(path);
    } catch (const IoError& error) {
      throw ConfigError(fmt::format("checkpoint.path {} is not writable: {}", path.string(), error.what()));
    }
  };
  const fs::path of_first_rank = path / text_of_first_rank(ranks, [&] {
                                   write_probe();
                                   return probe.name();
                                 });
  on_every_rank(ranks, [&] {
    if (rank == 0) return;
    if (!is_there(of_first_rank)) throw ConfigError(not_shared(of_first_rank));
    write_probe();
  });
}

CheckpointStore::CheckpointStore(fs::path path, std::int64_t keep, FileSystem& file_system,
                                 Communicator* ranks)
    : path_(std::move(path)),
      keep_(std::max<std::int64_t>(keep, 1)),
      file_system_(file_system),
      ranks_(ranks) {}

void CheckpointStore::remove_leftovers() {
  on_first_rank(ranks_, [&] {
    for (const fs::path& folder : folders(path_, is_leftover_name)) file_system_.remove_all(folder);
  });
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

/// Other ranks take rank 0's word: a list of their own could be older, or of another folder by that name.
std::vector<CheckpointStore::Entry> CheckpointStore::entries_of_first_rank() const {
  const std::string text = text_of_first_rank(ranks_, [&] {
    nlohmann::json list = nlohmann::json::array();
    for (const Entry& entry : entries()) {
      list.push_back({{"name", entry.folder.filename().string()},
                      {"manifest", entry.manifest ? to_text(*entry.manifest) : ""},
                      {"damage", entry.damage}});
    }
    // A path in the sentence may be of any bytes.
    return list.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  });
  std::vector<Entry> found;
  for (const nlohmann::json& item : nlohmann::json::parse(text)) {
    Entry entry{path_ / item.at("name").get<std::string>(), std::nullopt, item.at("damage")};
    if (entry.damage.empty())
      entry.manifest = parse_manifest(item.at("manifest"), entry.folder / kManifestName);
    found.push_back(std::move(entry));
  }
  on_every_rank(ranks_, [&] {
    for (const Entry& entry : found) {
      if (!is_there(entry.folder)) throw ConfigError(not_shared(entry.folder));
    }
  });
  return found;
}

fs::path CheckpointStore::new_folder(std::int64_t step) const {
  const std::string name = fmt::format("step-{:08}", step);
  fs::path folder = path_ / name;
  for (int copy = 2; is_there(folder); ++copy) folder = path_ / fmt::format("{}-{}", name, copy);
  return folder;
}

std::unique_ptr<CheckpointWriter> CheckpointStore::begin(const Model& model, std::int64_t step,
                                                         std::vector<SavedUnit> units) {
  const nlohmann::json decided = nlohmann::json::parse(text_of_first_rank(ranks_, [&] {
    nlohmann::json json = {{"name", new_folder(step).filename().string()}, {"generation", 0}, {"newest", ""}};
    for (const Entry& entry : entries()) {
      if (!entry.manifest) continue;
      json["generation"] = entry.manifest->generation + 1;
      json["newest"] = entry.folder.filename().string();
      break;
    }
    return json.dump();
  }));
  const std::string newest = decided.at("newest");
  const std::string before = newest.empty()
                                 ? "there is none before it"
                                 : fmt::format("{} before it is untouched", (path_ / newest).string());
  Manifest manifest;
  manifest.architecture = model.architecture;
  manifest.generation = decided.at("generation");
  return std::make_unique<CheckpointWriter>(
      file_system_, model, std::move(units),
      CheckpointWriter::Target{
          .folder = path_ / decided.at("name").get<std::string>(),
          .manifest = std::move(manifest),
          .failure = fmt::format("the checkpoint of step {} was not saved ({})", step, before)},
      ranks_);
}

void CheckpointStore::finish(std::unique_ptr<CheckpointWriter> checkpoint, const Progress& progress) {
  checkpoint->finish(progress);
  on_first_rank(ranks_, [&] { remove_old(); });
}

void CheckpointStore::save(const Model& model, const Progress& progress, const StateAccess& state) {
  std::vector<SavedUnit> units;
  for (std::size_t unit = 0; unit < model.units.size(); ++unit) units.push_back({unit, state.saved(unit)});
  std::unique_ptr<CheckpointWriter> checkpoint = begin(model, progress.step, units);
  for (const SavedUnit& saved : units) {
    for (const StateKind kind : kStateKinds) {
      std::span<const float> values;  // read when they are asked for: then add() cares for what fails
      checkpoint->add(saved.unit, kind, [&](std::int64_t first, std::int64_t count) {
        if (values.empty()) values = state.read(saved.unit, kind);
        return values.subspan(static_cast<std::size_t>(first), static_cast<std::size_t>(count));
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
  for (const Entry& entry : entries_of_first_rank()) {
    if (entry.manifest) refuse_other_model(entry.folder, entry.manifest->architecture, model.architecture);
    std::optional<StoredState> stored;
    try {
      if (!entry.manifest) throw ConfigError(entry.damage);
      on_every_rank(ranks_, [&] { verify_files(entry.folder, *entry.manifest, ranks_); });
      on_every_rank(ranks_, [&] { stored.emplace(entry.folder, *entry.manifest, model); });
    } catch (const CommError&) {
      throw;
    } catch (const Error& error) {
      loaded.warnings.push_back(fmt::format("skipped a damaged checkpoint: {}", error.what()));
      damaged_.push_back(entry.folder);
      continue;
    }
    on_every_rank(ranks_, [&] { read_state(*stored, model, state); });
    loaded.progress = entry.manifest->progress;
    loaded.folder = entry.folder;
    return loaded;
  }
  if (loaded.warnings.empty()) return std::nullopt;
  throw ConfigError(fmt::format("no checkpoint in {} is whole ({}); use another checkpoint.path or --fresh",
                                path_.string(), fmt::join(loaded.warnings, "; ")));
}

}  // namespace strata
