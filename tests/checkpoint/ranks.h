// Ranks as threads, each with its shard of one training state.
#pragma once

#include <gtest/gtest.h>

#include <deque>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "tests/base/faulty_file_system.h"
#include "tests/checkpoint/support.h"
#include "tests/collectives/run_ranks.h"

namespace strata::test {

/// Rank's part of equal shards of the padded flat parameter; the last ones may be shorter, or empty.
inline FlatRange shard(const Unit& unit, int rank, int ranks, Flat flat = Flat::trained) {
  const std::int64_t all = unit.elements_of(flat), each = (all + ranks - 1) / ranks;
  const std::int64_t first = std::min(rank * each, all);
  return {first, std::min(each, all - first), flat};
}

inline std::span<float> part_of(std::span<float> flat, FlatRange range) {
  return flat.subspan(static_cast<std::size_t>(range.first), static_cast<std::size_t>(range.count));
}

/// A rank that saves and loads its shard, as it stands in `state`.
inline StateAccess access_of_rank(State& state, const Model& model, int rank, int ranks) {
  const auto range = [&model, rank, ranks](std::size_t unit, Flat flat) {
    return shard(model.units[unit], rank, ranks, flat);
  };
  const auto values = [&state, range](std::size_t unit, StateKey key) {
    return part_of(state.flat(unit, key), range(unit, flat_of(key)));
  };
  return {.saved = range,
          .read = values,
          .loaded = [range](std::size_t unit, StateKey key) { return range(unit, flat_of(key)); },
          .write = [values](std::size_t unit, StateKey key, const auto& fill,
                            const ReadTensor&) { fill(values(unit, key)); }};
}

/// A rank that wants whatever `wanted` says, in its own copy of a state.
inline StateAccess access_to_load(State& state,
                                  const std::function<FlatRange(std::size_t, StateKey)>& wanted) {
  return {.saved = {},
          .read = {},
          .loaded = wanted,
          .write = [&state, wanted](std::size_t unit, StateKey key, const auto& fill, const ReadTensor&) {
            fill(part_of(state.flat(unit, key), wanted(unit, key)));
          }};
}

}  // namespace strata::test
