// What a run says before its first step, on standard error: a few plain lines, and the rest with --verbose.
#pragma once

#include <string>
#include <vector>

namespace strata {

class Opening {
 public:
  explicit Opening(bool verbose) : verbose_(verbose) {}

  /// A line or several, which every run shows if `is_plain`, else only --verbose. Nothing if the text is
  /// empty.
  void add(const std::string& lines, bool is_plain);
  void say(const std::string& lines) { add(lines, /*is_plain=*/true); }
  void detail(const std::string& lines) { add(lines, /*is_plain=*/false); }

  /// All of them, shown or not: reports keep them.
  const std::vector<std::string>& lines() const { return lines_; }

 private:
  bool verbose_;
  std::vector<std::string> lines_;
};

}  // namespace strata
