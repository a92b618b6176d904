#include "engine/plan/cost/rank_links.h"

#include <algorithm>

namespace strata {
namespace {

/// How the ranks of a set of a group lie on nodes.
struct Spread {
  std::int64_t on_node = 1;  ///< ranks of the set
  std::int64_t nodes = 1;
};

Spread spread_of(const RankLinks& links, const RankGroup& group) {
  if (links.node_ranks == 0 || group.ranks * group.stride <= links.node_ranks) return {group.ranks, 1};
  const std::int64_t on_node = std::max<std::int64_t>(1, links.node_ranks / group.stride);
  return {on_node, (group.ranks + on_node - 1) / on_node};
}

constexpr const char* kNodeRanks = "node_ranks";

}  // namespace

double exchange_rate(const RankLinks& links, const RankGroup& group) {
  const Spread spread = spread_of(links, group);
  if (spread.nodes == 1) return links.inside_bytes_per_second;
  const double across = static_cast<double>(spread.on_node) * links.across_bytes_per_second;
  return spread.on_node == 1 ? across : std::min(links.inside_bytes_per_second, across);
}

double exchange_seconds(const RankLinks& links, const RankGroup& group, const Exchange& exchange) {
  if (exchange.sent == 0) return 0;
  const auto bytes = static_cast<double>(exchange.sent);
  const Spread spread = spread_of(links, group);
  if (exchange.peer >= 0) {
    return spread.nodes == 1 ? links.inside_latency + bytes / links.inside_bytes_per_second
                             : links.across_latency + bytes / links.across_bytes_per_second;
  }
  return static_cast<double>(spread.on_node - 1) * links.inside_latency +
         static_cast<double>(spread.nodes - 1) * links.across_latency + bytes / exchange_rate(links, group);
}

RankLinks slowest(const RankLinks& a, const RankLinks& b) {
  return {.node_ranks = std::min(a.node_ranks, b.node_ranks),
          .inside_bytes_per_second = std::min(a.inside_bytes_per_second, b.inside_bytes_per_second),
          .across_bytes_per_second = std::min(a.across_bytes_per_second, b.across_bytes_per_second),
          .inside_latency = std::max(a.inside_latency, b.inside_latency),
          .across_latency = std::max(a.across_latency, b.across_latency)};
}

nlohmann::json links_json(const RankLinks& links) {
  nlohmann::json json = nlohmann::json::object();
  if (links.node_ranks > 0) json[kNodeRanks] = links.node_ranks;
  for (const auto& [key, value] : kRankLinkKeys) {
    if (links.*value > 0) json[key] = links.*value;
  }
  return json;
}

RankLinks links_from_json(const nlohmann::json& profile) {
  RankLinks links;
  links.node_ranks = profile.value(kNodeRanks, links.node_ranks);
  for (const auto& [key, value] : kRankLinkKeys) links.*value = profile.value(key, links.*value);
  return links;
}

}  // namespace strata
