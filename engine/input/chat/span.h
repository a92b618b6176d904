// A conversation's text, and parts of it. Plain values.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace strata::chat {

/// Bytes of a text, from `begin` to before `end`.
struct Span {
  std::size_t begin, end;
  friend bool operator==(const Span&, const Span&) = default;
};

/// What one pass of a loop over the messages has written.
struct MessageText {
  std::size_t message;
  Span span;
};

struct Rendering {
  std::string text;                  ///< UTF-8
  std::vector<Span> generated;       ///< what stands in `generation` tags, in order
  std::vector<MessageText> written;  ///< in the order of their ends; only what is not empty
};

}  // namespace strata::chat
