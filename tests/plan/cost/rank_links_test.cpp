#include "engine/plan/cost/rank_links.h"

#include <gtest/gtest.h>

#include "engine/plan/cost/rates.h"

namespace strata {
namespace {

constexpr RankLinks kNodesOfEight = {.node_ranks = 8,
                                     .inside_bytes_per_second = 400,
                                     .across_bytes_per_second = 50,
                                     .inside_latency = 1,
                                     .across_latency = 10};

RankGroup group(std::int64_t ranks, std::int64_t stride) {
  return {.name = "group", .sets = 1, .ranks = ranks, .stride = stride};
}

TEST(RankLinks, AGroupOnOneNodeUsesTheLinksInsideIt) {
  EXPECT_EQ(exchange_rate(kNodesOfEight, group(8, 1)), 400);
  EXPECT_EQ(exchange_rate(kNodesOfEight, group(4, 2)), 400);
  EXPECT_EQ(exchange_seconds(kNodesOfEight, group(4, 2), {.group = 0, .sent = 800}), 3 * 1 + 2);
}

TEST(RankLinks, RanksOfANodeShareWhatTheirGroupSendsToOthers) {
  EXPECT_EQ(exchange_rate(kNodesOfEight, group(64, 1)), 400) << "eight links of 50 are as fast as one inside";
  EXPECT_EQ(exchange_rate(kNodesOfEight, group(8, 4)), 100) << "two ranks on each node";
  EXPECT_EQ(exchange_rate(kNodesOfEight, group(8, 8)), 50) << "one";
  EXPECT_EQ(exchange_rate(kNodesOfEight, group(8, 32)), 50);
  EXPECT_EQ(exchange_seconds(kNodesOfEight, group(8, 4), {.group = 0, .sent = 1000}), 1 * 1 + 3 * 10 + 10);
}

TEST(RankLinks, AMessageTakesTheLinkToTheNextStage) {
  EXPECT_EQ(exchange_seconds(kNodesOfEight, group(2, 4), {.group = 0, .peer = 1, .sent = 400}), 1 + 1);
  EXPECT_EQ(exchange_seconds(kNodesOfEight, group(4, 8), {.group = 0, .peer = 1, .sent = 400}), 10 + 8);
  EXPECT_EQ(exchange_seconds(kNodesOfEight, group(4, 8), {.group = 0, .peer = 1, .sent = 0}), 0)
      << "its receiver, who waits for it";
}

TEST(RankLinks, WithoutNodesAllRanksAreOnOne) {
  const RankLinks links = {.inside_bytes_per_second = 10, .across_bytes_per_second = 1};
  EXPECT_EQ(exchange_rate(links, group(1024, 16)), 10);
}

TEST(RankLinks, WhatAProfileLeavesOutIsAsFastAsACoreOrTheLinkToTheDevice) {
  MachineRates rates = {.h2d_bytes_per_second = 50, .cores_copy = false};
  EXPECT_EQ(rates.rank_links().inside_bytes_per_second, 50);
  rates.cores_copy = true;
  rates.copy_bytes_per_second = 7;
  EXPECT_EQ(rates.rank_links().across_bytes_per_second, 7);
  rates.links.inside_bytes_per_second = 9;
  EXPECT_EQ(rates.rank_links().across_bytes_per_second, 9);
}

TEST(RankLinks, AProfileKeepsThem) {
  EXPECT_EQ(links_from_json(links_json(kNodesOfEight)), kNodesOfEight);
  EXPECT_EQ(links_from_json(links_json({})), RankLinks());
}

}  // namespace
}  // namespace strata
