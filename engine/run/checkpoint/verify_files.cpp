// The files of a checkpoint against its manifest.
#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "base/hash.h"
#include "base/nth.h"
#include "base/system_error.h"
#include "collectives/agreement.h"
#include "engine/run/checkpoint/manifest.h"
#include "engine/run/checkpoint/refusals.h"

namespace strata {
namespace fs = std::filesystem;
namespace {

using NamedFile = std::pair<const std::string, Manifest::File>;

void check_size(const FileReader& file, const Manifest::File& expected) {
  if (file.size() == expected.bytes) return;
  report_damage(file.path(),
                fmt::format("the file has {} bytes, it was saved with {}", file.size(), expected.bytes));
}

/// Looks at the files from the one place where a name that is not there is no file: another rank's view of a
/// shared folder may be older.
void check_sizes(FileSystem& file_system, const fs::path& folder, const Manifest& manifest) {
  for (const auto& [name, expected] : manifest.files) {
    try {
      check_size(FileReader(folder / name, file_system), expected);
    } catch (const SystemError& error) {
      if (error.is_missing()) report_damage(folder / name, "the file is missing");
      throw;
    }
  }
}

/// One rank's share, a portion at a time.
class Verification {
 public:
  Verification(FileSystem& file_system, fs::path folder, std::vector<const NamedFile*> files)
      : file_system_(file_system), folder_(std::move(folder)), files_(std::move(files)), buffer_(4 * MiB) {}

  bool is_done() const { return files_.empty(); }

  void read(Bytes bytes) {
    while (!files_.empty() && bytes > 0) {
      if (!file_) begin();
      const Bytes count = std::min({bytes, static_cast<Bytes>(buffer_.size()), file_->size() - offset_});
      const auto piece = slice(buffer_, 0, count);
      file_->read(offset_, piece);
      hash_->update(piece);
      offset_ += count;
      bytes -= count;
      if (offset_ == file_->size()) end();
    }
  }

 private:
  void begin() {
    const auto& [name, expected] = *files_.back();
    file_.emplace(folder_ / name, file_system_);
    check_size(*file_, expected);
    hash_.emplace();
    offset_ = 0;
  }

  void end() {
    const std::string found = hex(hash_->digest());
    const std::string& expected = files_.back()->second.xxh3;
    if (found != expected) {
      report_damage(file_->path(),
                    fmt::format("the file's checksum is {}, it was saved with {}", found, expected));
    }
    file_.reset();
    files_.pop_back();
  }

  FileSystem& file_system_;
  fs::path folder_;
  std::vector<const NamedFile*> files_;  ///< still to be read, the next one last
  std::vector<std::byte> buffer_;
  std::optional<FileReader> file_;
  std::optional<StreamingHash> hash_;
  std::int64_t offset_ = 0;
};

/// The files that a rank reads, the first one last.
std::vector<const NamedFile*> share_of(const Manifest& manifest, const Communicator* ranks) {
  std::vector<const NamedFile*> files;
  int turn = 0;
  for (const NamedFile& file : manifest.files) {
    if (ranks == nullptr || turn++ % ranks->size() == ranks->rank()) files.push_back(&file);
  }
  std::ranges::reverse(files);
  return files;
}

}  // namespace

void verify_files(const fs::path& folder, const Manifest& manifest, FileSystem& file_system,
                  Communicator* ranks, Bytes between_meetings) {
  on_first_rank(ranks, [&] { check_sizes(file_system, folder, manifest); });
  Verification verification(file_system, folder, share_of(manifest, ranks));
  const auto is_done = [](const std::string& text) { return text.empty(); };
  std::vector<std::string> states;
  do {
    states = texts_of_ranks(ranks, [&] {
      verification.read(between_meetings);
      return std::string(verification.is_done() ? "" : "more");
    });
  } while (!std::ranges::all_of(states, is_done));
}

}  // namespace strata
