#include "engine/input/data/tokenize.h"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <initializer_list>
#include <vector>

#include "base/error.h"
#include "base/hash.h"
#include "base/json_text.h"
#include "base/missing_path.h"
#include "base/nth.h"
#include "base/task_arena.h"
#include "base/watchdog.h"
#include "engine/config/choices.h"
#include "engine/input/chat/template_files.h"
#include "engine/input/data/document_encoder.h"
#include "engine/input/data/indexed_tokens.h"

namespace strata {
namespace {

/// How far the files of a prefix have come, as PREFIX.progress says it.
struct TokenizeState {
  DocumentReader::Position position;
  IndexedTokens::Size size;
  Bytes text_bytes = 0;
  DocumentsRead read;
  bool is_whole = false;  ///< the files only lack their names
};

std::string file_of_progress(const std::string& prefix) {
  return prefix + ".progress";
}

void store(FileSystem& file_system, const std::string& prefix, const std::string& name,
           const TokenizeState& state) {
  nlohmann::json json = {{"format", "strata tokenize"},    {"name", name},
                         {"file", state.position.file},    {"offset", state.position.offset},
                         {"line", state.position.line},    {"size", state.size},
                         {"text_bytes", state.text_bytes}, {"read", state.read},
                         {"is_whole", state.is_whole}};
  json["xxh3"] = hex(hash_text(json.dump()));
  replace_file(file_system, file_of_progress(prefix), json.dump(2) + "\n");
}

/// Nothing if there is none.
std::optional<TokenizeState> stored_state(const std::string& prefix, const std::string& name) {
  const std::string file = file_of_progress(prefix);
  if (!is_there(file)) return std::nullopt;
  nlohmann::json json = read_json_object(file);
  const std::string expected = json.value("xxh3", nlohmann::json()).dump();
  json.erase("xxh3");
  if (nlohmann::json(hex(hash_text(json.dump()))).dump() != expected)
    throw ConfigError(
        fmt::format("{} is damaged: remove it with the unfinished files, {}.*.tmp", file, prefix));
  if (json.at("name") != name)
    throw ConfigError(
        fmt::format("{} is of other texts, or of another tokenizer or end: remove it with the unfinished "
                    "files, {}.*.tmp, or "
                    "choose another name",
                    file, prefix));
  return TokenizeState{.position = {json.at("file"), json.at("offset"), json.at("line")},
                       .size = json.at("size"),
                       .text_bytes = json.at("text_bytes"),
                       .read = json.at("read"),
                       .is_whole = json.at("is_whole")};
}

void refuse_what_is_there(const std::string& prefix, std::initializer_list<const char*> extensions) {
  for (const char* extension : extensions) {
    if (is_there(prefix + extension))
      throw ConfigError(
          fmt::format("{}{} exists already: remove it, or choose another name", prefix, extension));
  }
}

/// Where an earlier call has stopped, or the beginning, which is stored first of all: so whatever is left
/// behind can be gone on with.
TokenizeState begin(FileSystem& file_system, const std::string& prefix, const std::string& name) {
  const std::optional<TokenizeState> found = stored_state(prefix, name);
  if (found && found->is_whole) return *found;
  refuse_what_is_there(prefix, {".bin", ".trained", ".idx"});
  if (found) return *found;
  refuse_what_is_there(prefix, {".bin.tmp", ".trained.tmp", ".idx.tmp", ".lengths.tmp"});
  store(file_system, prefix, name, {});
  return {};
}

}  // namespace

std::filesystem::path tokenizer_file_of(const std::filesystem::path& given) {
  std::error_code error;
  const bool is_folder = std::filesystem::is_directory(given, error);
  std::filesystem::path file = is_folder ? given / "tokenizer.json" : given;
  if (is_there(file)) return file;
  for (const char* older : {"tokenizer.model", "vocab.json", "vocab.txt"}) {
    if (!is_folder || !is_there(given / older)) continue;
    throw ConfigError(fmt::format(
        "{} is there without a tokenizer.json, which is what is read: write one with transformers, "
        "AutoTokenizer.from_pretrained(FOLDER).save_pretrained(FOLDER)",
        (given / older).string()));
  }
  throw ConfigError(
      fmt::format("{} is not there: name a model's folder that has a tokenizer.json, or such a file{}",
                  file.string(), is_folder ? "" : advice_on_missing_model(given, "")));
}

std::vector<std::int32_t> begin_of_texts(const text::Tokenizer& tokenizer,
                                         const std::filesystem::path& folder, BeginToken begin) {
  if (begin == BeginToken::never) return {};
  std::vector<std::int32_t> ids = tokenizer.ids_before_text();
  if (begin == BeginToken::automatic || !ids.empty()) return ids;
  const std::string name = chat::find_special_tokens(folder)["bos_token"];
  const std::optional<std::int32_t> id = tokenizer.id_of(name);
  if (name.empty() || !id)
    throw ConfigError(fmt::format(
        "data.begin_token always: {}; name a bos_token of the tokenizer there, or choose auto or never",
        name.empty()
            ? fmt::format("{} names no bos_token", (folder / "tokenizer_config.json").string())
            : fmt::format("the tokenizer has no token '{}', the bos_token of {}", name, folder.string())));
  return {*id};
}

std::int32_t end_named(const text::Tokenizer& tokenizer, const std::string& token) {
  if (const std::optional<std::int32_t> id = tokenizer.id_of(token)) return *id;
  throw ConfigError(fmt::format(
      "the tokenizer has no token '{}' to stand behind each text; see --end of strata tokenize", token));
}

std::string describe(const TextBorders& borders, const text::Tokenizer& tokenizer) {
  std::string begin;
  for (const std::int32_t id : borders.begin) begin += tokenizer.spelling(id);
  const std::string end = borders.end ? fmt::format("'{}'", tokenizer.spelling(*borders.end)) : "no token";
  return fmt::format("begin with {} (data.begin_token) and end with {}",
                     begin.empty() ? "no token" : fmt::format("'{}'", begin), end);
}

TextBorders borders_of_texts(const text::Tokenizer& tokenizer, const std::filesystem::path& folder,
                             BeginToken begin) {
  TextBorders borders = {.begin = begin_of_texts(tokenizer, folder, begin)};
  const std::string name = chat::find_special_tokens(folder)["eos_token"];
  if (name.empty()) {
    borders.missing_end = fmt::format(
        "{} names no eos_token, which stands behind each text: name one there, or let "
        "strata tokenize make token files, with --end TOKEN or --no-end",
        (folder / "tokenizer_config.json").string());
    return borders;
  }
  try {
    borders.end = end_named(tokenizer, name);
  } catch (const ConfigError& error) {
    borders.missing_end = error.what();
  }
  return borders;
}

std::optional<chat::ChatTemplate> chat_template_for(std::span<const std::string> files,
                                                    const std::filesystem::path& folder,
                                                    const DocumentOptions& documents) {
  if (std::ranges::none_of(files, [&](const std::string& file) { return has_records(file, documents); }))
    return std::nullopt;
  return chat::ChatTemplate::find(folder);
}

namespace {

/// Encodes documents a batch at a time, and stores after each how far they have come.
class Tokenizing {
 public:
  Tokenizing(const text::Tokenizer& tokenizer, std::span<const std::string> files, const std::string& prefix,
             const TokenizeOptions& options, const TokenizeState& from)
      : prefix_(prefix),
        options_(options),
        workers_(options.threads),
        encoder_(tokenizer, options.borders, options.conversations, options.documents.fields),
        reader_(files, options.documents,
                tokenizer.has_line_cuts() ? std::optional(options.part_bytes) : std::nullopt),
        out_(*options.files, prefix, tokenizer.end_of_ids(), from.size),
        state_(from) {
    if (from.position != DocumentReader::Position()) reader_.go_to(from.position);
  }

