// What a run says before its first step, on standard error: a few plain lines, and the rest with --verbose.
#pragma once

#include <string>
#include <vector>

namespace strata {

class Opening {
 public:
  explicit Opening(bool verbose) : verbose_(verbose) {}

  /// A line, or several, that every run says.
  void say(const std::string& lines);
  /// What only --verbose shows. Nothing if the text is empty.
  void detail(const std::string& lines);

  /// All of them, shown or not: reports keep them.
  const std::vector<std::string>& lines() const { return lines_; }

 private:
  void keep(const std::string& lines);

  bool verbose_;
  std::vector<std::string> lines_;
};

}  // namespace strata
