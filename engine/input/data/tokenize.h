// Text files as a file of token ids, each text a document: what training then reads without a tokenizer.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <string>

#include "base/bytes.h"
#include "base/file.h"
#include "engine/config/choices.h"
#include "engine/input/chat/chat_template.h"
#include "engine/input/data/document_encoder.h"
#include "engine/input/data/document_form.h"
#include "engine/input/data/documents_read.h"
#include "engine/input/text/tokenizer.h"

namespace strata {

/// `given` itself, or tokenizer.json in it if it is a folder. Throws ConfigError if it is not there.
std::filesystem::path tokenizer_file_of(const std::filesystem::path& given);

/// What each text begins with. Throws ConfigError if a bos_token is asked for that the folder or the
/// tokenizer has not.
std::vector<std::int32_t> begin_of_texts(const text::Tokenizer& tokenizer,
                                         const std::filesystem::path& folder, BeginToken begin);

/// What stands around each text: begin_of_texts(), and the folder's eos_token (chat/template_files.h). If
/// there is none, `missing_end` says so. Throws as begin_of_texts().
TextBorders borders_of_texts(const text::Tokenizer& tokenizer, const std::filesystem::path& folder,
                             BeginToken begin);

/// "begin with '<s>' and end with '</s>' (data.begin_token)", for a user.
std::string describe(const TextBorders& borders, const text::Tokenizer& tokenizer);

/// The id of the token that is asked for by name. Throws ConfigError if there is none.
std::int32_t end_named(const text::Tokenizer& tokenizer, const std::string& token);

/// The folder's chat template, if it has one and one of the files may have conversations. Throws ConfigError
/// as chat::ChatTemplate::read() and has_records() do.
std::optional<chat::ChatTemplate> chat_template_for(std::span<const std::string> files,
                                                    const std::filesystem::path& folder,
                                                    const DocumentOptions& documents = {});

struct TokenizeOptions {
  /// Names what is made of what (token_names.h): only what has the same is gone on with.
  std::string name = {};
  TextBorders borders = {};
  const chat::ChatTemplate* conversations = nullptr;  ///< what writes "messages"
  DocumentOptions documents = {};
  int threads = 1;
  Bytes batch_bytes = 64 * MiB;  ///< of text between two moments to go on from; memory holds its ids
  Bytes part_bytes = 4 * MiB;    ///< of a long text, if the tokenizer has line cuts: text/line_cuts.h
  FileSystem* files = &FileSystem::real();  ///< that is written to
};

/// What is done so far.
struct TokenizeProgress {
  std::int64_t documents = 0, tokens = 0;
  Bytes bytes = 0, all_bytes = 0;  ///< of text
  Bytes found = 0;                 ///< of `bytes`: what an earlier call had done
  DocumentsRead read = {};
};

/// Writes `prefix`.bin and `prefix`.idx, Megatron's format, of 2-byte ids if the tokenizer has none beyond,
/// else of 4 bytes, with a sequence for each document of the files (documents.h) that has an id. Several are
/// encoded at once, each by one thread, and the result does not depend on how many. Beside them
/// `prefix`.trained, a byte for each id, if any is not trained on. What is there is refused, and the files
/// get their names when they are whole, .bin last. A call that died, or threw IoError, leaves
/// `prefix`.progress and unfinished files, with which the next call for the same name goes on to the same
/// bytes; ConfigError leaves nothing. Calls `on_progress` on the calling thread, after each few texts. Throws
/// ConfigError for texts that cannot be encoded and for progress of another name, and IoError.
TokenizeProgress tokenize_files(const text::Tokenizer& tokenizer, std::span<const std::string> files,
                                const std::string& prefix, const TokenizeOptions& options,
                                const std::function<void(const TokenizeProgress&)>& on_progress = {});

}  // namespace strata
