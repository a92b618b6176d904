// Files of texts as documents, one after another: a file is one, or, if its name ends with .jsonl, each of
// its lines is an object that has one. Files are mapped, so none of them has to fit in memory, and a long
// text may come in parts.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/bytes.h"
#include "engine/data/mapped_file.h"

namespace strata {

/// What is behind a document stays mapped while there is a copy of it.
struct TextDocument {
  std::shared_ptr<const MappedFile> file;
  std::int64_t line = 0;    ///< from 1; 0: the document is the whole file, or a part of it
  std::string_view source;  ///< the text, or a line's object
  bool goes_on = false;     ///< the next one is another part of the same text

  /// "FILE" or "FILE:LINE", for errors.
  std::string place() const;
};

/// Whether each line of the file is a document: .jsonl, in capitals or small letters.
bool has_line_documents(const std::string& file);

class DocumentReader {
 public:
  /// Texts of more than `part` bytes come in parts of about that many, cut where text::find_line_cut() says;
  /// nothing: whole.
  explicit DocumentReader(std::span<const std::string> files, std::optional<Bytes> part = {})
      : files_(files), part_(part) {}

  /// The next one that is not empty, nor only spaces if it is a line; false: there is none. Throws
  /// ConfigError if a file cannot be opened.
  bool next(TextDocument& document);

  /// What has been read: all files before `file`, and of that `offset` bytes and `line` lines.
  struct Position {
    std::int64_t file = 0, offset = 0, line = 0;
    friend bool operator==(const Position&, const Position&) = default;
  };
  Position position() const;
  /// Goes to what position() gave for the same files. Throws ConfigError if they have no such place.
  void go_to(const Position& position);

 private:
  bool open_next();
  std::size_t size_of_next() const;

  std::span<const std::string> files_;
  std::optional<Bytes> part_;
  std::size_t opened_ = 0;
  std::shared_ptr<const MappedFile> file_;
  std::string_view rest_;
  std::int64_t line_ = 0;  ///< the last one's; 0 if the file has none
  bool has_lines_ = false;
};

}  // namespace strata
