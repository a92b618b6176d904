#include "engine/input/data/token_cache.h"

#include <fmt/format.h>

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <vector>

#include "base/error.h"
#include "base/file.h"
#include "base/folder_lock.h"
#include "base/hash.h"
#include "base/json_text.h"
#include "base/watchdog.h"
#include "engine/config/data_section.h"
#include "engine/input/data/token_names.h"

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

/// A home that cannot be written is no reason to lose the run: the key says where else.
void make_entry(const fs::path& entry) try {
  FileSystem::real().create_folders(entry);
} catch (const IoError& error) {
  throw IoError(fmt::format("data.cache: {}; set it to a folder that can be written", error.what()));
}

/// What the texts were read as.
constexpr const char* kCounts = "tokens.json";

/// What the files of an entry hold, a line each: a hash, the bytes and the name.
std::string sums_of(const fs::path& entry) {
  std::string sums;
  for (const char* name : {"tokens.bin", "tokens.idx", "tokens.trained", kCounts}) {
    if (!is_there(entry / name)) continue;
    const WatchedWait wait([&] { return fmt::format("reading {} (data.cache)", (entry / name).string()); });
    const FileReader file(entry / name);
    sums += fmt::format("{} {} {}\n", hex(hash_file(file)), file.size(), name);
  }
  return sums;
}

/// Written behind all the others, so it proves them.
constexpr const char* kSums = "tokens.sums";

enum class EntryState : std::uint8_t { missing, whole, damaged };

EntryState state_of(const fs::path& entry) {
  if (!is_there(entry / kSums)) return EntryState::missing;
  return read_file(entry / kSums) == sums_of(entry) ? EntryState::whole : EntryState::damaged;
}

/// What a text's file was when it was last looked at.
class SeenFiles {
 public:
  explicit SeenFiles(std::span<const std::string> files) : files_(files) {
    for (const std::string& file : files) times_.push_back(time_of(file));
  }
  /// Throws ConfigError if one has been written to since.
  void check() const {
    for (std::size_t i = 0; i < files_.size(); ++i) {
      if (time_of(files_[i]) != times_[i])
        throw ConfigError(fmt::format(
            "{} was written to while it was tokenized: start this run again when it stays as it is",
            files_[i]));
    }
  }

 private:
  static fs::file_time_type time_of(const std::string& file) {
    std::error_code is_gone;  // no file has the time that it then is
    return fs::last_write_time(file, is_gone);
  }

  std::span<const std::string> files_;
  std::vector<fs::file_time_type> times_;
};

}  // namespace

bool is_of_token_cache(const fs::path& below) {
  return below.filename().string().starts_with("tokens.") && below.has_parent_path();
}

DocumentOptions document_options(const DataSection& data) {
  return {.format = data.format, .fields = RecordFields(data.fields)};
}

CachedTokens cached_tokens(const DataSection& data, std::span<const std::string> files, int threads,
                           const CacheListeners& listeners) {
  const SeenFiles seen(files);
  const fs::path tokenizer_file = tokenizer_file_of(data.tokenizer_path);
  const text::Tokenizer tokenizer = text::Tokenizer::read(tokenizer_file);
  if (listeners.on_ids) listeners.on_ids(tokenizer_file, tokenizer.end_of_ids());
  const fs::path folder = tokenizer_file.parent_path();
  const DocumentOptions documents = document_options(data);
  const auto conversations = chat_template_for(files, folder, documents);
  TokenizeOptions options = {.name = {},
                             .borders = borders_of_texts(tokenizer, folder, data.begin_token),
                             .conversations = conversations ? &*conversations : nullptr,
                             .documents = documents,
                             .threads = threads};
  if (listeners.on_borders) listeners.on_borders(describe(options.borders, tokenizer));
  options.name = name_of_tokens(tokenizer, tokenizer_file, options, files);
  const fs::path entry = cache_folder(data.cache) / options.name;
  const auto found = [&] {
    return CachedTokens{(entry / "tokens.bin").string(),
                        read_json_object(entry / kCounts).get<DocumentsRead>()};
  };
  if (state_of(entry) == EntryState::whole) return found();
  make_entry(entry);
  try {
    const FolderLock lock(Folder::named(entry), "lock");
    const EntryState state = state_of(entry);
    if (state == EntryState::whole) return found();
    if (state == EntryState::damaged && listeners.on_warning)
      listeners.on_warning(
          fmt::format("data.cache: {} is not what was written there, so it is made anew; look at the "
                      "drive",
                      entry.string()));
    if (state == EntryState::damaged || !is_there(entry / "tokens.progress")) {
      for (const std::string& name : FileSystem::real().list(entry))
        if (name.starts_with("tokens.")) FileSystem::real().remove_all(entry / name);
    }
    // The entry's name says what the texts were: nothing else may get it.
    const TokenizeProgress done = tokenize_files(tokenizer, files, (entry / "tokens").string(), options,
                                                 [&](const TokenizeProgress& progress) {
                                                   if (listeners.on_progress) listeners.on_progress(progress);
                                                   seen.check();
                                                 });
    replace_file(FileSystem::real(), entry / kCounts, json_text(done.read, 2) + "\n");
    replace_file(FileSystem::real(), entry / kSums, sums_of(entry));
  } catch (const FolderInUseError& error) {
    throw ConfigError(fmt::format(
        "{}, which tokenizes the same texts: start this run again when it has ended", error.what()));
  }
  return found();
}

}  // namespace strata
