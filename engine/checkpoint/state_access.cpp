#include "engine/checkpoint/state_access.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "base/hash.h"

namespace strata {
namespace {

/// What a rank saves of a unit.
struct RangeOfRank {
  FlatRange range;
  int rank = 0;
};

/// In the order of the elements, without empty ones.
std::vector<RangeOfRank> ranges_in_order(FlatRange own, Communicator* ranks) {
  std::vector<FlatRange> gathered = {own};
  if (ranks != nullptr) {
    gathered.resize(static_cast<std::size_t>(ranks->size()));
    ranks->all_gather(&own, gathered.data(), sizeof(own), Element::byte);
  }
  std::vector<RangeOfRank> ranges;
  for (std::size_t rank = 0; rank < gathered.size(); ++rank) {
    if (gathered[rank].count > 0) ranges.push_back({gathered[rank], static_cast<int>(rank)});
  }
  std::ranges::sort(ranges, {}, [](const RangeOfRank& entry) { return entry.range.first; });
  return ranges;
}

/// The hash on rank 0, which receives what the others send.
class StateHash {
 public:
  explicit StateHash(Communicator* ranks) : ranks_(ranks), self_(ranks == nullptr ? 0 : ranks->rank()) {}

  void add(const Unit& unit, const RangeOfRank& part, const std::function<std::span<const float>()>& read) {
    if (self_ == 0) {
      update(unit, part.range, part.rank == 0 ? read() : receive(part));
    } else if (self_ == part.rank) {
      ranks_->send(read().data(), static_cast<std::size_t>(part.range.count), Element::fp32, 0);
    }
  }

  std::uint64_t digest() {
    std::uint64_t digest = hash_.digest();
    if (ranks_ != nullptr) ranks_->broadcast(&digest, sizeof(digest), Element::byte, 0);
    return digest;
  }

 private:
  std::span<const float> receive(const RangeOfRank& part) {
    received_.resize(static_cast<std::size_t>(part.range.count));
    ranks_->receive(received_.data(), received_.size(), Element::fp32, part.rank);
    return received_;
  }

  void update(const Unit& unit, FlatRange range, std::span<const float> values) {
    for (const TensorPiece& piece : pieces_in(unit, range)) {
      hash_.update(std::as_bytes(
          values.subspan(static_cast<std::size_t>(piece.at), static_cast<std::size_t>(piece.count()))));
    }
  }

  Communicator* ranks_;
  int self_;
  StreamingHash hash_;
  std::vector<float> received_;
};

}  // namespace

std::vector<StateKind> kinds_of(const Model& model) {
  std::vector<StateKind> kinds = {StateKind::master, StateKind::exp_avg, StateKind::exp_avg_sq};
  if (model.freezes()) kinds.push_back(StateKind::frozen);
  return kinds;
}

StateAccess access_in_memory(std::function<std::span<float>(std::size_t unit, StateKind kind)> flat) {
  const auto all_of = [flat](std::size_t unit, StateKind kind) {
    return FlatRange{0, std::ssize(flat(unit, kind)), flat_of(kind)};
  };
  const auto write = [flat](std::size_t unit, StateKind kind, const auto& fill) { fill(flat(unit, kind)); };
  return {.saved = [all_of](std::size_t unit, Flat of) { return all_of(unit, weights_in(of)); },
          .read = std::move(flat),
          .loaded = all_of,
          .write = write};
}

std::string state_hash(const Model& model, const StateAccess& state, Communicator* ranks) {
  StateHash hash(ranks);
  for (std::size_t unit = 0; unit < model.units.size(); ++unit) {
    for (const Flat flat : {Flat::trained, Flat::frozen}) {
      if (model.units[unit].elements_of(flat) == 0) continue;
      const std::vector<RangeOfRank> parts = ranges_in_order(state.saved(unit, flat), ranks);
      for (const StateKind kind : kStateKinds) {
        if (flat_of(kind) != flat) continue;
        for (const RangeOfRank& part : parts)
          hash.add(model.units[unit], part, [&] { return state.read(unit, kind); });
      }
    }
  }
  return hex(hash.digest());
}

}  // namespace strata
