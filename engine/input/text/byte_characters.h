// Bytes that are written in tokens. GPT-2's way is to make any bytes visible characters: each byte is a code
// point below 512, and those that are printable in Latin-1 are their own (github.com/openai/gpt-2,
// src/encoder.py, bytes_to_unicode). Plain functions.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace strata::text {

/// Each byte of the text as its character.
void append_byte_characters(std::string_view text, std::string& out);

/// The byte that is written as `c`, if one is.
std::optional<char> byte_of_character(char32_t c);

/// The byte that a token such as <0x0A> is, SentencePiece's way to write any.
std::optional<char> byte_of_token(std::string_view token);

}  // namespace strata::text
