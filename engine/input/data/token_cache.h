// Token ids of texts, kept from run to run: data.tokenizer auto. A cache's entry is named by what the
// tokenizer and the texts contain, so whatever changes gets an entry of its own, and none is ever wrong.
#pragma once

#include <filesystem>
#include <functional>
#include <span>
#include <string>

#include "engine/config/data_section.h"
#include "engine/input/data/tokenize.h"

namespace strata {

struct CachedTokens {
  std::string file;    ///< .bin (Megatron's, with its .idx)
  DocumentsRead read;  ///< what the texts were read as
};

/// Each may be empty.
struct CacheListeners {
  /// Gets the tokenizer's file and the end of its ids.
  std::function<void(const std::filesystem::path&, std::int64_t)> on_ids = {};
  std::function<void(const std::string&)> on_borders = {};        ///< gets describe() of borders_of_texts()
  std::function<void(const TokenizeProgress&)> on_progress = {};  ///< as of tokenize_files(), if it is called
  std::function<void(const std::string&)> on_warning = {};        ///< gets a sentence about a damaged entry
};

/// The ids of these texts by the tokenizer that `data` names: what is in the cache, or what this call puts
/// there. borders_of_texts() stand around each text. Check sums say whether an entry is as it was written; if
/// not, it is made anew. Throws ConfigError if the tokenizer or a text is not what it should be, or another
/// process makes the same entry, and IoError.
CachedTokens cached_tokens(const DataSection& data, std::span<const std::string> files, int threads,
                           const CacheListeners& listeners = {});

/// data.format and data.fields.
DocumentOptions document_options(const DataSection& data);

/// Whether a path, relative to a cache's folder, is a file of the cache.
bool is_of_token_cache(const std::filesystem::path& below);

}  // namespace strata
