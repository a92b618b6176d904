#include "engine/checkpoint/stored_state.h"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <charconv>

#include "base/error.h"

namespace strata {
namespace fs = std::filesystem;
namespace {

[[noreturn]] void refuse(const fs::path& path, const std::string& sentence) {
  throw DamageError(fmt::format("{}: {}", path.string(), sentence));
}

std::string part_name(const std::string& tensor, std::int64_t first, std::int64_t last) {
  return fmt::format("{}[{}:{}]", tensor, first, last);
}

/// What part_name() was made of; nothing if it is another name.
struct ParsedName {
  std::string tensor;
  std::int64_t first = 0, last = 0;
};

std::optional<ParsedName> parse_part_name(const std::string& name) {
  ParsedName parsed;
  const std::size_t bracket = std::min(name.rfind('['), name.size());
  parsed.tensor = name.substr(0, bracket);
  const char* const end = name.data() + name.size();
  const char* at = std::from_chars(std::min(name.data() + bracket + 1, end), end, parsed.first).ptr;
  std::from_chars(std::min(at + 1, end), end, parsed.last);
  // Written back, a part's name gives every character of itself again.
  if (name != part_name(parsed.tensor, parsed.first, parsed.last)) return std::nullopt;
  return parsed;
}

std::map<std::string, const TensorSpec*> tensors_by_name(const Model& model) {
  std::map<std::string, const TensorSpec*> tensors;
  for (const Unit& unit : model.units) {
    for (const TensorSpec& tensor : unit.tensors) tensors[tensor.hf_name] = &tensor;
  }
  return tensors;
}

/// What the tensor of this name in a file is of the model. Throws DamageError if it is nothing of it.
TensorPiece piece_of(const std::string& name, const StoredTensor& stored, const fs::path& file,
                     const std::map<std::string, const TensorSpec*>& tensors) {
  const std::optional<ParsedName> part = parse_part_name(name);
  const auto found = tensors.find(part ? part->tensor : name);
  if (found == tensors.end()) refuse(file, fmt::format("unexpected tensor {}: the model has none", name));
  const TensorSpec& tensor = *found->second;
  const TensorPiece piece = {&tensor, part ? part->first : 0, part ? part->last : tensor.elements, 0};
  if (piece.first < 0 || piece.first >= piece.last || piece.last > tensor.elements)
    refuse(file, fmt::format("tensor {} is no part of one with {} elements", name, tensor.elements));
  const TensorToWrite expected = stored_form(piece);
  if (stored.dtype != "F32" || stored.shape != expected.shape || name != expected.name) {
    refuse(file, fmt::format("tensor {} is {} of shape {}, expected {}: F32 of shape {}", name, stored.dtype,
                             format_shape(stored.shape), expected.name, format_shape(expected.shape)));
  }
  return piece;
}

}  // namespace

std::string file_name(StateKind kind, int rank, int ranks) {
  return ranks == 1 ? fmt::format("{}.safetensors", name_of(kind))
                    : fmt::format("{}-{:05}-of-{:05}.safetensors", name_of(kind), rank + 1, ranks);
}

TensorToWrite stored_form(const TensorPiece& piece) {
  if (piece.is_whole()) return {piece.tensor->hf_name, piece.tensor->hf_shape};
  return {part_name(piece.tensor->hf_name, piece.first, piece.last), {piece.count()}};
}

StoredState::StoredState(const fs::path& folder, const Manifest& manifest, const Model& model,
                         FileSystem& file_system)
    : file_system_(&file_system), folder_(folder), model_(model) {
  const std::map<std::string, const TensorSpec*> tensors = tensors_by_name(model);
  // Rounded up, so that one that is missing is named.
  const std::vector<StateKind> all_kinds = kinds_of(model);
  const auto kinds = static_cast<int>(all_kinds.size());
  const int ranks = std::max(1, (static_cast<int>(manifest.files.size()) + kinds - 1) / kinds);
  for (const StateKind kind : all_kinds) {
    for (int rank = 0; rank < ranks; ++rank) {
      const std::string name = file_name(kind, rank, ranks);
      if (!manifest.files.contains(name)) {
        refuse(folder / kManifestName,
               fmt::format("of its {} files none is {}", manifest.files.size(), name));
      }
      add_file(folder / name, kind, tensors);
    }
    for (const auto& [name, tensor] : tensors)
      if (tensor->flat == flat_of(kind)) check_parts(kind, *tensor);
  }
}

void StoredState::add_file(const fs::path& path, StateKind kind,
                           const std::map<std::string, const TensorSpec*>& tensors) {
  const SafetensorsReader reader(path, *file_system_);
  for (const auto& [name, stored] : reader.tensors()) {
    const TensorPiece piece = piece_of(name, stored, path, tensors);
    if (piece.tensor->flat != flat_of(kind))
      refuse(path, fmt::format("unexpected tensor {}: it belongs to another file", name));
    parts_[static_cast<std::size_t>(kind)][piece.tensor->hf_name].push_back(
        {piece.first, piece.last, files_.size(), stored.offset});
  }
  files_.push_back(path);
}

/// They must fill the tensor, without holes and without overlap.
void StoredState::check_parts(StateKind kind, const TensorSpec& tensor) {
  std::vector<Part>& parts = parts_[static_cast<std::size_t>(kind)][tensor.hf_name];
  std::ranges::sort(parts, {}, &Part::first);
  std::int64_t end = 0;
  for (const Part& part : parts) {
    if (part.first < end) {
      refuse(files_[part.file],
             fmt::format("elements {} to {} of tensor {} are in another file too; the checkpoint is damaged",
                         part.first, std::min(part.last, end) - 1, tensor.hf_name));
    }
    if (part.first > end) break;
    end = part.last;
  }
  if (end < tensor.elements) {
    refuse(folder_, fmt::format("{} of tensor {} lacks element {} of {}; the checkpoint is damaged",
                                name_of(kind), tensor.hf_name, end, tensor.elements));
  }
}

const FileReader& StoredState::open(std::size_t file) {
  if (!open_ || open_->path() != files_[file]) open_.emplace(files_[file], *file_system_);
  return *open_;
}

void StoredState::read(std::size_t unit, StateKind kind, FlatRange range, std::span<float> flat) {
  assert(std::ssize(flat) == range.count);
  std::ranges::fill(flat, 0.0F);
  for (const TensorPiece& piece : pieces_in(model_.units[unit], range)) {
    const std::vector<Part>& parts = parts_[static_cast<std::size_t>(kind)].at(piece.tensor->hf_name);
    auto part = std::ranges::upper_bound(parts, piece.first, {}, &Part::last);
    for (std::int64_t first = piece.first; first < piece.last; first = part->last, ++part) {
      const std::int64_t count = std::min(part->last, piece.last) - first;
      open(part->file)
          .read(part->offset + (first - part->first) * static_cast<std::int64_t>(sizeof(float)),
                std::as_writable_bytes(flat.subspan(static_cast<std::size_t>(piece.at + first - piece.first),
                                                    static_cast<std::size_t>(count))));
    }
  }
}

}  // namespace strata
