#include "engine/data/tokenize.h"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <limits>
#include <vector>

#include "base/error.h"
#include "base/file.h"
#include "base/json_text.h"
#include "base/task_arena.h"
#include "base/watchdog.h"
#include "engine/data/document_encoder.h"

namespace strata {
namespace {

/// Documents that are encoded before any of them is written: enough for all threads, few enough for memory.
constexpr Bytes kBatchBytes = 64 * MiB;

template <typename T>
std::span<const std::byte> bytes_of(const std::vector<T>& values) {
  return std::as_bytes(std::span(values));
}

/// A file that gets its name when it is whole, and is gone if it never is.
class NewFile {
 public:
  explicit NewFile(const std::string& path) : path_(path), writer_(FileSystem::real(), path + ".tmp") {}
  ~NewFile() {
    if (!is_named_) remove_quietly(FileSystem::real(), writer_.path());
  }
  NewFile(const NewFile&) = delete;
  NewFile& operator=(const NewFile&) = delete;

  void write(std::span<const std::byte> bytes) { writer_.write(bytes); }
  template <typename T>
  void write_value(const T& value) {
    write(std::as_bytes(std::span(&value, 1)));
  }
  void finish() { writer_.finish(); }
  void name() {
    FileSystem::real().rename(writer_.path(), path_);
    is_named_ = true;
  }

 private:
  std::string path_;
  FileWriter writer_;
  bool is_named_ = false;
};

/// Megatron's pair of files (core/datasets/indexed_dataset.py), with a sequence for each document.
class IndexedTokens {
 public:
  IndexedTokens(const std::string& prefix, std::int32_t end_of_ids)
      : is_narrow_(end_of_ids <= kNarrowIds),
        trained_path_(prefix + ".trained"),
        data_(prefix + ".bin"),
        index_(prefix + ".idx") {}

  void add(std::span<const std::int32_t> ids, std::span<const std::uint8_t> trained) {
    if (ids.size() > static_cast<std::size_t>(std::numeric_limits<std::int32_t>::max()))
      throw ConfigError("a text has more than 2^31 tokens, which the format cannot say: cut it");
    lengths_.push_back(static_cast<std::int32_t>(ids.size()));
    if (is_narrow_) {
      narrow_.assign(ids.begin(), ids.end());
      data_.write(bytes_of(narrow_));
    } else {
      data_.write(std::as_bytes(ids));
    }
    if (!trained_ && std::ranges::find(trained, 0) != trained.end()) begin_marks();
    if (trained_) trained_->write(std::as_bytes(trained));
    ids_ += std::ssize(ids);
  }

  void finish() {
    constexpr std::uint8_t kUint16 = 8, kInt32 = 4;
    const auto documents = static_cast<std::uint64_t>(lengths_.size());
    const std::int64_t id_bytes = is_narrow_ ? 2 : 4;
    index_.write(std::as_bytes(std::span("MMIDIDX\0", 9)));
    index_.write_value(std::uint64_t{1});
    index_.write_value(is_narrow_ ? kUint16 : kInt32);
    index_.write_value(documents);
    index_.write_value(documents + 1);
    index_.write(bytes_of(lengths_));
    std::vector<std::int64_t> places;
    std::int64_t place = 0;
    for (const std::int32_t length : lengths_) {
      places.push_back(place);
      place += length * id_bytes;
    }
    index_.write(bytes_of(places));
    places.clear();
    for (std::uint64_t document = 0; document <= documents; ++document)
      places.push_back(static_cast<std::int64_t>(document));
    index_.write(bytes_of(places));
    data_.finish();
    if (trained_) trained_->finish();
    index_.finish();
    data_.name();
    if (trained_) trained_->name();
    index_.name();
  }

 private:
  /// All ids until now are trained on.
  void begin_marks() {
    constexpr std::int64_t kPart = 1 << 16;
    trained_.emplace(trained_path_);
    const std::vector<std::uint8_t> ones(kPart, 1);
    for (std::int64_t left = ids_; left > 0; left -= kPart)
      trained_->write(bytes_of(ones).first(static_cast<std::size_t>(std::min(left, kPart))));
  }

