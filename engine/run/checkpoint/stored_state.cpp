#include "engine/run/checkpoint/stored_state.h"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <charconv>

#include "base/error.h"
#include "base/finite.h"
#include "base/nth.h"
#include "engine/model/factors.h"
#include "engine/model/kept_state.h"
#include "engine/model/model.h"
#include "engine/run/checkpoint/refusals.h"

namespace strata {
namespace fs = std::filesystem;
namespace {

/// Elements [first, last) of a tensor; if `count` is more than one, as many stretches of that length, each
/// `distance` elements behind the one before.
struct StoredPart {
  std::int64_t first = 0, last = 0, distance = 0, count = 1;

  std::int64_t length() const { return last - first; }
};

std::string part_name(const std::string& tensor, const StoredPart& part) {
  if (part.count == 1) return fmt::format("{}[{}:{}]", tensor, part.first, part.last);
  return fmt::format("{}[{}:{}+{}*{}]", tensor, part.first, part.last, part.distance, part.count);
}

TensorToWrite stored_form(const TensorSpec& tensor, const StoredPart& part) {
  if (part.count > 1) return {part_name(tensor.hf_name, part), {part.count, part.length()}};
  if (part.length() < tensor.whole_elements()) return {part_name(tensor.hf_name, part), {part.length()}};
  return {tensor.hf_name, tensor.hf_shape};
}

/// What part_name() was made of.
struct ParsedName {
  std::string tensor;
  StoredPart part;
};

/// Nothing if it is another name.
std::optional<ParsedName> parse_part_name(const std::string& name) {
  const std::size_t bracket = name.rfind('[');
  if (bracket == std::string::npos || !name.ends_with(']')) return std::nullopt;
  ParsedName parsed{name.substr(0, bracket), {}};
  const char* const end = name.data() + name.size();
  const char* at = name.data() + bracket;
  for (std::int64_t* number :
       {&parsed.part.first, &parsed.part.last, &parsed.part.distance, &parsed.part.count}) {
    if (at == end || at + 1 == end) break;
    at = std::from_chars(at + 1, end, *number).ptr;
  }
  // Written back, a part's name gives every character of itself again.
  if (name != part_name(parsed.tensor, parsed.part)) return std::nullopt;
  return parsed;
}

/// Whether the part is one of a tensor of `elements`, without overlap.
bool is_part_of(const StoredPart& part, std::int64_t elements) {
  if (part.first < 0 || part.first >= part.last || part.last > elements || part.count < 1) return false;
  if (part.count == 1) return part.distance == 0;
  return part.distance >= part.length() && part.count - 1 <= (elements - part.last) / part.distance;
}

/// With the factors that these rules may keep of them.
TensorsByName tensors_by_name(const Model& model, const UpdateRules& rules) {
  TensorsByName tensors;
  for (const Unit& unit : model.units) {
    for (const TensorSpec& tensor : unit.tensors) {
      tensors[tensor.hf_name] = tensor;
      for (const auto& [rule, count] : rules) {
        if (tensor.flat != Flat::trained) continue;
        for (TensorSpec& factor : factors_of(tensor, rule)) tensors[factor.hf_name] = std::move(factor);
      }
    }
  }
  return tensors;
}

/// What the tensor of this name in a file is of the model. Throws DamageError if it is nothing of it.
std::pair<const TensorSpec*, StoredPart> part_of(const std::string& name, const StoredTensor& stored,
                                                 const fs::path& file, const TensorsByName& tensors) {
  const std::optional<ParsedName> parsed = parse_part_name(name);
  const auto found = tensors.find(parsed ? parsed->tensor : name);
  if (found == tensors.end())
    report_damage(file, fmt::format("unexpected tensor {}: the model has none", name));
  const TensorSpec& tensor = found->second;
  const std::int64_t elements = tensor.whole_elements();
  const StoredPart part = parsed ? parsed->part : StoredPart{.last = elements};
  if (!is_part_of(part, elements))
    report_damage(file, fmt::format("tensor {} is no part of one with {} elements", name, elements));
  const TensorToWrite expected = stored_form(tensor, part);
  if (stored.dtype != "F32" || stored.shape != expected.shape || name != expected.name) {
    report_damage(file,
                  fmt::format("tensor {} is {} of shape {}, expected {}: F32 of shape {}", name, stored.dtype,
                              format_shape(stored.shape), expected.name, format_shape(expected.shape)));
  }
  return {&tensor, part};
}

}  // namespace

std::string file_name(StateKey key, int rank, int ranks) {
  return ranks == 1 ? fmt::format("{}.safetensors", name_of(key))
                    : fmt::format("{}-{:05}-of-{:05}.safetensors", name_of(key), rank + 1, ranks);
}

std::vector<TensorToWrite> stored_tensors(const Model& model, const Unit& unit, StateKey key,
                                          FlatRange range) {
  std::vector<TensorToWrite> tensors;
  const TensorSpec* tensor = nullptr;
  StoredPart part;
  const auto finish = [&] {
    if (tensor != nullptr) tensors.push_back(stored_form(*tensor, part));
  };
  for (const TensorRun& run : runs_in(unit, kept_part(model, unit, key, range))) {
    if (run.tensor->is_copy || !keeps(model, *run.tensor, key)) continue;
    const std::int64_t distance = run.first - part.first - (part.count - 1) * part.distance;
    const bool goes_on = run.tensor == tensor && run.count() == part.length() &&
                         (part.count == 1 || distance == part.distance);
    if (goes_on) {
      part.distance = distance;
      ++part.count;
      continue;
    }
    finish();
    tensor = run.tensor;
    part = {.first = run.first, .last = run.last};
  }
  finish();
  return tensors;
}

StoredState::StoredState(const fs::path& folder, const Manifest& manifest, const Model& model,
                         FileSystem& file_system, ReadTensor base)
    : file_system_(&file_system),
      folder_(folder),
      model_(model),
      names_base_(manifest.base.has_value()),
      base_(std::move(base)) {
  const TensorsByName tensors = tensors_by_name(model, manifest.rules);
  // Rounded up, so that one that is missing is named.
  std::vector<StateKey> all_kinds = keys_of(model, manifest.rules, manifest.averages);
  if (names_base_) std::erase(all_kinds, StateKey::frozen);
  const auto kinds = static_cast<int>(all_kinds.size());
  const int ranks = std::max(1, (static_cast<int>(manifest.files.size()) + kinds - 1) / kinds);
  for (const StateKey key : all_kinds) {
    for (int rank = 0; rank < ranks; ++rank) {
      const std::string name = file_name(key, rank, ranks);
      if (!manifest.files.contains(name)) {
        report_damage(folder / kManifestName,
                      fmt::format("of its {} files none is {}", manifest.files.size(), name));
      }
      add_file(folder / name, key, tensors);
    }
    check_tensors(key, manifest.rules, tensors);
  }
}

void StoredState::add_file(const fs::path& path, StateKey key, const TensorsByName& tensors) {
  const SafetensorsReader reader(path, *file_system_);
  for (const auto& [name, stored] : reader.tensors()) {
    const auto [tensor, part] = part_of(name, stored, path, tensors);
    if (tensor->flat != flat_of(key))
      report_damage(path, fmt::format("unexpected tensor {}: it belongs to another file", name));
    std::vector<Part>& parts = parts_[key][tensor->hf_name];
    for (std::int64_t i = 0; i < part.count; ++i) {
      const std::int64_t before = i * part.length() * static_cast<std::int64_t>(sizeof(float));
      parts.push_back({part.first + i * part.distance, part.last + i * part.distance, files_.size(),
                       stored.offset + before});
    }
  }
  files_.push_back(path);
}

/// If one rule updates all tensors, the state has each of them, and else as many as the manifest says.
void StoredState::check_tensors(StateKey key, const UpdateRules& rules, const TensorsByName& tensors) {
  const std::optional<Moment> moment = moment_of(key);
  const bool is_of_some = rules.size() > 1 && key != key_of(Moment::ema) && !are_weights(key);
  std::int64_t found = 0, expected = 0;
  for (const auto& [name, tensor] : tensors) {
    if (tensor.flat != flat_of(key) || (is_of_some && !parts_[key].contains(name))) continue;
    check_parts(key, tensor);
    ++found;
  }
  if (!is_of_some) return;
  // A rule beside others keeps one factor of a tensor at most.
  for (const auto& [rule, count] : rules)
    expected += (moment ? moments_of(rule).has(*moment) : keeps_factors(rule)) ? count : 0;
  if (found != expected) {
    report_damage(folder_, fmt::format("{} has {} tensors of {}; the checkpoint is damaged", name_of(key),
                                       found, expected));
  }
}

/// They must fill the tensor, without holes and without overlap.
void StoredState::check_parts(StateKey key, const TensorSpec& tensor) {
  std::vector<Part>& parts = parts_[key][tensor.hf_name];
  std::ranges::sort(parts, {}, &Part::first);
  std::int64_t end = 0;
  for (const Part& part : parts) {
    if (part.first < end) {
      report_damage(
          files_[part.file],
          fmt::format("elements {} to {} of tensor {} are in another file too; the checkpoint is damaged",
                      part.first, std::min(part.last, end) - 1, tensor.hf_name));
    }
    if (part.first > end) break;
    end = part.last;
  }
  if (const std::int64_t elements = tensor.whole_elements(); end < elements) {
    report_damage(folder_, fmt::format("{} of tensor {} lacks element {} of {}; the checkpoint is damaged",
                                       name_of(key), tensor.hf_name, end, elements));
  }
}

const FileReader& StoredState::open(std::size_t file) {
  if (!open_ || open_->path() != files_[file]) open_.emplace(files_[file], *file_system_);
  return *open_;
}

void StoredState::read(std::size_t unit, StateKey key, FlatRange range, std::span<float> flat) {
  assert(std::ssize(flat) == range.count);
  std::ranges::fill(flat, 0.0F);
  for (const TensorRun& run : runs_in(model_.units[unit], range)) {
    if (!keeps(model_, *run.tensor, key)) continue;
    read_tensor(key, *run.tensor, run.first, slice(flat, run.at, run.count()));
  }
}

void StoredState::read_tensor(StateKey key, const TensorSpec& tensor, std::int64_t first,
                              std::span<float> values) {
  if (key == StateKey::frozen && names_base_) return base_(tensor, first, values);
  const auto found = parts_[key].find(tensor.hf_name);
  if (found == parts_[key].end()) {
    throw ConfigError(
        fmt::format("checkpoint {} has no {} of {}, which another rule updated; use the groups that are "
                    "there, another checkpoint.path or --fresh",
                    folder_.string(), name_of(key), tensor.hf_name));
  }
  const std::vector<Part>& parts = found->second;
  auto part = std::ranges::upper_bound(parts, first, {}, &Part::last);
  const std::int64_t begin = first;
  for (const std::int64_t last = first + std::ssize(values); first < last; first = part->last, ++part) {
    const std::int64_t count = std::min(part->last, last) - first;
    open(part->file)
        .read(part->offset + (first - part->first) * static_cast<std::int64_t>(sizeof(float)),
              std::as_writable_bytes(slice(values, first - begin, count)));
  }
  if (!are_weights(key) && key != key_of(Moment::ema)) return;
  if (const auto at = first_not_finite(values)) {
    throw NotFiniteError(
        fmt::format("checkpoint {}: element {} of tensor {} is {}: these weights are spoilt; move the "
                    "checkpoint away to use the one before it",
                    folder_.string(), begin + *at, tensor.hf_name, nth(values, *at)));
  }
}

}  // namespace strata