  /// False: there was none left.
  bool do_batch() {
    documents_.clear();
    Bytes bytes = 0;
    bool has_more = true;
    for (TextDocument next; bytes < options_.batch_bytes && (has_more = reader_.next(next));) {
      bytes += std::ssize(next.source);
      documents_.push_back(std::move(next));
    }
    encode();
    for (std::size_t i = 0; i < documents_.size(); ++i) {
      out_.add(encoded_[i].ids, encoded_[i].trained, documents_[i].goes_on);
      count(documents_[i], encoded_[i].kind);
    }
    state_.read.byte_order_marks += reader_.byte_order_marks() - counted_marks_;
    counted_marks_ = reader_.byte_order_marks();
    state_.text_bytes += bytes;
    state_.size = out_.size();
    state_.position = reader_.position();
    if (has_more) {
      out_.sync();
      store(*options_.files, prefix_, options_.name, state_);
    }
    return has_more;
  }

  void finish() {
    out_.finish();
    state_.is_whole = true;
    store(*options_.files, prefix_, options_.name, state_);
  }

  const TokenizeState& state() const { return state_; }

 private:
  void encode() {
    encoded_.resize(documents_.size());
    std::vector<std::exception_ptr> refusals(documents_.size());
    workers_.for_each(std::ssize(documents_), [&](std::int64_t i, int) {
      const WatchedWait wait([&] { return "reading and encoding " + nth(documents_, i).place(); });
      try {
        encoder_.encode(nth(documents_, i), nth(encoded_, i));
      } catch (const ConfigError&) {
        nth(refusals, i) = std::current_exception();
      }
    });
    // Whichever thread was faster, the first is the one that is named.
    for (const std::exception_ptr& refusal : refusals)
      if (refusal) std::rethrow_exception(refusal);
  }

