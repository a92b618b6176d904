#include "engine/input/data/token_source.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cassert>
#include <cstring>
#include <type_traits>
#include <utility>

#include "base/error.h"
#include "base/nth.h"
#include "engine/input/data/megatron_index.h"

namespace strata {
namespace {

[[noreturn]] void refuse_id(const TokenSegment& segment, std::int64_t position, std::int64_t id,
                            std::int64_t vocabulary) {
  // Two ids of half the width, read as one.
  const std::int64_t half = size_of(segment.type) / 2;
  const bool is_of_given_width = segment.type == TokenType::uint32 || segment.type == TokenType::int64;
  const bool halves = is_of_given_width && segment.index == nullptr && id >= 0 &&
                      id % (std::int64_t{1} << (8 * half)) < vocabulary && (id >> (8 * half)) < vocabulary;
  throw ConfigError(
      fmt::format("{}: token {} has the id {}, but the model's vocabulary has {} ids (0 to {}): tokenize the "
                  "data with this model's tokenizer, {}",
                  segment.file->path(), position, id, vocabulary, vocabulary - 1,
                  halves ? fmt::format("or set data.token_bytes to {} if the file has such ids", half)
                         : "or choose a model with a larger vocab_size"));
}

/// Widens ids [first, first + out.size()) of the segment's file. A negative id counts as too large.
template <typename T>
void copy_ids(const TokenSegment& segment, std::int64_t first, std::int64_t vocabulary,
              std::span<std::int32_t> out) {
  const std::byte* source =
      segment.file->bytes().data() + segment.offset + first * static_cast<std::int64_t>(sizeof(T));
  using Word = std::make_unsigned_t<T>;
  Word largest = 0;
  for (std::size_t i = 0; i < out.size(); ++i) {
    T id;  // may be misaligned in the file
    std::memcpy(&id, source + i * sizeof(T), sizeof(T));
    const auto word = static_cast<Word>(id);
    largest = std::max(largest, word);
    out[i] = static_cast<std::int32_t>(word);
  }
  const auto end = static_cast<std::uint64_t>(vocabulary);
  if (largest < end) return;
  for (std::size_t i = 0; i < out.size(); ++i) {
    T id;
    std::memcpy(&id, source + i * sizeof(T), sizeof(T));
    if (static_cast<Word>(id) >= end) {
      refuse_id(segment, first + static_cast<std::int64_t>(i), id, vocabulary);
    }
  }
}

void copy_ids(const TokenSegment& segment, std::int64_t first, std::int64_t vocabulary,
              std::span<std::int32_t> out) {
  switch (segment.type) {
    case TokenType::uint8:
      return copy_ids<std::uint8_t>(segment, first, vocabulary, out);
    case TokenType::uint16:
      return copy_ids<std::uint16_t>(segment, first, vocabulary, out);
    case TokenType::uint32:
      return copy_ids<std::uint32_t>(segment, first, vocabulary, out);
    case TokenType::int32:
      return copy_ids<std::int32_t>(segment, first, vocabulary, out);
    case TokenType::int64:
      return copy_ids<std::int64_t>(segment, first, vocabulary, out);
  }
}

}  // namespace

TokenSource::TokenSource(std::vector<TokenSegment> segments, std::int64_t vocabulary, bool by_documents)
    : segments_(std::move(segments)), vocabulary_(vocabulary) {
  std::int64_t total = 0;
  for (const TokenSegment& segment : segments_) {
    starts_.push_back(total);
    total += segment.tokens();
    if (!by_documents) continue;
    borders_.emplace_back();
    if (segment.index != nullptr) {
      borders_.back().emplace(segment.index, size_of(segment.type));
    } else if (!segment.terminated) {
      throw ConfigError(
          fmt::format("data.packing: {} does not say where its documents begin; give Megatron's .idx beside "
                      "it, or texts, or set data.packing to none",
                      segment.file->path()));
    }
  }
  starts_.push_back(total);
  check_beginnings();
}

void TokenSource::check_beginnings() const {
  if (segments_.empty()) return;
  // About 10 ms in all, when the pages are in memory.
  constexpr std::int64_t kCheckedTokens = std::int64_t{16} << 20;
  const std::int64_t per_segment = kCheckedTokens / static_cast<std::int64_t>(segments_.size()) + 1;
  std::array<std::int32_t, 4096> buffer;
  for (std::size_t i = 0; i < segments_.size(); ++i) {
    const std::int64_t bits = 8 * size_of(segments_[i].type);
    if (bits < 64 && vocabulary_ >> bits > 0) continue;  // the type holds no larger id
    const std::int64_t end = starts_[i] + std::min(per_segment, segments_[i].tokens());
    for (std::int64_t first = starts_[i]; first < end; first += static_cast<std::int64_t>(buffer.size())) {
      const auto count = std::min(end - first, static_cast<std::int64_t>(buffer.size()));
      read(first, slice(buffer, 0, count));
    }
  }
}

template <typename Visit>
void TokenSource::for_stretches(std::int64_t first, std::int64_t count, const Visit& visit) const {
  assert(first >= 0 && first + count <= tokens());
  auto index = index_of(starts_, std::ranges::upper_bound(starts_, first)) - 1;
  for (std::int64_t at = 0; at < count; ++index) {
    const std::int64_t within = first + at - starts_[index];
    const std::int64_t own = std::min(starts_[index + 1] - first, count) - at;
    visit(segments_[index], within, own, at);
    at += own;
  }
}

void TokenSource::read(std::int64_t first, std::span<std::int32_t> out) const {
  for_stretches(first, std::ssize(out),
                [&](const TokenSegment& segment, std::int64_t within, std::int64_t count, std::int64_t at) {
                  const std::int64_t ids = std::clamp<std::int64_t>(segment.ids - within, 0, count);
                  const auto place = slice(out, at, count);
                  if (ids > 0) copy_ids(segment, within, vocabulary_, place.first(std::size_t(ids)));
                  if (ids < count) place.back() = 0;
                });
}

void TokenSource::leave_out_untrained(std::int64_t first, std::span<std::int32_t> targets) const {
  for_stretches(first, std::ssize(targets),
                [&](const TokenSegment& segment, std::int64_t within, std::int64_t count, std::int64_t at) {
                  if (segment.trained == nullptr) return;
                  const auto marks = slice(segment.trained->bytes(), within, count);
                  for (std::size_t i = 0; i < marks.size(); ++i)
                    if (marks[i] == std::byte{0}) targets[std::size_t(at) + i] = kUntrained;
                });
}

std::int64_t TokenSource::trained(std::int64_t first, std::int64_t count) const {
  std::int64_t sum = 0;
  for_stretches(first, count,
                [&](const TokenSegment& segment, std::int64_t within, std::int64_t own, std::int64_t) {
                  if (segment.trained == nullptr) {
                    sum += own;
                    return;
                  }
                  const auto marks = slice(segment.trained->bytes(), within, own);
                  sum += own - std::ranges::count(marks, std::byte{0});
                });
  return sum;
}

bool TokenSource::are_all_trained() const {
  return std::ranges::all_of(segments_,
                             [](const TokenSegment& segment) { return segment.trained == nullptr; });
}

std::optional<std::int64_t> TokenSource::documents() const {
  std::int64_t sum = 0;
  for (const TokenSegment& segment : segments_) {
    if (segment.index == nullptr && !segment.terminated) return std::nullopt;
    sum += segment.terminated ? 1 : std::max<std::int64_t>(megatron_document_entries(*segment.index) - 1, 0);
  }
  return sum;
}

std::int64_t TokenSource::byte_order_marks() const {
  return std::ranges::count_if(
      segments_, [](const TokenSegment& segment) { return segment.terminated && segment.offset > 0; });
}

template <typename Visit>
void TokenSource::for_documents(std::int64_t first, std::int64_t count, const Visit& visit) const {
  for_stretches(first, count,
                [&](const TokenSegment& segment, std::int64_t within, std::int64_t own, std::int64_t at) {
                  const auto& borders = nth(borders_, &segment - segments_.data());
                  const std::int64_t start = first + at - within, end = within + own;
                  for (std::int64_t id = within; id < end;) {
                    const std::int64_t begin = borders ? borders->begin_of(id) : 0;
                    const std::int64_t behind = borders ? std::min(borders->end_of(id), end) : end;
                    visit(start + begin, start + id, behind - id);
                    id = behind;
                  }
                });
}

std::int64_t TokenSource::begin_of_document(std::int64_t token) const {
  std::int64_t found = 0;
  for_documents(token, 1, [&](std::int64_t begin, std::int64_t, std::int64_t) { found = begin; });
  return found;
}

std::int64_t TokenSource::end_of_document(std::int64_t token) const {
  std::int64_t end = 0;
  for_stretches(token, 1, [&](const TokenSegment& segment, std::int64_t within, std::int64_t, std::int64_t) {
    const auto& borders = nth(borders_, &segment - segments_.data());
    end = token - within + (borders ? borders->end_of(within) : segment.tokens());
  });
  return end;
}

void TokenSource::read_places(std::int64_t first, std::int64_t cut, std::span<std::int32_t> out) const {
  for_documents(first, std::ssize(out), [&](std::int64_t begin, std::int64_t token, std::int64_t count) {
    const std::int64_t place = token - std::max(begin, cut);
    for (std::int64_t i = 0; i < count; ++i)
      nth(out, token - first + i) = static_cast<std::int32_t>(place + i);
  });
}

void TokenSource::read_lengths(std::int64_t first, std::pair<std::int64_t, std::int64_t> window,
                               std::span<std::int32_t> out) const {
  const std::int64_t behind = first + std::ssize(out);
  for_documents(window.first, window.second - window.first,
                [&](std::int64_t, std::int64_t token, std::int64_t count) {
                  const std::int64_t from = std::max(token, first), to = std::min(token + count, behind);
                  for (std::int64_t at = from; at < to; ++at)
                    nth(out, at - first) = static_cast<std::int32_t>(count);
                });
}

void TokenSource::leave_out_beginnings(std::int64_t first, std::span<std::int32_t> targets) const {
  for_documents(first, std::ssize(targets), [&](std::int64_t begin, std::int64_t token, std::int64_t) {
    if (begin == token) nth(targets, token - first) = kUntrained;
  });
}

std::int64_t TokenSource::trained_within_documents(std::int64_t first, std::int64_t count) const {
  std::int64_t sum = trained(first, count);
  for_documents(first, count, [&](std::int64_t begin, std::int64_t token, std::int64_t) {
    if (begin == token) sum -= trained(token, 1);
  });
  return sum;
}

}  // namespace strata
