// The rank and alpha of each layer's adapter: those of all layers, and others for layers whose names match a
// pattern, as PEFT's rank_pattern and alpha_pattern say it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/config/adapter_section.h"
#include "engine/input/text/regex.h"

namespace strata {

class AdapterPatterns {
 public:
  struct Values {
    std::int64_t rank;
    double alpha;
  };

  /// `where` stands in front of a key in errors: "adapter.", or a file's name and a colon. Throws ConfigError
  /// if a pattern is no regular expression. `adapter` must outlive it.
  AdapterPatterns(const AdapterSection& adapter, std::string where);

  /// By the layer's name. Of each key the first pattern counts that matches the whole name, or its end behind
  /// a dot. Throws ConfigError if a match takes too long.
  Values of(const std::string& layer);
  /// Throws ConfigError if a pattern matches none of the layers that were asked for.
  void check() const;

 private:
  struct Pattern {
    std::string key, text;
    text::Regex regex;
    bool is_used = false;
  };

  template <typename T>
  std::vector<Pattern> compile(const char* key, const ValuesByPattern<T>& values) const;
  template <typename T>
  T find(std::vector<Pattern>& patterns, const ValuesByPattern<T>& values, T otherwise,
         const std::string& layer) const;

  const AdapterSection& adapter_;
  std::string where_;
  std::vector<Pattern> ranks_, alphas_;
};

/// The factor on what adapters add: alpha / rank, of rslora alpha / sqrt(rank).
double adapter_scale(AdapterType type, const AdapterPatterns::Values& values);

}  // namespace strata
