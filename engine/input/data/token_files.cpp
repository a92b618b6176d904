#include "engine/input/data/token_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <filesystem>
#include <optional>
#include <set>
#include <string_view>
#include <system_error>

#include "base/error.h"
#include "base/file.h"
#include "base/missing_path.h"
#include "engine/config/choices.h"
#include "engine/input/data/document_form.h"
#include "engine/input/data/file_pattern.h"
#include "engine/input/data/foreign_data.h"
#include "engine/input/data/megatron_index.h"

namespace strata {
namespace {

std::string with_extension(const std::string& path, const char* extension) {
  return std::filesystem::path(path).replace_extension(extension).native();
}

std::shared_ptr<const MappedFile> map(const std::string& path) {
  return std::make_shared<MappedFile>(path);
}

std::int64_t size_of(const MappedFile& file) {
  return static_cast<std::int64_t>(file.bytes().size());
}

[[noreturn]] void refuse(const MappedFile& file, const std::string& sentence) {
  throw ConfigError(fmt::format("{}: {}", file.path(), sentence));
}

std::vector<std::string> find_one(const std::string& pattern, Tokenizer tokenizer, const std::string& key,
                                  DataFormat format) {
  std::vector<std::string> files = expand_pattern(pattern);
  if (tokenizer == Tokenizer::none) {
    if (files.empty()) files = expand_pattern(pattern + ".bin");
    for (std::string& file : files) {
      if (file.ends_with(".idx") || file.ends_with(".trained")) file = with_extension(file, ".bin");
      if (!file.ends_with(".bin") && format != DataFormat::tokens) {
        throw ConfigError(
            fmt::format("{}: {} is not a .bin file of token ids; for text set data.tokenizer to bytes, "
                        "or data.format to tokens if it holds ids",
                        key, file));
      }
    }
  }
  if (files.empty()) {
    std::error_code error;
    const bool folder = std::filesystem::is_directory(pattern, error);
    throw ConfigError(folder ? fmt::format("{}: {} is a folder; name its files, as {}", key, pattern,
                                           (std::filesystem::path(pattern) / "*").native())
                             : fmt::format("{}: no file matches {}{}", key, pattern,
                                           advice_on_missing(pattern, key.starts_with("data.") ? key : "")));
  }
  return files;
}

// llm.c: magic, version and number of tokens are the first of 256 words.
constexpr std::int64_t kLlmcHeaderBytes = 1024;

struct LlmcKind {
  std::int32_t magic, version;
  TokenType type;
};
constexpr std::array kLlmcKinds = {LlmcKind{20240520, 1, TokenType::uint16},
                                   LlmcKind{20240801, 7, TokenType::uint32}};

std::optional<TokenSegment> as_llmc(const std::shared_ptr<const MappedFile>& file) {
  if (size_of(*file) < kLlmcHeaderBytes) return std::nullopt;
  const auto kind = std::ranges::find(kLlmcKinds, load_at<std::int32_t>(*file, 0), &LlmcKind::magic);
  if (kind == kLlmcKinds.end()) return std::nullopt;
  const auto version = load_at<std::int32_t>(*file, 4);
  if (version != kind->version) {
    refuse(*file,
           fmt::format("an llm.c token file of version {}; version {} is supported", version, kind->version));
  }
  const std::int64_t tokens = load_at<std::int32_t>(*file, 8);
  const std::int64_t expected = kLlmcHeaderBytes + tokens * size_of(kind->type);
  if (tokens < 0 || expected != size_of(*file)) {
    refuse(*file, fmt::format("its header promises {} tokens, {} bytes in all, but the file has {}", tokens,
                              expected, size_of(*file)));
  }
  return TokenSegment{.file = file, .offset = kLlmcHeaderBytes, .ids = tokens, .type = kind->type};
}

TokenType megatron_type(const MappedFile& index) {
  switch (load_at<std::uint8_t>(index, 17)) {
    case 1:
      return TokenType::uint8;
    case 4:
      return TokenType::int32;
    case 5:
      return TokenType::int64;
    case 8:
      return TokenType::uint16;
    default:
      refuse(index,
             fmt::format("its type code {} is not one of uint8 (1), int32 (4), int64 (5) and uint16 (8)",
                         load_at<std::uint8_t>(index, 17)));
  }
}

/// Checks that the sequences lie one after the other and fill the .bin file, as every writer lays them out;
/// then the .bin is a plain array of ids.
void check_megatron_layout(const MappedFile& index, std::int64_t sequences, std::int64_t token_bytes,
                           const MappedFile& data) {
  std::int64_t end = 0;
  for (std::int64_t i = 0; i < sequences; ++i) {
    const std::int64_t length = megatron_sequence_length(index, i);
    if (length < 0 || megatron_sequence_offset(index, i) != end) {
      refuse(index, fmt::format("sequence {} does not follow the one before it in {}", i, data.path()));
    }
    end += length * token_bytes;
  }
  if (end != size_of(data)) {
    refuse(data, fmt::format("{} promises {} bytes, but the file has {}", index.path(), end, size_of(data)));
  }
}

bool has_marks(const MappedFile& index) {
  const std::string_view all = index.text();
  return all.ends_with(kMegatronMarks);
}

TokenSegment as_megatron(const std::shared_ptr<const MappedFile>& data,
                         const std::shared_ptr<const MappedFile>& index_file) {
  const MappedFile& index = *index_file;
  if (size_of(index) < kMegatronHeaderBytes ||
      std::memcmp(index.bytes().data(), kMegatronMagic.data(), kMegatronMagic.size()) != 0) {
    refuse(index, "this is not a Megatron index, which begins with MMIDIDX");
  }
  const auto version = load_at<std::uint64_t>(index, 9);
  if (version != 1) refuse(index, fmt::format("index version {}; version 1 is supported", version));
  const TokenType type = megatron_type(index);
  const auto sequences = load_at<std::uint64_t>(index, 18);
  const auto documents = load_at<std::uint64_t>(index, 26);
  const auto available = static_cast<std::uint64_t>(size_of(index));
  // Bounded one by one, so that absurd counts cannot overflow the sum. A multimodal index has a byte per
  // sequence more.
  if (sequences > available / 12 || documents > available / 8 ||
      static_cast<std::uint64_t>(kMegatronHeaderBytes) + 12 * sequences + 8 * documents > available) {
    refuse(index,
           fmt::format("its header promises {} sequences and {} documents, but the file has only {} bytes",
                       sequences, documents, available));
  }
  check_megatron_layout(index, static_cast<std::int64_t>(sequences), size_of(type), *data);
  TokenSegment segment = {
      .file = data, .offset = 0, .ids = size_of(*data) / size_of(type), .type = type, .index = index_file};
  if (const std::string marks = with_extension(data->path(), ".trained"); is_there(marks)) {
    segment.trained = map(marks);
    if (size_of(*segment.trained) != segment.ids)
      refuse(*segment.trained, fmt::format("it has {} bytes, and {} has {} ids; it needs one for each",
                                           size_of(*segment.trained), data->path(), segment.ids));
  } else if (has_marks(index)) {
    refuse(*data, fmt::format("not all of its tokens are trained on, and {}, which marks them, is missing: "
                              "copy that, too, or make all three files again",
                              marks));
  }
  return segment;
}

/// The width in bytes that a file's first ids seem to have, at least that of `Word`. Ids are wider if the
/// words above their low words are all 0, or small numbers if ids exceed 65535, while the low words are not
/// all 0.
template <typename Word>
std::int64_t likely_width(const MappedFile& file) {
  constexpr std::int64_t kLooked = 4096, kFewest = 64, kOwn = sizeof(Word), kWidest = 8;
  constexpr Word kLargestHigh = 15, kLargeLow = 4096;
  for (std::int64_t width = kWidest; width > kOwn; width /= 2) {
    const std::int64_t ids = std::min(kLooked, size_of(file) / width), words = width / kOwn;
    if (ids < kFewest || size_of(file) % width != 0) continue;
    Word largest_low = 0, largest_high = 0, largest_above = 0;
    std::int64_t lows = 0;
    for (std::int64_t i = 0; i < ids; ++i) {
      const auto word = [&](std::int64_t number) { return load_at<Word>(file, i * width + number * kOwn); };
      largest_low = std::max(largest_low, word(0));
      largest_high = std::max(largest_high, word(1));
      for (std::int64_t above = 2; above < words; ++above)
        largest_above = std::max(largest_above, word(above));
      lows += word(0) != 0 ? 1 : 0;
    }
    const bool is_high =
        largest_high == 0 || (kOwn == 2 && largest_high <= kLargestHigh && largest_low >= kLargeLow);
    if (lows >= ids / 4 && is_high && largest_above == 0) return width;
  }
  return kOwn;
}

TokenSegment as_raw(const std::shared_ptr<const MappedFile>& file, std::int64_t token_bytes) {
  if (const std::string form = known_signature(*file); !form.empty())
    refuse(*file, fmt::format("this is {}, and not ids alone: write them as numpy's tofile() does", form));
  if (size_of(*file) % token_bytes != 0) {
    refuse(*file, fmt::format("{} bytes are not a whole number of {}-byte token ids (data.token_bytes)",
                              size_of(*file), token_bytes));
  }
  const std::int64_t likely = token_bytes == 2   ? likely_width<std::uint16_t>(*file)
                              : token_bytes == 4 ? likely_width<std::uint32_t>(*file)
                                                 : token_bytes;
  if (likely != token_bytes) {
    refuse(*file, fmt::format("{} {}-byte number{} 0 or nearly, as in a file of {}-byte token ids: set "
                              "data.token_bytes to {}",
                              likely == 2 * token_bytes ? "every second" : "of four each time three",
                              token_bytes, likely == 2 * token_bytes ? " is" : "s are", likely, likely));
  }
  const TokenType type = token_bytes == 2   ? TokenType::uint16
                         : token_bytes == 4 ? TokenType::uint32
                                            : TokenType::int64;
  return {.file = file, .offset = 0, .ids = size_of(*file) / token_bytes, .type = type};
}

}  // namespace

std::vector<std::string> find_token_files(const std::vector<std::string>& patterns, Tokenizer tokenizer,
                                          const std::string& key, DataFormat format) {
  std::set<std::string> files;
  for (const std::string& pattern : patterns) {
    const std::vector<std::string> found = find_one(pattern, tokenizer, key, format);
    files.insert(found.begin(), found.end());
  }
  return {files.begin(), files.end()};
}

TokenSegment open_text(const std::string& path, DataFormat format) {
  const auto file = map(path);
  require_text(*file, format);
  const auto mark = static_cast<std::int64_t>(byte_order_mark(file->text()));
  const std::int64_t ids = size_of(*file) - mark;
  return {.file = file, .offset = mark, .ids = ids, .type = TokenType::uint8, .terminated = ids > 0};
}

TokenSegment open_token_file(const std::string& path, std::int64_t token_bytes) {
  const auto file = map(path);
  const std::string index = with_extension(path, ".idx");
  std::error_code error;
  if (std::filesystem::exists(index, error)) return as_megatron(file, map(index));
  if (const auto segment = as_llmc(file)) return *segment;
  return as_raw(file, token_bytes);
}

}  // namespace strata
