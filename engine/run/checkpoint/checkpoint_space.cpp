#include "engine/run/checkpoint/checkpoint_space.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>

#include "base/error.h"
#include "collectives/agreement.h"
#include "engine/model/model.h"
#include "engine/run/checkpoint/safetensors.h"
#include "engine/run/checkpoint/stored_state.h"

namespace strata {
namespace {

constexpr Bytes kBlock = 4 * KiB;
constexpr Bytes kManifestBytes = 16 * KiB;  // and some for each file that it lists
constexpr Bytes kManifestBytesPerFile = 256;

std::string sizes(Bytes needed, Bytes free) {
  return fmt::format("({} bytes), and {} ({} bytes) are free there", needed, format_bytes(free), free);
}

/// Needs of one filesystem.
class SharedSpace {
 public:
  void add(const SpaceNeed& need) {
    needs_.push_back(&need);
    free_ = std::min(free_, need.free);
    after_one_ += need.after_one;
    most_ += need.most;
  }

  void require_one_of_each() const {
    for (const SpaceNeed* need : needs_) {
      if (need->each <= free_) continue;
      throw ConfigError(
          fmt::format("checkpoint.path {}: a checkpoint takes {} {}; free some space or choose "
                      "another checkpoint.path",
                      need->path, format_bytes(need->each), sizes(need->each, free_)));
    }
    if (after_one_ <= free_) return;
    throw ConfigError(
        fmt::format("checkpoint.path {}: a checkpoint of each takes {} more {}, so {} are lacking; free some "
                    "space or choose another checkpoint.path",
                    paths(), format_bytes(after_one_), sizes(after_one_, free_), lacking(after_one_)));
  }

  /// Empty if all that will be there at once has room.
  std::string warning() const {
    if (most_ <= free_) return "";
    constexpr const char* kWhy = "an old one is removed only when the new one is whole";
    const std::string needed = fmt::format("{} more at once {}", format_bytes(most_), sizes(most_, free_));
    if (needs_.size() == 1)
      return fmt::format("checkpoint.path {}: with checkpoint.keep {} checkpoints will take {}; {}", paths(),
                         needs_.front()->keep, needed, kWhy);
    return fmt::format("checkpoint.path {}: their checkpoints will take up to {}, so {} are lacking; {}",
                       paths(), needed, lacking(most_), kWhy);
  }

 private:
  std::string paths() const {
    const std::string& first = needs_.front()->path;
    if (needs_.size() == 1) return first;
    return fmt::format("{} and {} more on its filesystem", first, needs_.size() - 1);
  }
  std::string lacking(Bytes needed) const {
    return fmt::format("{} ({} bytes)", format_bytes(needed - free_), needed - free_);
  }

  std::vector<const SpaceNeed*> needs_;
  Bytes free_ = kUnlimited, after_one_ = 0, most_ = 0;
};

}  // namespace

Bytes checkpoint_bytes(const Model& model, const StateAccess& state, Communicator* ranks) {
  const auto file_bytes = [&](StateKey key) {
    std::vector<TensorToWrite> tensors;
    for (std::size_t unit = 0; unit < model.units.size(); ++unit) {
      if (model.units[unit].elements_of(flat_of(key)) == 0) continue;
      const std::vector<TensorToWrite> of_unit =
          stored_tensors(model, model.units[unit], key, state.saved(unit, flat_of(key)));
      tensors.insert(tensors.end(), of_unit.begin(), of_unit.end());
    }
    return align_up(SafetensorsWriter::file_bytes(DType::fp32, tensors), kBlock) + kManifestBytesPerFile;
  };
  const auto own_bytes = [&] {
    Bytes bytes = 0;
    for (const StateKey key : saved_keys_of(model)) bytes += file_bytes(key);
    return std::to_string(bytes);
  };
  Bytes bytes = kManifestBytes;
  for (const std::string& of_rank : texts_of_ranks(ranks, own_bytes)) bytes += std::stoll(of_rank);
  return bytes;
}

Bytes checkpoint_bytes(const Companions& companions) {
  Bytes bytes = 0;
  for (const auto& [name, content] : companions)
    bytes += align_up(std::ssize(content), kBlock) + kManifestBytesPerFile;
  return bytes;
}

Bytes most_more_bytes(std::vector<Bytes> existing, Bytes each, std::int64_t keep, std::int64_t saves) {
  Bytes more = 0;
  Bytes most = 0;
  // From then on every save replaces an equal one.
  const std::int64_t until_steady = keep + std::ssize(existing) + 1;
  for (std::int64_t save = 0; save < std::min(saves, until_steady); ++save) {
    more += each;
    most = std::max(most, more);
    existing.insert(existing.begin(), each);
    while (std::ssize(existing) > keep) {
      more -= existing.back();
      existing.pop_back();
    }
  }
  return most;
}

std::vector<SpaceWarning> check_space(const std::vector<SpaceNeed>& needs) {
  std::map<std::uint64_t, SharedSpace> filesystems;
  std::map<std::uint64_t, std::size_t> first;
  for (std::size_t n = 0; n < needs.size(); ++n) {
    if (needs[n].each == 0) continue;
    filesystems[needs[n].filesystem].add(needs[n]);
    first.try_emplace(needs[n].filesystem, n);
  }
  std::vector<SpaceWarning> warnings;
  for (const auto& [number, space] : filesystems) {
    space.require_one_of_each();
    if (std::string sentence = space.warning(); !sentence.empty())
      warnings.push_back({first.at(number), std::move(sentence)});
  }
  return warnings;
}

}  // namespace strata
