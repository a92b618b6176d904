// Links between ranks, as a machine's profile says, and how long an exchange over them takes. Pure functions;
// any thread.
#pragma once

#include <array>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <utility>

#include "engine/plan/program/program.h"

namespace strata {

/// Ranks are numbered node after node.
struct RankLinks {
  std::int64_t node_ranks = 0;         ///< of a node; 0: all are of one
  double inside_bytes_per_second = 0;  ///< that a rank sends to ranks of its node; 0: not given
  double across_bytes_per_second = 0;  ///< to those of others, if all of its node send so much; 0: not given
  double inside_latency = 0,
         across_latency = 0;  ///< seconds from one rank to another beside those of its bytes
  friend bool operator==(const RankLinks&, const RankLinks&) = default;
};

/// By the key of a profile.
inline constexpr std::array<std::pair<const char*, double RankLinks::*>, 4> kRankLinkKeys = {
    {{"rank_bytes_per_second", &RankLinks::inside_bytes_per_second},
     {"rank_latency_seconds", &RankLinks::inside_latency},
     {"node_bytes_per_second", &RankLinks::across_bytes_per_second},
     {"node_latency_seconds", &RankLinks::across_latency}}};

/// What each rank of a group sends in `exchange` takes. A collective goes round a ring in which the ranks of
/// a node stand together; those of a group on one node share what goes to other nodes, each over its own
/// link. A message is to the next stage, on another node if the group is on several. REQUIRES: links with a
/// rate each.
double exchange_seconds(const RankLinks& links, const RankGroup& group, const Exchange& exchange);

/// Bytes per second that each rank of the group sends in a collective. REQUIRES: links with a rate each.
double exchange_rate(const RankLinks& links, const RankGroup& group);

/// What holds on both machines.
RankLinks slowest(const RankLinks& a, const RankLinks& b);

/// Keys of a profile; none for what is 0.
nlohmann::json links_json(const RankLinks& links);
/// Throws nlohmann's exception if a value is no number.
RankLinks links_from_json(const nlohmann::json& profile);

}  // namespace strata