  static constexpr std::int32_t kNarrowIds = 1 << 16;
  bool is_narrow_;
  std::string trained_path_;
  NewFile data_, index_;
  std::optional<NewFile> trained_;  ///< once an id is not trained on
  std::int64_t ids_ = 0;
  std::vector<std::int32_t> lengths_;  ///< in ids
  std::vector<std::uint16_t> narrow_;
};

void refuse_what_is_there(const std::string& prefix) {
  for (const char* extension : {".bin", ".trained", ".idx", ".bin.tmp", ".trained.tmp", ".idx.tmp"}) {
    if (is_there(prefix + extension))
      throw ConfigError(
          fmt::format("{}{} exists already: remove it, or choose another name", prefix, extension));
  }
}

/// eos_token of a tokenizer_config.json: a text, or an object with the text as `content`. Empty: there is
/// none.
std::string end_token_of(const std::filesystem::path& folder) {
  const std::filesystem::path file = folder / "tokenizer_config.json";
  if (!is_there(file)) return "";
  const nlohmann::json config = read_json_object(file);
  const auto token = config.find("eos_token");
  if (token == config.end() || token->is_null()) return "";
  const nlohmann::json* text = &*token;
  if (token->is_object() && token->contains("content")) text = &token->at("content");
  if (!text->is_string())
    throw ConfigError(
        fmt::format("{}: eos_token: expected a text, or an object with the text content", file.string()));
  return text->get<std::string>();
}

}  // namespace

std::filesystem::path tokenizer_file_of(const std::filesystem::path& given) {
  std::error_code error;
  const bool is_folder = std::filesystem::is_directory(given, error);
  std::filesystem::path file = is_folder ? given / "tokenizer.json" : given;
  if (!is_there(file))
    throw ConfigError(fmt::format(
        "{} is not there: name a model's folder that has a tokenizer.json, or such a file", file.string()));
  return file;
}

std::int32_t end_of_texts(const text::Tokenizer& tokenizer, const std::filesystem::path& folder,
                          const std::string& token) {
  const std::string name = token.empty() ? end_token_of(folder) : token;
  if (name.empty())
    throw ConfigError(
        fmt::format("{} names no eos_token, which stands behind each text: name one there, or let "
                    "strata tokenize make token files, with --end TOKEN or --no-end",
                    (folder / "tokenizer_config.json").string()));
  const std::optional<std::int32_t> id = tokenizer.id_of(name);
  if (!id)
    throw ConfigError(fmt::format(
        "the tokenizer has no token '{}' to stand behind each text; see --end of strata tokenize", name));
  return *id;
}

std::optional<chat::ChatTemplate> chat_template_for(std::span<const std::string> files,
                                                    const std::filesystem::path& folder) {
  if (std::ranges::none_of(files, has_line_documents)) return std::nullopt;
  return chat::ChatTemplate::find(folder);
}

TokenizeProgress tokenize_files(const text::Tokenizer& tokenizer, std::span<const std::string> files,
                                const std::string& prefix, const TokenizeOptions& options,
                                const std::function<void(const TokenizeProgress&)>& on_progress) {
  refuse_what_is_there(prefix);
  TokenizeProgress progress;
  for (const std::string& file : files)
    progress.all_bytes += static_cast<Bytes>(MappedFile(file).bytes().size());
  IndexedTokens out(prefix, tokenizer.end_of_ids());
  TaskArena workers(options.threads);
  const DocumentEncoder encoder(tokenizer, options.end, options.conversations);
  DocumentReader reader(files);
  std::vector<TextDocument> documents;
  std::vector<EncodedDocument> encoded;
  for (bool has_more = true; has_more;) {
    documents.clear();
    Bytes bytes = 0;
    for (TextDocument next; bytes < kBatchBytes && (has_more = reader.next(next));) {
      bytes += std::ssize(next.source);
      documents.push_back(std::move(next));
    }
    encoded.resize(documents.size());
    std::vector<std::exception_ptr> refusals(documents.size());
    workers.for_each(std::ssize(documents), [&](std::int64_t i, int) {
      const auto number = static_cast<std::size_t>(i);
      const WatchedWait wait([&] { return "reading and encoding " + documents[number].place(); });
      try {
        encoder.encode(documents[number], encoded[number]);
      } catch (const ConfigError&) {
        refusals[number] = std::current_exception();
      }
    });
    // Whichever thread was faster, the first is the one that is named.
    for (const std::exception_ptr& refusal : refusals)
      if (refusal) std::rethrow_exception(refusal);
    for (const EncodedDocument& own : encoded) {
      if (own.ids.empty()) continue;
      out.add(own.ids, own.trained);
      ++progress.documents;
      progress.tokens += std::ssize(own.ids);
    }
    progress.bytes += bytes;
    if (on_progress) on_progress(progress);
  }
  out.finish();
  return progress;
}

}  // namespace strata
