#include "collectives/same_on_all.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string_view>

#include "base/error.h"
#include "base/hash.h"
#include "base/nth.h"
#include "collectives/agreement.h"
#include "collectives/launcher.h"

namespace strata {
namespace {

/// What a rank has, and its name; as text, for other ranks, each part ends with a NUL.
struct RankFacts {
  std::string rank;
  Facts facts;
};

std::string text_of(const RankFacts& rank) {
  const auto ended = [](const std::string& part) { return part + '\0'; };
  std::string text = ended(rank.rank);
  for (const auto& [name, value] : rank.facts) text += ended(name) + ended(value);
  return text;
}

RankFacts parse(std::string_view text) {
  const auto next = [&] {
    const std::size_t end = text.find('\0');
    std::string part(text.substr(0, end));
    text.remove_prefix(end + 1);
    return part;
  };
  RankFacts result{.rank = next(), .facts = {}};
  while (!text.empty()) {
    std::string name = next();
    result.facts.emplace_back(std::move(name), next());
  }
  return result;
}

bool all_have_one_hash(Communicator& ranks, const Facts& own) {
  const std::uint64_t hash = hash_text(text_of({"", own}));
  auto hashes = sized<std::vector<std::uint64_t>>(ranks.size());
  ranks.all_gather(&hash, hashes.data(), sizeof hash, Element::byte);
  return std::ranges::count(hashes, hash) == ranks.size();
}

std::string value_of(const Facts& facts, const std::string& name) {
  const auto found = std::ranges::find(facts, name, &Facts::value_type::first);
  return found == facts.end() ? "" : found->second;
}

/// Finds the first of the first rank's facts, or else of another's, that is not the same on all.
std::optional<std::string> name_that_differs(const std::vector<RankFacts>& all) {
  for (const RankFacts& rank : all) {
    for (const auto& [name, value] : rank.facts) {
      const auto is_another = [&, &name = name, &value = value](const RankFacts& other) {
        return value_of(other.facts, name) != value;
      };
      if (std::ranges::any_of(all, is_another)) return name;
    }
  }
  return std::nullopt;
}

/// "rank 3 differs from rank 0", "ranks 3, 4 and 5 others differ from rank 0".
std::string who_differs(const std::vector<std::size_t>& ranks) {
  constexpr std::size_t kMostNames = 8;
  if (ranks.size() == 1) return fmt::format("rank {} differs from rank 0", ranks[0]);
  const auto named = std::vector(
      ranks.begin(), ranks.begin() + static_cast<std::ptrdiff_t>(std::min(kMostNames, ranks.size())));
  return fmt::format(
      "ranks {}{} differ from rank 0", fmt::join(named, ", "),
      named.size() < ranks.size() ? fmt::format(" and {} others", ranks.size() - named.size()) : "");
}

std::string sentence_of(const std::vector<RankFacts>& all) {
  const std::optional<std::string> name = name_that_differs(all);
  if (!name) return "ranks name what they have in another order";
  const auto value_on = [&](std::size_t rank) { return value_of(all[rank].facts, *name); };
  std::vector<std::size_t> others;
  for (std::size_t rank = 1; rank < all.size(); ++rank)
    if (value_on(rank) != value_on(0)) others.push_back(rank);
  const auto shown = [&](std::size_t rank) { return value_on(rank).empty() ? "not given" : value_on(rank); };
  return fmt::format("{}: {} on {}, and {} on {}; {}", *name, shown(others[0]), all[others[0]].rank, shown(0),
                     all[0].rank, who_differs(others));
}

}  // namespace

void require_same(Communicator* ranks, const Facts& own, const std::string& advice) {
  if (ranks == nullptr || all_have_one_hash(*ranks, own)) return;
  std::vector<RankFacts> all;
  for (const std::string& text : texts_of_ranks(ranks, [&] {
         return text_of({name_as_rank(ranks->rank()), own});
       }))
    all.push_back(parse(text));
  let_all_hear(*ranks);
  throw ConfigError(fmt::format("{}: {}", sentence_of(all), advice));
}

}  // namespace strata
