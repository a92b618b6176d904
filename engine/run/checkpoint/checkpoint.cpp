#include "engine/run/checkpoint/checkpoint.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <random>
#include <string_view>
#include <system_error>

#include "base/error.h"
#include "base/nth.h"
#include "base/resolved_path.h"
#include "base/system_error.h"
#include "collectives/agreement.h"
#include "engine/config/choices.h"
#include "engine/model/adapter_targets.h"
#include "engine/model/freeze_patterns.h"
#include "engine/model/kept_state.h"
#include "engine/model/model.h"
#include "engine/model/tensor_policies.h"
#include "engine/run/checkpoint/rounded_blocks.h"

namespace strata {
namespace fs = std::filesystem;
namespace {

void refuse_other_model(const fs::path& folder, const Manifest& stored, const Model& model) {
  const std::string other = difference(stored.architecture, model.architecture);
  if (!other.empty()) {
    throw ConfigError(
        fmt::format("checkpoint {} holds another model ({}); use another checkpoint.path or --fresh",
                    folder.string(), other));
  }
  const std::string adapters = adapter_difference(stored.adapter, model.adapter);
  if (!adapters.empty()) {
    throw ConfigError(
        fmt::format("checkpoint {} holds other adapters than this run file ({}); use the same adapters, name "
                    "another checkpoint.path, or start over there with --fresh",
                    folder.string(), adapters));
  }
  const std::string frozen = model.adapts() ? "" : freeze_difference(stored.freeze, model);
  if (!frozen.empty()) {
    throw ConfigError(fmt::format(
        "checkpoint {} is of a run with another train.freeze, in which {}; use train.freeze: [{}] as there, "
        "another checkpoint.path or --fresh",
        folder.string(), frozen, fmt::join(stored.freeze, ", ")));
  }
  if (!are_alike(stored.rules, model.rules())) {
    throw ConfigError(fmt::format(
        "checkpoint {} is of a run with {}, and this one has {}; use the optimizer.type, "
        "optimizer.momentum and types of optimizer.groups that are there, another checkpoint.path "
        "or --fresh",
        folder.string(), run_file_words(stored.rules), run_file_words(model.rules())));
  }
  if (stored.averages != model.averages) {
    throw ConfigError(fmt::format(
        "checkpoint {} {}; {}, or take another checkpoint.path or --fresh", folder.string(),
        stored.averages ? "has moving averages of the weights, and this run would lose them"
                        : "is of a run without train.ema, so it has no moving averages to go on with",
        stored.averages ? "set train.ema.decay as there" : "take train.ema out"));
  }
}

/// What a run goes on with beside a checkpoint's adapters is what the next checkpoint names.
void refuse_other_base(const fs::path& folder, const Manifest& stored, const BaseWeights& base) {
  const std::string checkpoint = fmt::format("checkpoint {}", folder.string());
  if (!stored.base) {
    throw ConfigError(
        fmt::format("{} is of an older version, with the whole model; export it, begin with "
                    "that folder as adapter.path, and use another checkpoint.path or --fresh",
                    checkpoint));
  }
  const auto described = [](const Manifest::Base& weights) {
    return weights.path.empty() ? fmt::format("random ones of train.seed {}", weights.seed) : weights.path;
  };
  if (stored.base->samples != base.identity.samples) {
    throw ConfigError(fmt::format(
        "{} has adapters of other weights ({}) than those of this run ({}); use the model.path and "
        "train.seed that are there, another checkpoint.path or --fresh",
        checkpoint, described(*stored.base), described(base.identity)));
  }
}

void read_state(StoredState& stored, const Model& model, const StateAccess& state) {
  const std::vector<StateKey> keys = keys_of(model);
  for (std::size_t unit = 0; unit < model.units.size(); ++unit) {
    for (const StateKey key : keys) {
      if (model.units[unit].elements_of(flat_of(key)) == 0) continue;
      if (moment_of(key) && kept_stretch(model, model.units[unit], key).count == 0) continue;
      state.write(
          unit, key, [&](std::span<float> flat) { stored.read(unit, key, state.loaded(unit, key), flat); },
          [&](const TensorSpec& tensor, std::int64_t first, std::span<float> values) {
            stored.read_tensor(key, tensor, first, values);
          });
    }
  }
}

std::string not_writable(const fs::path& path, const IoError& error) {
  return fmt::format("checkpoint.path {} is not writable: {}", path.string(), error.what());
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
      throw ConfigError(not_writable(path, error));
    }
  };
  const fs::path of_first_rank = path / text_of_first_rank(ranks, [&] {
                                   write_probe();
                                   return probe.name();
                                 });
  on_every_rank(ranks, [&] {
    if (rank == 0) return;
    if (!file_system.exists(of_first_rank)) throw ConfigError(not_shared(of_first_rank));
    write_probe();
  });
}

