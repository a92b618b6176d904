#include "engine/input/data/token_names.h"

#include <cstdint>
#include <vector>

#include "base/file.h"
#include "base/hash.h"
#include "base/nth.h"
#include "base/task_arena.h"
#include "base/watchdog.h"
#include "engine/config/data_section.h"
#include "engine/input/data/document_form.h"
#include "engine/input/data/mapped_file.h"

namespace strata {
namespace {

class NameHash {
 public:
  void add(std::uint64_t value) { hash_.update(std::as_bytes(std::span(&value, 1))); }
  std::uint64_t digest() const { return hash_.digest(); }

 private:
  StreamingHash hash_;
};

/// Each text's, and how it is read.
std::vector<std::uint64_t> hashes_of(std::span<const std::string> files, const DocumentOptions& documents,
                                     int threads) {
  std::vector<std::uint64_t> hashes(files.size());
  TaskArena(threads).for_each(std::ssize(files), [&](std::int64_t i, int) {
    const MappedFile file(nth(files, i));
    const WatchedWait wait([&file] { return "reading " + file.path() + " (data.path)"; });
    NameHash hash;
    hash.add(file.bytes().size());
    hash.add(hash_bytes(file.bytes()));
    const DocumentLayout layout = layout_of_documents(file, documents);
    hash.add(static_cast<std::uint64_t>(layout.form));
    hash.add(layout.begin);
    nth(hashes, i) = hash.digest();
  });
  return hashes;
}

}  // namespace

std::string name_of_tokens(const text::Tokenizer& tokenizer, const std::filesystem::path& tokenizer_file,
                           const TokenizeOptions& options, std::span<const std::string> files) {
  constexpr std::uint64_t kVersion = 2;  // of what tokenize_files() makes of the same texts
  NameHash hash;
  hash.add(kVersion);
  hash.add(hash_text(read_file(tokenizer_file)));
  hash.add(static_cast<std::uint64_t>(tokenizer.end_of_ids()));
  hash.add(options.borders.begin.size());
  for (const std::int32_t id : options.borders.begin) hash.add(static_cast<std::uint64_t>(id));
  hash.add(static_cast<std::uint64_t>(options.borders.end.value_or(-1)));
  hash.add(options.conversations == nullptr ? 0 : options.conversations->hash());
  for (const std::string_view field : kRecordFields)
    hash.add(hash_text(options.documents.fields.key(std::string(field))));
  for (const std::uint64_t text : hashes_of(files, options.documents, options.threads)) hash.add(text);
  return hex(hash.digest());
}

}  // namespace strata
