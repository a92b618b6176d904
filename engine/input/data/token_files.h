// Which files a run reads and where the token ids are in them: text as bytes, flat .bin files (nanoGPT's
// without a header, llm.c's with one) and Megatron's .bin with .idx. Only headers are read here. Plain
// functions.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/config/choices.h"
#include "engine/input/data/token_source.h"

namespace strata {

/// The files that the patterns name, sorted by path, each once. With Tokenizer::none these are .bin files, or
/// of any name with DataFormat::tokens; a pattern may also be Megatron's prefix without .bin. `key` is the
/// run file's key, for errors. Throws ConfigError if a pattern matches nothing or matches a file of another
/// kind.
std::vector<std::string> find_token_files(const std::vector<std::string>& patterns, Tokenizer tokenizer,
                                          const std::string& key, DataFormat format = DataFormat::automatic);

/// Every byte is a token, but those of a byte order mark, and a 0 follows the file's last byte, so that a
/// model sees where a text ends. Throws ConfigError as require_text() does (document_form.h).
TokenSegment open_text(const std::string& path, DataFormat format = DataFormat::automatic);

/// The token ids of a .bin file, which has one of three forms:
/// - Megatron's, if an .idx lies beside it (megatron_index.h). The .idx says whether ids are uint8, uint16,
/// int32
///   or int64. A .trained beside it has a byte for each id: 0 if the id is not trained on;
/// - llm.c's, by the magic number in its 256-word header (dev/data/data_common.py). 20240520 version 1 has
///   uint16, 20240801 version 7 has uint32;
/// - else nanoGPT's, without a header: ids of `token_bytes`, 2, 4 or 8.
/// Throws ConfigError if the file's size contradicts its header or the type of ids.
TokenSegment open_token_file(const std::string& path, std::int64_t token_bytes);

}  // namespace strata