std::unique_ptr<FolderLock> lock_checkpoints(const fs::path& path, const std::string& name,
                                             FileSystem& file_system, std::vector<std::string>& warnings) {
  try {
    file_system.create_folders(path);
    return std::make_unique<FolderLock>(Folder::named(path), name);
  } catch (const FolderInUseError& error) {
    throw ConfigError(fmt::format("checkpoint.path {}; wait for it to end, or choose another checkpoint.path",
                                  error.what()));
  } catch (const SystemError& error) {
    if (error.code != ENOLCK && error.code != EOPNOTSUPP && error.code != ENOSYS)
      throw ConfigError(not_writable(path, error));
    warnings.push_back(fmt::format(
        "checkpoint.path {} is on a filesystem without locks, so nothing keeps a second run out of it ({})",
        path.string(), error.what()));
    return nullptr;
  }
}

std::string seen_from(const fs::path& path, const fs::path& run_file) {
  return resolved(run_file).lexically_relative(resolved(path)).string();
}

CheckpointStore::CheckpointStore(fs::path path, std::int64_t keep, FileSystem& file_system,
                                 Communicator* ranks)
    : path_(std::move(path)),
      keep_(std::max<std::int64_t>(keep, 1)),
      file_system_(file_system),
      ranks_(ranks) {}

/// `action`, whose failure is no reason to end a run: it is said, and nothing was lost.
template <typename Action>
bool CheckpointStore::try_to(const std::string& failure, const Action& action) {
  try {
    action();
    return true;
  } catch (const IoError& error) {
    warnings_.push_back(fmt::format("{}: {}", failure, error.what()));
    return false;
  }
}

void CheckpointStore::lock() {
  on_first_rank(ranks_, [&] { lock_ = lock_checkpoints(path_, ".strata-lock", file_system_, warnings_); });
}

void CheckpointStore::remove_leftovers() {
  on_first_rank(ranks_, [&] {
    for (const fs::path& folder : list_leftovers(file_system_, path_)) {
      try_to(fmt::format("what is left of an unfinished checkpoint stays in {}", folder.string()),
             [&] { file_system_.remove_all(folder); });
    }
  });
}

void CheckpointStore::set_aside_all() {
  on_first_rank(ranks_, [&] {
    const std::vector<fs::path> folders = checkpoint_folders(file_system_, path_);
    if (folders.empty()) return;
    const fs::path aside = set_aside_name(file_system_, path_);
    file_system_.create_folder(aside);
    for (const fs::path& folder : folders) file_system_.rename(folder, aside / folder.filename());
    file_system_.sync_folder(aside);
    file_system_.sync_folder(path_);
    known_.reset();
    warnings_.push_back(
        fmt::format("--fresh: what was trained before, up to {}, is kept in {}; remove it when it is "
                    "not needed",
                    folders.front().filename().string(), aside.string()));
  });
}

std::vector<CheckpointEntry>& CheckpointStore::known() {
  if (!known_) {
    known_ = list_checkpoints(file_system_, path_);
    next_generation_ = std::max(next_generation_, next_generation(*known_));
  }
  return *known_;
}

SpaceNeed CheckpointStore::space_needed(const Model& model, const StateAccess& state, std::int64_t saves) {
  SpaceNeed need = {.path = path_.string(), .keep = keep_};
  bytes_of_one_ = checkpoint_bytes(model, state, ranks_);
  on_first_rank(ranks_, [&] {
    if (companions_) bytes_of_one_ += checkpoint_bytes(*companions_);
    std::vector<Bytes> existing;
    for (const CheckpointEntry& entry : known()) {
      if (entry.damage.empty()) existing.push_back(entry.bytes());
    }
    need.filesystem = file_system_.filesystem_of(path_);
    need.free = file_system_.free_bytes(path_);
    if (saves == 0) return;
    need.each = need.after_one = bytes_of_one_;
    for (std::size_t old = static_cast<std::size_t>(keep_ - 1); old < existing.size(); ++old)
      need.after_one -= existing[old];
    need.most = most_more_bytes(std::move(existing), bytes_of_one_, keep_, saves);
  });
  return need;
}

bool CheckpointStore::has_space() const {
  try {
    return file_system_.free_bytes(path_) >= bytes_of_one_;
  } catch (const IoError&) {
    return true;  // trying will tell
  }
}

