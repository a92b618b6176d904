#include "engine/model/adapter_patterns.h"

#include <fmt/format.h>

#include <cmath>
#include <stdexcept>
#include <utility>

#include "base/error.h"
#include "base/excerpt.h"
#include "engine/config/adapter_section.h"
#include "engine/config/choices.h"

namespace strata {

AdapterPatterns::AdapterPatterns(const AdapterSection& adapter, std::string where)
    : adapter_(adapter),
      where_(std::move(where)),
      ranks_(compile("rank_pattern", adapter.rank_pattern)),
      alphas_(compile("alpha_pattern", adapter.alpha_pattern)) {}

/// PEFT asks re.match(rf"(.*\.)?({pattern})$", layer).
template <typename T>
std::vector<AdapterPatterns::Pattern> AdapterPatterns::compile(const char* key,
                                                               const ValuesByPattern<T>& values) const {
  std::vector<Pattern> patterns;
  patterns.reserve(values.size());
  for (const auto& [text, value] : values) {
    try {
      // Alone first: parentheses of the whole must not complete its own.
      const text::Regex alone(text);
      patterns.push_back({key, text, text::Regex(fmt::format(R"(\A(?:.*\.)?(?:{})\z)", text))});
    } catch (const std::invalid_argument& error) {
      throw ConfigError(
          fmt::format("{}{}: '{}' is no regular expression: {}", where_, key, excerpt(text), error.what()));
    }
  }
  return patterns;
}

template <typename T>
T AdapterPatterns::find(std::vector<Pattern>& patterns, const ValuesByPattern<T>& values, T otherwise,
                        const std::string& layer) const {
  for (std::size_t i = 0; i < patterns.size(); ++i) {
    bool matches = false;
    try {
      patterns[i].regex.for_each_match(layer, [&](std::size_t, std::size_t) { matches = true; });
    } catch (const ConfigError&) {
      throw ConfigError(fmt::format("{}{}: '{}' takes too long for the name {}; write it more simply", where_,
                                    patterns[i].key, excerpt(patterns[i].text), layer));
    }
    if (!matches) continue;
    patterns[i].is_used = true;
    return values[i].second;
  }
  return otherwise;
}

AdapterPatterns::Values AdapterPatterns::of(const std::string& layer) {
  return {.rank = find(ranks_, adapter_.rank_pattern, adapter_.rank, layer),
          .alpha = find(alphas_, adapter_.alpha_pattern, adapter_.alpha, layer)};
}

void AdapterPatterns::check() const {
  for (const std::vector<Pattern>* patterns : {&ranks_, &alphas_}) {
    for (const Pattern& pattern : *patterns) {
      if (pattern.is_used) continue;
      throw ConfigError(
          fmt::format("{}{}: '{}' is the first pattern to match for no layer with an adapter; correct it, or "
                      "take it out",
                      where_, pattern.key, pattern.text));
    }
  }
}

double adapter_scale(AdapterType type, const AdapterPatterns::Values& values) {
  const auto rank = static_cast<double>(values.rank);
  return values.alpha / (type == AdapterType::rslora ? std::sqrt(rank) : rank);
}

}  // namespace strata
