// Where the documents of a token file begin, read from the .idx beside it when they are asked for. Immutable;
// read from any thread.
#pragma once

#include <cstdint>
#include <memory>

#include "engine/input/data/mapped_file.h"

namespace strata {

/// Documents of a file of `ids`, one behind another, as Megatron's index has them; some may be empty.
class DocumentBorders {
 public:
  /// Checks that documents follow one another and have all sequences. REQUIRES: the index has been checked
  /// to lay out the file's ids in sequences (token_files.h). Throws ConfigError.
  explicit DocumentBorders(std::shared_ptr<const MappedFile> index, std::int64_t bytes_of_id);

  /// The first id of the document that has this one. Allocates nothing. REQUIRES: the file has it.
  std::int64_t begin_of(std::int64_t id) const;
  /// The first id behind that document.
  std::int64_t end_of(std::int64_t id) const;

 private:
  /// Where a document of [0, documents_) begins, or, for documents_, where the last one ends.
  std::int64_t begin(std::int64_t document) const;
  /// The first document that begins behind the id.
  std::int64_t next(std::int64_t id) const;

  std::shared_ptr<const MappedFile> index_;
  std::int64_t bytes_of_id_, sequences_, documents_;
};

}  // namespace strata
