// Files of texts as documents, one after another: a file is one, or has them in lines or in an array
// (document_form.h). Files are mapped, so none of them has to fit in memory, and a long text may come in
// parts.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "base/bytes.h"
#include "engine/input/data/document_form.h"
#include "engine/input/data/mapped_file.h"

namespace strata {

/// What is behind a document stays mapped while there is a copy of it.
struct TextDocument {
  std::shared_ptr<const MappedFile> file;
  std::int64_t line = 0;    ///< where it begins, from 1; 0: the document is the whole file, or a part of it
  std::string_view source;  ///< the text, or the JSON of a line or an element
  bool goes_on = false;     ///< the next one is another part of the same text
  bool is_later = false;    ///< the one before is another part of the same text

  /// "FILE" or "FILE:LINE", for errors.
  std::string place() const;
};

class DocumentReader {
 public:
  /// Texts of more than `part` bytes come in parts of about that many, cut where text::find_line_cut() says;
  /// nothing: whole.
  explicit DocumentReader(std::span<const std::string> files, DocumentOptions options = {},
                          std::optional<Bytes> part = {})
      : files_(files), options_(std::move(options)), part_(part) {}

  /// The next one that is not empty, nor only spaces if it is a line; false: there is none. Throws
  /// ConfigError if a file cannot be opened, as layout_of_documents() does, and if an array or object ends
  /// nowhere or an array has an empty element or more behind it.
  bool next(TextDocument& document);

  /// What has been read: all files before `file`, and of that `offset` bytes and `line` lines.
  struct Position {
    std::int64_t file = 0, offset = 0, line = 0;
    friend bool operator==(const Position&, const Position&) = default;
  };
  Position position() const;
  /// Goes to what position() gave for the same files. Throws ConfigError if they have no such place.
  void go_to(const Position& position);

  /// How many of the files opened since the beginning, or since go_to(), had a byte order mark, which is left
  /// out.
  std::int64_t byte_order_marks() const { return byte_order_marks_; }

 private:
  bool open_next();
  /// False: what was taken is no document.
  bool take(TextDocument& document);
  void take_text(TextDocument& document);
  bool take_line(TextDocument& document);
  void take_value(TextDocument& document);
  void take_element(TextDocument& document);
  /// Takes a record from `rest_`, behind the spaces it begins with, up to `end`.
  void begin_record(TextDocument& document, std::string_view spaces, std::size_t end) const;

  std::span<const std::string> files_;
  DocumentOptions options_;
  std::optional<Bytes> part_;
  std::size_t opened_ = 0;
  std::shared_ptr<const MappedFile> file_;
  std::string_view rest_;
  DocumentLayout layout_;
  std::int64_t byte_order_marks_ = 0;
  std::int64_t line_ = 0;  ///< newlines before `rest_`, unless the file is a text
};

}  // namespace strata
