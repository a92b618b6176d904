// Files of texts as documents, one after another: a file is one, or, if its name ends with .jsonl, each of
// its lines is an object that has one. Files are mapped, so none of them has to fit in memory.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "engine/data/mapped_file.h"

namespace strata {

/// What is behind a document stays mapped while there is a copy of it.
struct TextDocument {
  std::shared_ptr<const MappedFile> file;
  std::int64_t line = 0;    ///< from 1; 0: the document is the whole file
  std::string_view source;  ///< the text, or a line's object

  /// "FILE" or "FILE:LINE", for errors.
  std::string place() const;
};

/// Whether each line of the file is a document.
bool has_line_documents(const std::string& file);

class DocumentReader {
 public:
  explicit DocumentReader(std::span<const std::string> files) : files_(files) {}

  /// The next one that is not empty, nor only spaces if it is a line; false: there is none. Throws
  /// ConfigError if a file cannot be opened.
  bool next(TextDocument& document);

 private:
  bool open_next();

  std::span<const std::string> files_;
  std::size_t opened_ = 0;
  std::shared_ptr<const MappedFile> file_;
  std::string_view rest_;
  std::int64_t line_ = 0;  ///< the last one's; 0 if the file has none
  bool has_lines_ = false;
};

}  // namespace strata
