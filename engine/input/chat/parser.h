// A template's tokens as a tree, by Jinja's grammar. Plain functions. The tree is limited in depth, since it
// is walked by recursion.
#pragma once

#include <string_view>

#include "engine/input/chat/syntax.h"

namespace strata::chat {

struct Syntax {
  ScopedBody body;
  bool has_generation;  ///< whether there is a `generation` tag anywhere
};

/// Throws Problem with the line for what is no template and for what is not supported. REQUIRES: valid UTF-8.
Syntax parse_template(std::string_view source);

}  // namespace strata::chat
