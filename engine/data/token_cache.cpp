#include "engine/data/token_cache.h"

#include <fmt/format.h>

#include <cstdlib>
#include <filesystem>
#include <vector>

#include "base/error.h"
#include "base/file.h"
#include "base/folder_lock.h"
#include "base/hash.h"
#include "base/task_arena.h"
#include "base/watchdog.h"
#include "engine/data/documents.h"
#include "engine/data/mapped_file.h"

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

/// What decides an entry's ids.
class EntryHash {
 public:
  void add(std::uint64_t value) { hash_.update(std::as_bytes(std::span(&value, 1))); }
  std::uint64_t digest() const { return hash_.digest(); }

 private:
  StreamingHash hash_;
};

/// Each text's, and how it is read.
std::vector<std::uint64_t> hashes_of(std::span<const std::string> files, int threads) {
  std::vector<std::uint64_t> hashes(files.size());
  TaskArena(threads).for_each(std::ssize(files), [&](std::int64_t i, int) {
    const auto number = static_cast<std::size_t>(i);
    const MappedFile file(files[number]);
    const WatchedWait wait([&file] { return "reading " + file.path() + " (data.path)"; });
    EntryHash hash;
    hash.add(file.bytes().size());
    hash.add(hash_bytes(file.bytes()));
    hash.add(has_line_documents(files[number]) ? 1 : 0);
    hashes[number] = hash.digest();
  });
  return hashes;
}

std::string name_of_entry(const text::Tokenizer& tokenizer, const fs::path& tokenizer_file,
                          const TokenizeOptions& options, std::span<const std::string> files) {
  constexpr std::uint64_t kVersion = 1;  // of what tokenize_files() makes of the same texts
  EntryHash hash;
  hash.add(kVersion);
  hash.add(hash_text(read_file(tokenizer_file)));
  hash.add(static_cast<std::uint64_t>(tokenizer.end_of_ids()));
  hash.add(static_cast<std::uint64_t>(options.end.value_or(-1)));
  hash.add(options.conversations == nullptr ? 0 : options.conversations->hash());
  for (const std::uint64_t text : hashes_of(files, options.threads)) hash.add(text);
  return hex(hash.digest());
}

}  // namespace

std::string cached_tokens(const RunConfig::DataSection& data, std::span<const std::string> files, int threads,
                          const std::function<void(const TokenizeProgress&)>& on_progress) {
  const fs::path tokenizer_file = tokenizer_file_of(data.tokenizer_path);
  const text::Tokenizer tokenizer = text::Tokenizer::read(tokenizer_file);
  const fs::path folder = tokenizer_file.parent_path();
  const auto conversations = chat_template_for(files, folder);
  const TokenizeOptions options = {.end = end_of_texts(tokenizer, folder),
                                   .conversations = conversations ? &*conversations : nullptr,
                                   .threads = threads};
  const fs::path entry = cache_folder(data.cache) / name_of_entry(tokenizer, tokenizer_file, options, files);
  const fs::path made = entry / "tokens.bin", index = entry / "tokens.idx";
  // The index is the last to get its name.
  if (is_there(index)) return made.string();
  FileSystem::real().create_folders(entry);
  try {
    const FolderLock lock(Folder::named(entry), "lock");
    if (is_there(index)) return made.string();
    for (const char* name :
         {"tokens.bin", "tokens.trained", "tokens.bin.tmp", "tokens.trained.tmp", "tokens.idx.tmp"})
      FileSystem::real().remove_all(entry / name);
    tokenize_files(tokenizer, files, (entry / "tokens").string(), options, on_progress);
  } catch (const FolderInUseError& error) {
    throw ConfigError(fmt::format(
        "{}, which tokenizes the same texts: start this run again when it has ended", error.what()));
  }
  return made.string();
}

}  // namespace strata
