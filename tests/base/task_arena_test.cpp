#include "base/task_arena.h"

#include <stdexcept>
#include <vector>

#include <gtest/gtest.h>

namespace strata {
namespace {

TEST(TaskArena, EveryItemOnceInPiecesOfTheGrain) {
  TaskArena arena(3);
  for (const std::int64_t count : {0, 1, 7, 8, 1000}) {
    std::vector<int> calls(static_cast<std::size_t>(count));
    arena.for_ranges(count, 8, [&](std::int64_t first, std::int64_t last, int slot) {
      EXPECT_LT(first, last);
      EXPECT_TRUE(slot >= 0 && slot < arena.threads()) << slot;
      for (std::int64_t item = first; item < last; ++item) ++calls[static_cast<std::size_t>(item)];
    });
    EXPECT_EQ(calls, std::vector<int>(calls.size(), 1)) << count;
  }
}

TEST(TaskArena, WhatATaskWroteIsThereAfterTheCall) {
  TaskArena arena(2);
  std::vector<std::int64_t> values(10'000);
  double sum = 0;
  for (int round = 1; round <= 20; ++round) {
    arena.for_each(static_cast<std::int64_t>(values.size()),
                   [&](std::int64_t item, int) { values[static_cast<std::size_t>(item)] += item; });
    arena.execute([&] {
      sum = sum_of(static_cast<std::int64_t>(values.size()), [&](std::int64_t item) {
        return static_cast<double>(values[static_cast<std::size_t>(item)]);
      });
    });
    EXPECT_EQ(sum, round * 49'995'000.0);
  }
}

TEST(TaskArena, AnErrorReachesTheCaller) {
  TaskArena arena(2);
  EXPECT_THROW(arena.for_each(100,
                              [](std::int64_t item, int) {
                                if (item == 57) throw std::runtime_error("57");
                              }),
               std::runtime_error);
  EXPECT_THROW(arena.execute([] { throw std::runtime_error("work"); }), std::runtime_error);
}

}  // namespace
}  // namespace strata
