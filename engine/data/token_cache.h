// Token ids of texts, kept from run to run: data.tokenizer auto. A cache's entry is named by what the
// tokenizer and the texts contain, so whatever changes gets an entry of its own, and none is ever wrong.
#pragma once

#include <filesystem>
#include <functional>
#include <span>
#include <string>

#include "engine/config/run_config.h"
#include "engine/data/tokenize.h"

namespace strata {

struct CachedTokens {
  std::string file;    ///< .bin (Megatron's, with its .idx)
  DocumentsRead read;  ///< what the texts were read as
};

/// The ids of these texts by the tokenizer that `data` names:
/// what is in the cache, or what this call puts there. eos_token of tokenizer_config.json stands behind each
/// text. Calls `on_progress` as tokenize_files() does, only if it has something to do. Check sums say whether
/// an entry is as it was written; if not, `on_warning` gets a sentence, and it is made anew. Throws
/// ConfigError if the tokenizer or a text is not what it should be, or another process makes the same entry,
/// and IoError.
CachedTokens cached_tokens(const RunConfig::DataSection& data, std::span<const std::string> files,
                           int threads, const std::function<void(const TokenizeProgress&)>& on_progress = {},
                           const std::function<void(const std::string&)>& on_warning = {});

/// data.format and data.fields.
DocumentOptions document_options(const RunConfig::DataSection& data);

/// Whether a path, relative to a cache's folder, is a file of the cache.
bool is_of_token_cache(const std::filesystem::path& below);

}  // namespace strata
