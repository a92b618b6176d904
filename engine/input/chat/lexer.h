// A template's text as tokens: what stands between tags, after the white space that tags take away with
// trim_blocks and lstrip_blocks, and the words of tags. Plain functions.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace strata::chat {

enum class TokenKind : std::uint8_t {
  text,  ///< between tags
  begin_output,
  end_output,
  begin_block,
  end_block,
  name,
  string,  ///< its value, without quotes and escapes
  integer,
  real,
  symbol,  ///< an operator, a bracket, a comma
  end,     ///< of the template
};

struct Token {
  TokenKind kind;
  std::string text;
  int line;
};

/// Throws Problem with the line for what is no template. REQUIRES: valid UTF-8.
std::vector<Token> tokens_of(std::string_view source);

}  // namespace strata::chat
