#include "engine/checkpoint/checkpoint_space.h"

#include <algorithm>
#include <numeric>

#include "collectives/agreement.h"
#include "engine/checkpoint/safetensors.h"
#include "engine/checkpoint/stored_state.h"

namespace strata {
namespace {

constexpr Bytes kBlock = 4 * KiB;
constexpr Bytes kManifestBytes = 16 * KiB;  // and some for each file that it lists
constexpr Bytes kManifestBytesPerFile = 256;

}  // namespace

Bytes checkpoint_bytes(const Model& model, const StateAccess& state, Communicator* ranks) {
  const auto file_bytes = [&](Flat flat) {
    std::vector<TensorToWrite> tensors;
    for (std::size_t unit = 0; unit < model.units.size(); ++unit) {
      if (model.units[unit].elements_of(flat) == 0) continue;
      const std::vector<TensorToWrite> of_unit = stored_tensors(model.units[unit], state.saved(unit, flat));
      tensors.insert(tensors.end(), of_unit.begin(), of_unit.end());
    }
    return align_up(SafetensorsWriter::file_bytes(DType::fp32, tensors), kBlock) + kManifestBytesPerFile;
  };
  const auto own_bytes = [&] {
    Bytes bytes = 0;
    for (const StateKind kind : kinds_of(model)) bytes += file_bytes(flat_of(kind));
    return std::to_string(bytes);
  };
  Bytes bytes = kManifestBytes;
  for (const std::string& of_rank : texts_of_ranks(ranks, own_bytes)) bytes += std::stoll(of_rank);
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

}  // namespace strata
