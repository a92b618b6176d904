#include "engine/checkpoint/checkpoint_writer.h"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

#include "engine/base/error.h"

namespace strata {
namespace fs = std::filesystem;
namespace {

std::vector<TensorToWrite> tensors_of(const Model& model, const std::vector<std::size_t>& units) {
  std::vector<TensorToWrite> tensors;
  for (const std::size_t unit : units) {
    for (const TensorSpec& tensor : model.units[unit].tensors)
      tensors.push_back({tensor.hf_name, tensor.hf_shape});
  }
  return tensors;
}

}  // namespace

fs::path temporary_name(const fs::path& folder) {
  return fs::path(folder).concat(".tmp");
}

CheckpointWriter::TemporaryFolder::~TemporaryFolder() {
  if (!kept_) remove_quietly(file_system_, path_);
}

/// `action`, whose error says first that there is no new checkpoint and what became of the one before.
template <typename Action>
void CheckpointWriter::attempt(const Action& action) const {
  try {
    action();
  } catch (const IoError& error) {
    throw IoError(fmt::format("{}: {}", target_.failure, error.what()));
  }
}

CheckpointWriter::CheckpointWriter(FileSystem& file_system, const Model& model,
                                   std::vector<std::size_t> units, Target target)
    : file_system_(file_system),
      model_(model),
      units_(std::move(units)),
      target_(std::move(target)),
      temporary_(file_system, temporary_name(target_.folder)) {
  attempt([&] {
    file_system_.remove_all(temporary_.path());
    file_system_.create_folders(temporary_.path());
    const std::vector<TensorToWrite> tensors = tensors_of(model_, units_);
    for (const StateKind kind : kStateKinds) {
      files_.push_back(std::make_unique<SafetensorsWriter>(file_system_, temporary_.path() / file_name(kind),
                                                           DType::fp32, tensors));
    }
  });
}

void CheckpointWriter::add(std::size_t unit, StateKind kind, const ReadState& read) {
  std::size_t& added = added_[static_cast<std::size_t>(kind)];
  if (added == units_.size() || units_[added] != unit)
    throw std::logic_error("CheckpointWriter: a unit out of the order that was announced");
  ++added;
  attempt([&] {
    for (const TensorSpec& tensor : model_.units[unit].tensors) {
      for (std::int64_t done = 0; done < tensor.elements; done += kLargestRead) {
        files_[static_cast<std::size_t>(kind)]->write(
            read(tensor.offset + done, std::min(kLargestRead, tensor.elements - done)));
      }
    }
  });
}

void CheckpointWriter::finish(const Progress& progress) {
  attempt([&] {
    target_.manifest.progress = progress;
    for (const StateKind kind : kStateKinds) {
      SafetensorsWriter& file = *files_[static_cast<std::size_t>(kind)];
      file.finish();
      target_.manifest.files[file_name(kind)] = {file.bytes(), hex(file.checksum())};
    }
    write_file(file_system_, temporary_.path() / kManifestName, to_text(target_.manifest));
    file_system_.sync_folder(temporary_.path());
    file_system_.rename(temporary_.path(), target_.folder);
  });
  temporary_.keep();
  file_system_.sync_folder(target_.folder.parent_path());
}

}  // namespace strata
