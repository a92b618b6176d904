// What decides the ids of texts: two with one name are the same ids. Plain functions.
#pragma once

#include <filesystem>
#include <span>
#include <string>

#include "engine/input/data/tokenize.h"
#include "engine/input/text/tokenizer.h"

namespace strata {

/// A hash of the tokenizer's file, of what stands around texts and writes conversations, and of each text;
/// threads do not count. Reads all of them.
std::string name_of_tokens(const text::Tokenizer& tokenizer, const std::filesystem::path& tokenizer_file,
                           const TokenizeOptions& options, std::span<const std::string> files);

}  // namespace strata
