// Patterns of tensors' names, in which * is any text, ? any character and [ab] one of these.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace strata {

struct Model;

/// Names are matched whole.
bool matches(const std::string& pattern, const std::string& name);

/// A key's patterns, which must all mean something.
class NamePatterns {
 public:
  NamePatterns(std::string key, const std::vector<std::string>& patterns)
      : key_(std::move(key)), patterns_(patterns), is_used_(patterns.size(), false) {}

  /// Whether one of them does. Each that does is used.
  bool match(const std::string& name);
  /// Throws ConfigError if a pattern is not used, though all of the model's tensors that the key may mean
  /// were asked for.
  void check(const Model& model) const;

 private:
  std::string key_;
  std::vector<std::string> patterns_;
  std::vector<bool> is_used_;
};

}  // namespace strata
