// What the assembly of a run tells its caller while it works. It prints nothing itself.
#pragma once

#include <functional>
#include <string>

#include "engine/input/data/tokenize.h"

namespace strata {

struct RunNotes {
  /// A sentence that the user should read.
  std::function<void(const std::string& sentence)> on_warning = [](const std::string&) {};
  /// A line on how texts are split into tokens.
  std::function<void(const std::string& line)> on_texts = [](const std::string&) {};

  using Follower = std::function<void(const TokenizeProgress&)>;
  /// Called before texts are tokenized. The result hears how far that is, and is destroyed when it is done.
  std::function<Follower()> follow_texts = [] { return [](const TokenizeProgress&) {}; };
};

}  // namespace strata
