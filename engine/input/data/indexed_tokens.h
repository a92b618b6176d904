// Megatron's files of token ids (core/datasets/indexed_dataset.py) on their way to the disk: they are gone on
// with after a crash, and none looks finished before all are. One thread at a time.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "base/file.h"
#include "engine/input/data/growing_file.h"

namespace strata {

/// PREFIX.bin with a sequence for each document, PREFIX.idx, and PREFIX.trained with a byte for each id if
/// one is not trained on. Until finish() they are PREFIX.bin.tmp and the like, beside PREFIX.lengths.tmp,
/// which the index is made of.
class IndexedTokens {
 public:
  /// What is on the disk after sync().
  struct Size {
    std::int64_t documents = 0, tokens = 0;
    std::int64_t open_tokens = 0;  ///< of the document that is not at its end
    bool has_marks = false;        ///< there is a .trained
  };

  /// Goes on behind `size`; what else is in the files is dropped. Ids are less than `end_of_ids`. Throws
  /// ConfigError if a file has less.
  IndexedTokens(FileSystem& file_system, const std::string& prefix, std::int32_t end_of_ids,
                const Size& size);

  /// A document's ids, or a part of them, if it `goes_on`. One without any id is none.
  void add(std::span<const std::int32_t> ids, std::span<const std::uint8_t> trained, bool goes_on);
  const Size& size() const { return size_; }
  /// Returns when all that was added is on the disk.
  void sync();
  /// Writes the index. All is on the disk, under the names that it had.
  void finish();

  /// Gives the files their names, .bin last, without which nobody takes the others for tokens; what has its
  /// name already stays, and what the index was made of goes. After finish(), of this object or of one whose
  /// process died.
  static void name(FileSystem& file_system, const std::string& prefix);
  /// Removes what is not finished.
  static void remove(FileSystem& file_system, const std::string& prefix);

 private:
  void begin_marks();
  void write_index();

  FileSystem& file_system_;
  std::string prefix_;
  bool is_narrow_;
  Size size_;
  GrowingFile data_, lengths_;
  std::optional<GrowingFile> trained_;  ///< once an id is not trained on
  std::vector<std::uint16_t> narrow_;
};

/// For a file of progress.
void to_json(nlohmann::json& json, const IndexedTokens::Size& size);
void from_json(const nlohmann::json& json, IndexedTokens::Size& size);

}  // namespace strata