  void count(const TextDocument& document, DocumentKind kind) {
    if (!document.goes_on) ++nth(state_.read.documents, kind);
    // JSON is refused if it is no UTF-8.
    if (document.line == 0) state_.read.count_replaced(document.file->path(), document.source);
  }

  const std::string& prefix_;
  const TokenizeOptions& options_;
  TaskArena workers_;
  DocumentEncoder encoder_;
  DocumentReader reader_;
  IndexedTokens out_;
  TokenizeState state_;
  std::int64_t counted_marks_ = 0;
  std::vector<TextDocument> documents_;
  std::vector<EncodedDocument> encoded_;
};

}  // namespace

TokenizeProgress tokenize_files(const text::Tokenizer& tokenizer, std::span<const std::string> files,
                                const std::string& prefix, const TokenizeOptions& options,
                                const std::function<void(const TokenizeProgress&)>& on_progress) {
  FileSystem& file_system = *options.files;
  TokenizeState state = begin(file_system, prefix, options.name);
  TokenizeProgress progress{.found = state.text_bytes};
  const auto note = [&] {
    progress.documents = state.size.documents;
    progress.tokens = state.size.tokens;
    progress.bytes = state.text_bytes;
    progress.read = state.read;
  };
  try {
    for (const std::string& file : files)
      progress.all_bytes += static_cast<Bytes>(MappedFile(file).bytes().size());
    if (!state.is_whole) {
      Tokenizing work(tokenizer, files, prefix, options, state);
      for (bool has_more = true; has_more;) {
        has_more = work.do_batch();
        state = work.state();
        note();
        if (on_progress) on_progress(progress);
      }
      work.finish();
    }
  } catch (const ConfigError&) {
    IndexedTokens::remove(file_system, prefix);
    remove_quietly(file_system, file_of_progress(prefix));
    throw;
  }
  note();
  IndexedTokens::name(file_system, prefix);
  file_system.remove_all(file_of_progress(prefix));
  return progress;
}

}  // namespace strata
