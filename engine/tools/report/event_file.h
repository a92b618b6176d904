// Event files, which TensorBoard reads: records with checksums, each of them a protobuf. A process writes one
// file and never touches older ones; what a run tells when it goes on stands in a new file, whose name comes
// behind theirs. One thread at a time.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"

namespace strata {

/// A point of a curve. Event files hold fp32.
struct Scalar {
  std::string tag;  ///< "train/loss"
  float value = 0;
};

/// What TensorBoard shows under "Text", as Markdown.
struct TextNote {
  std::string tag;   ///< "samples/1"
  std::string text;  ///< UTF-8
};

class EventFile {
 public:
  /// Makes a new file in the folder, which may be a link, and which it makes if it is not there. Throws
  /// SystemError.
  explicit EventFile(const std::filesystem::path& folder);

  /// Readers drop what older files say of this step and later ones. Throws SystemError, as add() does; after
  /// that the file's end may be torn, which readers take for its end, so nothing is to follow.
  void start(std::int64_t step);
  void add(std::int64_t step, std::span<const Scalar> scalars);
  void add(std::int64_t step, std::span<const TextNote> notes);

  /// Whether an older file has a value of `tag` at `step` that no later start() has dropped. What cannot be
  /// read has none.
  bool is_in_older_files(std::string_view tag, std::int64_t step) const;

 private:
  void write(std::string_view event);

  std::filesystem::path path_;
  std::vector<std::filesystem::path> older_;  ///< in the order in which readers read them
  FileDescriptor descriptor_;
};

/// An event as a file holds it: its length and the event, each with a checksum.
std::string event_record(std::string_view event);

/// Whether a file's events, from its start on, leave `tag` with a value at `step`; `was_there` if they do not
/// tell. A torn or damaged record ends the file.
bool has_value(const FileReader& file, std::string_view tag, std::int64_t step, bool was_there);

}  // namespace strata