/// Other ranks take rank 0's word: a list of their own could be older, or of another folder by that name.
std::vector<CheckpointEntry> CheckpointStore::entries_of_first_rank() {
  const std::string text = text_of_first_rank(ranks_, [&] {
    known_.reset();
    nlohmann::json list = nlohmann::json::array();
    for (const CheckpointEntry& entry : known()) {
      list.push_back({{"name", entry.folder.filename().string()},
                      {"manifest", entry.manifest ? to_text(*entry.manifest) : ""},
                      {"damage", entry.damage}});
    }
    // A path in the sentence may be of any bytes.
    return list.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  });
  std::vector<CheckpointEntry> found;
  for (const nlohmann::json& item : nlohmann::json::parse(text)) {
    CheckpointEntry entry{
        .folder = path_ / item.at("name").get<std::string>(), .manifest = {}, .damage = item.at("damage")};
    if (entry.damage.empty())
      entry.manifest = parse_manifest(item.at("manifest"), entry.folder / kManifestName);
    found.push_back(std::move(entry));
  }
  on_every_rank(ranks_, [&] {
    for (const CheckpointEntry& entry : found) {
      if (!file_system_.exists(entry.folder)) throw ConfigError(not_shared(entry.folder));
    }
  });
  return found;
}

std::unique_ptr<CheckpointWriter> CheckpointStore::begin(const Model& model, std::int64_t step,
                                                         SaveOrder units) {
  const nlohmann::json decided = nlohmann::json::parse(text_of_first_rank(ranks_, [&] {
    std::string newest;
    for (const CheckpointEntry& entry : known()) {
      if (!entry.damage.empty()) continue;
      newest = entry.folder.filename().string();
      break;
    }
    return nlohmann::json{{"name", new_checkpoint_name(file_system_, path_, step).filename().string()},
                          {"generation", next_generation_++},
                          {"newest", newest}}
        .dump();
  }));
  const std::string newest = decided.at("newest");
  const std::string before = newest.empty()
                                 ? "there is none before it"
                                 : fmt::format("{} before it is untouched", (path_ / newest).string());
  Manifest manifest;
  manifest.architecture = model.architecture;
  manifest.freeze = model.freeze;
  manifest.adapter = model.adapter;
  if (base_) manifest.base = base_->identity;
  manifest.rules = model.rules();
  manifest.averages = model.averages;
  manifest.run_file = run_file_;
  manifest.generation = decided.at("generation");
  return std::make_unique<CheckpointWriter>(
      file_system_, model, std::move(units),
      CheckpointWriter::Target{
          .folder = path_ / decided.at("name").get<std::string>(),
          .manifest = std::move(manifest),
          .failure = fmt::format("the checkpoint of step {} was not saved ({})", step, before),
          .companions = companions_},
      ranks_);
}

void CheckpointStore::finish(std::unique_ptr<CheckpointWriter> checkpoint, const Progress& progress) {
  CheckpointEntry saved = checkpoint->finish(progress);
  newest_ = saved.folder;
  on_first_rank(ranks_, [&] {
    known().insert(known().begin(), std::move(saved));
    remove_old();
  });
}

void CheckpointStore::save(const Model& model, const Progress& progress, const StateAccess& state) {
  SaveOrder units;
  for (const StateKey key : saved_keys_of(model)) {
    for (std::size_t unit = 0; unit < model.units.size(); ++unit) {
      if (model.units[unit].elements_of(flat_of(key)) == 0) continue;
      const FlatRange saved = state.saved(unit, flat_of(key));
      units[key].push_back({unit, kept_part(model, model.units[unit], key, saved)});
    }
  }
  std::unique_ptr<CheckpointWriter> checkpoint = begin(model, progress.counters.step, units);
  for (const StateKey key : saved_keys_of(model)) {
    for (const SavedUnit& saved : units[key]) {
      std::span<const float> values;  // read when they are asked for: then add() cares for what fails
      checkpoint->add(saved, key, [&](std::int64_t first, std::int64_t count) {
        if (values.empty()) values = state.read(saved.unit, key);
        return slice(values, first, count);
      });
    }
  }
  finish(std::move(checkpoint), progress);
}

void CheckpointStore::remove_old() {
  std::int64_t kept = 0;
  for (CheckpointEntry& entry : known()) {
    if (entry.damage.empty() && !entry.stays && kept++ >= keep_) remove(entry);
  }
  std::erase_if(known(), [](const CheckpointEntry& entry) { return entry.folder.empty(); });
}

