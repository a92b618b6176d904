#include "engine/input/data/indexed_tokens.h"

#include <algorithm>
#include <filesystem>
#include <limits>

#include "base/error.h"
#include "base/nth.h"
#include "engine/input/data/megatron_index.h"

namespace strata {
namespace {

constexpr std::int32_t kNarrowIds = 1 << 16;
constexpr std::size_t kValuesAtOnce = std::size_t{1} << 16;

Bytes id_bytes(bool is_narrow) {
  return is_narrow ? 2 : 4;
}

/// Calls use(length) for each document of a file of lengths.
template <typename Use>
void for_each_length(const FileReader& file, const Use& use) {
  std::vector<std::int32_t> lengths(kValuesAtOnce);
  for (std::int64_t at = 0; at < file.size();) {
    const Bytes bytes = std::min<Bytes>(file.size() - at, std::ssize(lengths) * 4);
    file.read(at, slice(std::as_writable_bytes(std::span(lengths)), 0, bytes));
    for (std::int64_t i = 0; i < bytes / 4; ++i) use(nth(lengths, i));
    at += bytes;
  }
}

/// Collects values, so that each is no write of its own.
template <typename T>
class Values {
 public:
  explicit Values(GrowingFile& file) : file_(file) {}
  void add(T value) {
    values_.push_back(value);
    if (values_.size() == kValuesAtOnce) flush();
  }
  void flush() {
    if (!values_.empty()) file_.write_all(values_);
    values_.clear();
  }

 private:
  GrowingFile& file_;
  std::vector<T> values_;
};

}  // namespace

IndexedTokens::IndexedTokens(FileSystem& file_system, const std::string& prefix, std::int32_t end_of_ids,
                             const Size& size)
    : file_system_(file_system),
      prefix_(prefix),
      is_narrow_(end_of_ids <= kNarrowIds),
      size_(size),
      data_(file_system, prefix + ".bin.tmp", size.tokens * id_bytes(is_narrow_)),
      lengths_(file_system, prefix + ".lengths.tmp", size.documents * 4) {
  const std::string marks = prefix + ".trained.tmp";
  if (size.has_marks) {
    trained_.emplace(file_system, marks, size.tokens);
  } else {
    file_system.remove_all(marks);
  }
}

void IndexedTokens::add(std::span<const std::int32_t> ids, std::span<const std::uint8_t> trained,
                        bool goes_on) {
  if (is_narrow_) {
    narrow_.assign(ids.begin(), ids.end());
    data_.write_all(narrow_);
  } else {
    data_.write(std::as_bytes(ids));
  }
  if (!trained_ && std::ranges::find(trained, 0) != trained.end()) begin_marks();
  if (trained_) trained_->write(std::as_bytes(trained));
  size_.tokens += std::ssize(ids);
  size_.open_tokens += std::ssize(ids);
  if (size_.open_tokens > std::numeric_limits<std::int32_t>::max())
    throw ConfigError("a text has more than 2^31 tokens, which the format cannot say: cut it");
  if (goes_on || size_.open_tokens == 0) return;
  lengths_.write_value(static_cast<std::int32_t>(size_.open_tokens));
  size_.open_tokens = 0;
  ++size_.documents;
}

/// All ids until now are trained on.
void IndexedTokens::begin_marks() {
  trained_.emplace(file_system_, prefix_ + ".trained.tmp", 0);
  size_.has_marks = true;
  Values<std::uint8_t> marks(*trained_);
  for (std::int64_t i = 0; i < size_.tokens; ++i) marks.add(1);
  marks.flush();
}

void IndexedTokens::sync() {
  data_.sync();
  lengths_.sync();
  if (trained_) trained_->sync();
}

void IndexedTokens::write_index() {
  constexpr std::uint8_t kUint16 = 8, kInt32 = 4;
  GrowingFile index(file_system_, prefix_ + ".idx.tmp", 0);
  const auto documents = static_cast<std::uint64_t>(size_.documents);
  index.write(std::as_bytes(std::span("MMIDIDX\0", 9)));
  index.write_value(std::uint64_t{1});
  index.write_value(is_narrow_ ? kUint16 : kInt32);
  index.write_value(documents);
  index.write_value(documents + 1);
  const FileReader lengths(lengths_.path(), file_system_);
  Values<std::int32_t> sizes(index);
  for_each_length(lengths, [&](std::int32_t length) { sizes.add(length); });
  sizes.flush();
  Values<std::int64_t> places(index);
  std::int64_t place = 0;
  for_each_length(lengths, [&](std::int32_t length) {
    places.add(place);
    place += length * id_bytes(is_narrow_);
  });
  for (std::int64_t document = 0; document <= size_.documents; ++document) places.add(document);
  places.flush();
  if (size_.has_marks) index.write(std::as_bytes(std::span(kMegatronMarks)));
  index.sync();
}

void IndexedTokens::finish() {
  sync();
  write_index();
}

void IndexedTokens::name(FileSystem& file_system, const std::string& prefix) {
  for (const char* extension : {".idx", ".trained", ".bin"}) {
    const std::string unfinished = prefix + extension + ".tmp";
    if (file_system.exists(unfinished)) file_system.rename(unfinished, prefix + extension);
  }
  file_system.sync_folder(std::filesystem::path(prefix).parent_path());
  file_system.remove_all(prefix + ".lengths.tmp");
}

void IndexedTokens::remove(FileSystem& file_system, const std::string& prefix) {
  for (const char* extension : {".idx", ".trained", ".bin", ".lengths"})
    remove_quietly(file_system, prefix + extension + ".tmp");
}

void to_json(nlohmann::json& json, const IndexedTokens::Size& size) {
  json = {{"documents", size.documents},
          {"tokens", size.tokens},
          {"open_tokens", size.open_tokens},
          {"has_marks", size.has_marks}};
}

void from_json(const nlohmann::json& json, IndexedTokens::Size& size) {
  json.at("documents").get_to(size.documents);
  json.at("tokens").get_to(size.tokens);
  json.at("open_tokens").get_to(size.open_tokens);
  json.at("has_marks").get_to(size.has_marks);
}

}  // namespace strata
