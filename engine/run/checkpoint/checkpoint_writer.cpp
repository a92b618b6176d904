#include "engine/run/checkpoint/checkpoint_writer.h"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

#include "base/finite.h"
#include "base/nth.h"
#include "base/system_error.h"
#include "collectives/agreement.h"
#include "engine/model/model.h"
#include "engine/run/checkpoint/stored_state.h"

namespace strata {
namespace fs = std::filesystem;
namespace {

std::vector<TensorToWrite> tensors_to_write(const Model& model, const std::vector<SavedUnit>& units,
                                            StateKey key) {
  std::vector<TensorToWrite> tensors;
  for (const SavedUnit& saved : units) {
    const std::vector<TensorToWrite> of_unit =
        stored_tensors(model, model.units[saved.unit], key, saved.range);
    tensors.insert(tensors.end(), of_unit.begin(), of_unit.end());
  }
  return tensors;
}

/// Weights that are spoilt must not take the place of those that are not.
void require_finite(std::span<const float> values, const std::string& tensor) {
  if (const auto at = first_not_finite(values))
    throw NotFiniteError(fmt::format("{} has become {}", tensor, nth(values, *at)));
}

}  // namespace

std::string not_shared(const fs::path& path) {
  return fmt::format(
      "{}, which rank 0 sees, is not there; checkpoint.path must be a folder that all ranks share",
      path.string());
}

CheckpointWriter::TemporaryFolder::~TemporaryFolder() {
  if (owned_) remove_quietly(file_system_, path_);
}

void CheckpointWriter::TemporaryFolder::create() {
  file_system_.create_folders(path_.parent_path());
  file_system_.create_folder(path_);
  owned_ = true;
}

/// `action`, whose error says first that there is no new checkpoint and what became of the one before.
template <typename Action>
void CheckpointWriter::attempt(const Action& action) const {
  try {
    action();
  } catch (const SystemError& error) {
    throw SystemError(fmt::format("{}: {}", target_.failure, error.what()), error.code);
  } catch (const IoError& error) {
    throw IoError(fmt::format("{}: {}", target_.failure, error.what()));
  }
}

/// `action`, unless one failed before, whose failure can wait until the ranks meet.
template <typename Action>
void CheckpointWriter::remember_failure(const Action& action) {
  if (failure_) return;
  try {
    action();
  } catch (...) {
    failure_ = std::current_exception();
  }
}

CheckpointWriter::CheckpointWriter(FileSystem& file_system, const Model& model, SaveOrder units,
                                   Target target, Communicator* ranks)
    : file_system_(file_system),
      model_(model),
      units_(std::move(units)),
      target_(std::move(target)),
      ranks_(ranks),
      temporary_(file_system, temporary_name(target_.folder)) {
  attempt([&] { on_first_rank(ranks_, [&] { temporary_.create(); }); });
  remember_failure([&] { open_files(); });
}

CheckpointWriter::~CheckpointWriter() {
  if (ranks_ != nullptr && !finishing_)
    ranks_->abort(fmt::format("gave up the checkpoint {}", target_.folder.string()));
}

void CheckpointWriter::open_files() {
  if (!file_system_.exists(temporary_.path())) throw IoError(not_shared(temporary_.path()));
  const int rank = ranks_ == nullptr ? 0 : ranks_->rank();
  const int ranks = ranks_ == nullptr ? 1 : ranks_->size();
  for (const StateKey key : saved_keys_of(model_)) {
    files_[key] =
        std::make_unique<SafetensorsWriter>(file_system_, temporary_.path() / file_name(key, rank, ranks),
                                            DType::fp32, tensors_to_write(model_, units_[key], key));
  }
}

void CheckpointWriter::add(const SavedUnit& next, StateKey key, const ReadState& read) {
  if (next.range.count == 0) return;
  auto& [number, elements] = added_[key];
  const std::vector<SavedUnit>& units = units_[key];
  while (number < units.size() && elements == units[number].range.count) {
    ++number;
    elements = 0;
  }
  if (number == units.size() || units[number].unit != next.unit ||
      units[number].range.first + elements != next.range.first)
    throw std::logic_error("CheckpointWriter: a unit out of the order that was announced");
  elements += next.range.count;
  remember_failure([&] {
    for (const TensorPiece& piece : pieces_in(model_, model_.units[next.unit], key, next.range)) {
      if (piece.tensor->is_copy) continue;
      for (std::int64_t done = 0; done < piece.count(); done += kLargestRead) {
        const std::span<const float> values =
            read(piece.at + done, std::min(kLargestRead, piece.count() - done));
        if (are_weights(key)) require_finite(values, piece.tensor->hf_name);
        files_[key]->write(values);
      }
    }
  });
}

CheckpointEntry CheckpointWriter::finish(const Progress& progress) {
  finishing_ = true;
  attempt([&] {
    const std::vector<std::string> files = texts_of_ranks(ranks_, [&] { return finish_files(); });
    on_first_rank(ranks_, [&] { commit(progress, files); });
  });
  on_first_rank(ranks_, [&] { file_system_.sync_folder(target_.folder.parent_path()); });
  return {.folder = target_.folder, .manifest = target_.manifest, .damage = {}};
}

/// What the manifest says of this rank's files.
std::string CheckpointWriter::finish_files() {
  if (failure_) std::rethrow_exception(failure_);
  nlohmann::json files;
  for (const std::unique_ptr<SafetensorsWriter>& file : files_) {
    if (file == nullptr) continue;
    file->finish();
    files[file->path().filename().string()] = Manifest::File{file->bytes(), hex(file->checksum())};
  }
  return files.dump();
}

void CheckpointWriter::add_companions() {
  if (!target_.companions || target_.companions->empty()) return;
  const fs::path folder = temporary_.path() / kCompanionFolder;
  file_system_.create_folder(folder);
  target_.manifest.companions = write_companions(file_system_, folder, *target_.companions);
  file_system_.sync_folder(folder);
}

void CheckpointWriter::commit(const Progress& progress, const std::vector<std::string>& files) {
  target_.manifest.progress = progress;
  for (const std::string& of_rank : files)
    target_.manifest.files.merge(nlohmann::json::parse(of_rank).get<std::map<std::string, Manifest::File>>());
  add_companions();
  write_file(file_system_, temporary_.path() / kManifestName, to_text(target_.manifest));
  file_system_.sync_folder(temporary_.path());
  file_system_.rename(temporary_.path(), target_.folder);
  temporary_.keep();
}

}  // namespace strata