/// Half removed, it must not look like a damaged checkpoint to the next run, but like the leftover that it
/// is.
void CheckpointStore::remove(CheckpointEntry& entry) {
  const fs::path leftover = temporary_name(entry.folder);
  const bool renamed = try_to(fmt::format("the old checkpoint {} stays", entry.folder.string()), [&] {
    if (file_system_.exists(entry.folder)) file_system_.rename(entry.folder, leftover);
  });
  if (!renamed) {
    entry.stays = true;
    return;
  }
  entry.folder.clear();
  try_to(fmt::format("what is left of an old checkpoint stays in {}", leftover.string()), [&] {
    file_system_.sync_folder(path_);
    file_system_.remove_all(leftover);
  });
}

std::optional<OpenCheckpoint> CheckpointStore::open_newest(const Model& model, const WantsStep& wants) {
  std::vector<std::string> warnings;
  for (const CheckpointEntry& entry : entries_of_first_rank()) {
    if (entry.manifest && wants && !wants(entry.manifest->progress.counters.step)) continue;
    if (entry.manifest) refuse_other_model(entry.folder, *entry.manifest, model);
    std::optional<StoredState> stored;
    try {
      if (!entry.manifest) throw DamageError(entry.damage);
      verify_files(entry.folder, *entry.manifest, file_system_, ranks_);
      on_every_rank(ranks_, [&] {
        if (base_) refuse_other_base(entry.folder, *entry.manifest, *base_);
        ReadTensor base = base_ ? base_->read : ReadTensor();
        if (base_ && base_->as_trained) base = as_trained(std::move(base), *entry.manifest);
        stored.emplace(entry.folder, *entry.manifest, model, file_system_, std::move(base));
      });
    } catch (const DamageError& error) {
      warnings.push_back(fmt::format("skipped a damaged checkpoint: {}", error.what()));
      on_first_rank(ranks_, [&] {
        std::ranges::find(known(), entry.folder, &CheckpointEntry::folder)->damage = error.what();
      });
      continue;
    }
    return OpenCheckpoint{
        {entry.manifest->progress, entry.folder, std::move(warnings)}, std::move(*stored), *entry.manifest};
  }
  if (warnings.empty()) return std::nullopt;
  throw ConfigError(fmt::format("no checkpoint in {} is whole ({}); use another checkpoint.path or --fresh",
                                path_.string(), fmt::join(warnings, "; ")));
}

std::optional<LoadedCheckpoint> CheckpointStore::load_newest(const Model& model, const StateAccess& state) {
  return load(model, state, {});
}

std::optional<LoadedCheckpoint> CheckpointStore::go_back(const Model& model, const StateAccess& state,
                                                         const WantsStep& wants) {
  std::optional<LoadedCheckpoint> loaded = load(model, state, wants);
  if (!loaded) return loaded;
  on_first_rank(ranks_, [&] {
    for (CheckpointEntry& entry : known()) {
      if (entry.folder == loaded->folder) break;
      if (entry.damage.empty()) remove(entry);
    }
    std::erase_if(known(), [](const CheckpointEntry& entry) { return entry.folder.empty(); });
  });
  return loaded;
}

std::optional<LoadedCheckpoint> CheckpointStore::load(const Model& model, const StateAccess& state,
                                                      const WantsStep& wants) {
  std::optional<OpenCheckpoint> open = open_newest(model, wants);
  if (!open) return std::nullopt;
  if (base_ && base_->identity.frozen_as != open->manifest.base->frozen_as) {
    warnings_.push_back(fmt::format(
        "memory.frozen_as was {} before and is {} now: the adapters train on beside other numbers",
        word_of(open->manifest.base->frozen_as), word_of(base_->identity.frozen_as)));
  }
  on_every_rank(ranks_, [&] { read_state(open->state, model, state); });
  newest_ = open->folder;
  return std::move(*open);
}

void CheckpointStore::set_aside_damaged() {
  on_first_rank(ranks_, [&] {
    for (CheckpointEntry& entry : known()) {
      if (entry.damage.empty()) continue;
      try_to(fmt::format("skipped a damaged checkpoint, which stays ({})", entry.damage), [&] {
        const fs::path aside = damaged_name(file_system_, entry.folder);
        file_system_.rename(entry.folder, aside);
        warnings_.push_back(fmt::format("skipped a damaged checkpoint, which is kept as {}: {}",
                                        aside.string(), entry.damage));
        entry.folder.clear();
        file_system_.sync_folder(path_);
      });
    }
    std::erase_if(known(), [](const CheckpointEntry& entry) { return entry.folder.empty(); });
  });
}

}  // namespace strata
