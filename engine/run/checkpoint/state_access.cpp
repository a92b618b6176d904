#include "engine/run/checkpoint/state_access.h"

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "base/hash.h"
#include "base/nth.h"
#include "engine/model/kept_state.h"
#include "engine/model/model.h"

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
    resize(gathered, ranks->size());
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

  /// `pieces`: those of the range that count.
  void add(const RangeOfRank& part, const std::vector<TensorPiece>& pieces,
           const std::function<std::span<const float>()>& read) {
    if (self_ == 0) {
      update(pieces, part.rank == 0 ? read() : receive(part));
    } else if (self_ == part.rank) {
      ranks_->send(read().data(), static_cast<std::size_t>(part.range.count), Element::fp32, 0);
    }
  }

  /// If ranks have stretches of tensors: these are put together first.
  void add_split(const Unit& unit, FlatRange own, const std::function<bool(const TensorSpec&)>& counts,
                 const std::function<std::span<const float>()>& read) {
    std::vector<Run> runs;
    for (const TensorRun& run : runs_in(unit, own)) {
      if (run.tensor->is_copy || !counts(*run.tensor)) continue;
      runs.push_back({run.tensor->whole_offset, run.first, run.count(), run.at, self_});
    }
    const std::span<const float> values = own.count > 0 ? read() : std::span<const float>();
    if (self_ > 0) return send(runs, values);
    std::vector<std::vector<float>> of_ranks = {{values.begin(), values.end()}};
    for (int rank = 1; ranks_ != nullptr && rank < ranks_->size(); ++rank)
      of_ranks.push_back(receive(rank, runs));
    std::ranges::sort(runs, {}, [](const Run& run) { return std::pair(run.tensor, run.first); });
    for (const Run& run : runs) {
      hash_.update(std::as_bytes(slice(nth(of_ranks, run.rank), run.at, run.count)));
    }
  }

  std::uint64_t digest() {
    std::uint64_t digest = hash_.digest();
    if (ranks_ != nullptr) ranks_->broadcast(&digest, sizeof(digest), Element::byte, 0);
    return digest;
  }

 private:
  /// A TensorRun as ranks tell each other.
  struct Run {
    std::int64_t tensor, first, count, at, rank;
  };

  void send(const std::vector<Run>& runs, std::span<const float> values) {
    const std::array<std::int64_t, 2> counts = {std::ssize(runs), std::ssize(values)};
    ranks_->send(counts.data(), sizeof(counts), Element::byte, 0);
    if (!runs.empty()) ranks_->send(runs.data(), runs.size() * sizeof(Run), Element::byte, 0);
    if (!values.empty()) ranks_->send(values.data(), values.size(), Element::fp32, 0);
  }

  std::vector<float> receive(int rank, std::vector<Run>& runs) {
    std::array<std::int64_t, 2> counts = {};
    ranks_->receive(counts.data(), sizeof(counts), Element::byte, rank);
    const std::size_t before = runs.size(), count = static_cast<std::size_t>(counts[0]);
    runs.resize(before + count);
    if (count > 0) ranks_->receive(runs.data() + before, count * sizeof(Run), Element::byte, rank);
    auto values = sized<std::vector<float>>(counts[1]);
    if (!values.empty()) ranks_->receive(values.data(), values.size(), Element::fp32, rank);
    return values;
  }

  std::span<const float> receive(const RangeOfRank& part) {
    resize(received_, part.range.count);
    ranks_->receive(received_.data(), received_.size(), Element::fp32, part.rank);
    return received_;
  }

  void update(const std::vector<TensorPiece>& pieces, std::span<const float> values) {
    for (const TensorPiece& piece : pieces) {
      hash_.update(std::as_bytes(slice(values, piece.at, piece.count())));
    }
  }

  Communicator* ranks_;
  int self_;
  StreamingHash hash_;
  std::vector<float> received_;
};

}  // namespace

std::vector<StateKey> keys_of(const Model& model) {
  return keys_of(model, model.rules(), model.averages);
}

std::vector<StateKey> keys_of(const Model& model, const UpdateRules& rules, bool averages) {
  std::vector<StateKey> keys = {StateKey::master};
  kept_moments(rules, averages).for_each([&](Moment moment) { keys.push_back(key_of(moment)); });
  if (keeps_factors(rules)) keys.push_back(StateKey::factors);
  if (model.freezes()) keys.push_back(StateKey::frozen);
  return keys;
}

std::vector<StateKey> keys_of(const Model& model, Flat flat) {
  std::vector<StateKey> keys = keys_of(model);
  std::erase_if(keys, [flat](StateKey key) { return flat_of(key) != flat; });
  return keys;
}

std::vector<TensorPiece> pieces_in(const Model& model, const Unit& unit, StateKey key, FlatRange range) {
  std::vector<TensorPiece> pieces = pieces_in(unit, range);
  std::erase_if(pieces, [&](const TensorPiece& piece) { return !keeps(model, *piece.tensor, key); });
  return pieces;
}

std::vector<StateKey> saved_keys_of(const Model& model) {
  std::vector<StateKey> keys = keys_of(model);
  if (model.adapts()) std::erase(keys, StateKey::frozen);
  return keys;
}

StateAccess access_in_memory(const Model& model,
                             std::function<std::span<float>(std::size_t unit, StateKey key)> flat) {
  const auto range = [&model](std::size_t unit, StateKey key) {
    return kept_part(model, model.units[unit], key, whole(model.units[unit], flat_of(key)));
  };
  const auto values = [flat = std::move(flat), range](std::size_t unit, StateKey key) {
    const FlatRange kept = range(unit, key);
    return slice(flat(unit, key), kept.first, kept.count);
  };
  return {.saved = [&model](std::size_t unit, Flat of) { return whole(model.units[unit], of); },
          .read = values,
          .loaded = range,
          .write = [values](std::size_t unit, StateKey key, const auto& fill,
                            const ReadTensor&) { fill(values(unit, key)); }};
}

std::string state_hash(const Model& model, const StateAccess& state, Communicator* ranks) {
  StateHash hash(ranks);
  const bool is_split = std::ranges::any_of(
      model.units, [](const Unit& unit) { return std::ranges::any_of(unit.tensors, &TensorSpec::is_split); });
  for (std::size_t unit = 0; unit < model.units.size(); ++unit) {
    for (const Flat flat : kFlats) {
      if (model.units[unit].elements_of(flat) == 0) continue;
      const Unit& of_model = model.units[unit];
      for (const StateKey key : keys_of(model, flat)) {
        if (moment_of(key) && kept_stretch(model, of_model, key).count == 0) continue;
        const FlatRange own = kept_part(model, of_model, key, state.saved(unit, flat));
        const auto read = [&] { return state.read(unit, key); };
        if (is_split) {
          hash.add_split(
              of_model, own, [&](const TensorSpec& tensor) { return keeps(model, tensor, key); }, read);
          continue;
        }
        for (const RangeOfRank& part : ranges_in_order(own, ranks))
          hash.add(part, pieces_in(model, of_model, key, part.range), read);
      }
    }
  }
  return hex(hash.digest());
}

}  // namespace strata
