#include "engine/data/token_cache.h"

#include <fmt/format.h>

#include <cstdlib>
#include <filesystem>

#include "base/error.h"
#include "base/file.h"
#include "base/folder_lock.h"
#include "engine/data/token_names.h"

namespace strata {
namespace {

namespace fs = std::filesystem;

fs::path cache_folder(const std::string& given) {
  if (!given.empty()) return given;
  const auto variable = [](const char* name) -> fs::path {
    const char* value = std::getenv(name);  // NOLINT(concurrency-mt-unsafe): nobody sets it
    return value == nullptr ? "" : value;
  };
  if (const fs::path cache = variable("XDG_CACHE_HOME"); cache.is_absolute()) return cache / "strata/tokens";
  if (const fs::path home = variable("HOME"); home.is_absolute()) return home / ".cache/strata/tokens";
  throw ConfigError(
      "data.cache: neither XDG_CACHE_HOME nor HOME says where a cache may be: set it to a folder");
}

}  // namespace

std::string cached_tokens(const RunConfig::DataSection& data, std::span<const std::string> files, int threads,
                          const std::function<void(const TokenizeProgress&)>& on_progress) {
  const fs::path tokenizer_file = tokenizer_file_of(data.tokenizer_path);
  const text::Tokenizer tokenizer = text::Tokenizer::read(tokenizer_file);
  const fs::path folder = tokenizer_file.parent_path();
  const auto conversations = chat_template_for(files, folder);
  TokenizeOptions options = {.name = {},
                             .end = end_of_texts(tokenizer, folder),
                             .conversations = conversations ? &*conversations : nullptr,
                             .threads = threads};
  options.name = name_of_tokens(tokenizer, tokenizer_file, options, files);
  const fs::path entry = cache_folder(data.cache) / options.name;
  const fs::path made = entry / "tokens.bin", index = entry / "tokens.idx";
  const auto is_made = [&] { return is_there(made) && is_there(index); };
  if (is_made()) return made.string();
  FileSystem::real().create_folders(entry);
  try {
    const FolderLock lock(Folder::named(entry), "lock");
    if (is_made()) return made.string();
    if (!is_there(entry / "tokens.progress")) {
      for (const std::string& name : FileSystem::real().list(entry))
        if (name.starts_with("tokens.")) FileSystem::real().remove_all(entry / name);
    }
    tokenize_files(tokenizer, files, (entry / "tokens").string(), options, on_progress);
  } catch (const FolderInUseError& error) {
    throw ConfigError(fmt::format(
        "{}, which tokenizes the same texts: start this run again when it has ended", error.what()));
  }
  return made.string();
}

}  // namespace strata
