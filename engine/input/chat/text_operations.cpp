#include "engine/input/chat/text_operations.h"

#include <algorithm>
#include <cstring>

#include "base/nth.h"
#include "engine/input/chat/growing.h"
#include "engine/input/text/utf8.h"

namespace strata::chat {
namespace {

/// The byte `at`, moved by `characters`, forward or back.
std::size_t moved(std::string_view text, std::size_t at, std::int64_t characters) {
  for (; characters > 0; --characters) at += text::character_bytes(text[at]);
  for (; characters < 0; ++characters) at = text::character_before(text, at);
  return at;
}

class CharacterSet {
 public:
  explicit CharacterSet(std::string_view characters) {
    text::for_each_character(characters, [this](char32_t c, std::size_t, std::size_t) {
      if (c >= has_.size()) has_.resize(c + 1);
      has_[c] = true;
    });
  }
  bool has(char32_t c) const { return c < has_.size() && has_[c]; }

 private:
  std::vector<bool> has_;
};

/// Parts that were found from the given side, from the left.
std::vector<std::string_view> in_order(GrowingParts& found, Side side) {
  std::vector<std::string_view> parts = found.take();
  if (side == Side::right) std::ranges::reverse(parts);
  return parts;
}

bool ends_line(char32_t c) {
  return (c >= 0x0a && c <= 0x0d) || (c >= 0x1c && c <= 0x1e) || c == 0x85 || c == 0x2028 || c == 0x2029;
}

}  // namespace

std::size_t find_bytes(std::string_view text, std::string_view part, std::size_t from) {
  if (from > text.size()) return std::string::npos;
  if (part.empty()) return from;
  if (from == text.size()) return std::string::npos;
  const void* found = ::memmem(text.data() + from, text.size() - from, part.data(), part.size());
  return found == nullptr ? std::string::npos
                          : static_cast<std::size_t>(static_cast<const char*>(found) - text.data());
}

BackwardSearch::BackwardSearch(std::string_view text, std::string_view part)
    : text_(text.rbegin(), text.rend()), part_(part.rbegin(), part.rend()) {}

std::size_t BackwardSearch::find(std::size_t end) const {
  const std::size_t found = find_bytes(text_, part_, text_.size() - end);
  return found == std::string::npos ? found : text_.size() - found - part_.size();
}

std::string every_character(std::string_view text, std::int64_t begin, std::int64_t step,
                            std::int64_t count) {
  if (count <= 0) return {};
  if (text::is_ascii(text)) {
    if (step == 1)
      return std::string(text.substr(static_cast<std::size_t>(begin), static_cast<std::size_t>(count)));
    std::string characters;
    for (std::int64_t i = 0; i < count; ++i) characters += nth(text, begin + i * step);
    return characters;
  }
  std::string characters;
  std::size_t at = moved(text, 0, begin);
  for (std::int64_t i = 0; i < count; ++i) {
    if (i > 0) at = moved(text, at, step);
    characters.append(text.substr(at, text::character_bytes(text[at])));
  }
  return characters;
}

ByteRange byte_range(std::string_view text, std::int64_t begin, std::int64_t end) {
  const auto size = static_cast<std::int64_t>(text::count_characters(text));
  const auto clip = [&](std::int64_t at) { return at < 0 ? std::max(at + size, std::int64_t{0}) : at; };
  begin = clip(begin);
  end = std::min(clip(end), size);
  if (begin > end) return {std::string::npos, 0};
  if (begin == 0 && end == size) return {0, text.size()};
  const std::size_t first = moved(text, 0, begin);
  return {first, moved(text, first, end - begin)};
}

bool is_python_space(char32_t c) {
  if (c < 0x80) return c == ' ' || (c >= 9 && c <= 13) || (c >= 0x1c && c <= 0x1f);
  return c == 0x85 || c == 0xa0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200a) || c == 0x2028 ||
         c == 0x2029 || c == 0x202f || c == 0x205f || c == 0x3000;
}

std::string_view stripped(std::string_view text, const std::string* characters, Side side) {
  const CharacterSet set(characters == nullptr ? std::string_view() : *characters);
  const auto goes = [&](std::size_t begin) {
    const char32_t c = text::code_point_at(text, begin);
    return characters == nullptr ? is_python_space(c) : set.has(c);
  };
  while (side != Side::right && !text.empty()) {
    if (!goes(0)) break;
    text.remove_prefix(text::character_bytes(text[0]));
  }
  while (side != Side::left && !text.empty()) {
    const std::size_t begin = text::character_before(text, text.size());
    if (!goes(begin)) break;
    text.remove_suffix(text.size() - begin);
  }
  return text;
}

std::vector<std::string_view> split_at_space(const Meter& meter, std::string_view text, std::int64_t most,
                                             Side side) {
  GrowingParts words(meter);
  text = stripped(text, nullptr, side);
  while (!text.empty() && (most < 0 || words.count() < most)) {
    std::size_t begin = side == Side::left ? 0 : text.size(), end = begin;
    if (side == Side::left) {
      while (end < text.size() && !is_python_space(text::code_point_at(text, end)))
        end += text::character_bytes(text[end]);
      words.push_back(text.substr(0, end));
      text.remove_prefix(end);
    } else {
      while (begin > 0 && !is_python_space(text::code_point_at(text, text::character_before(text, begin))))
        begin = text::character_before(text, begin);
      words.push_back(text.substr(begin));
      text.remove_suffix(end - begin);
    }
    text = stripped(text, nullptr, side);
  }
  // What is left has the other side's white space, unless everything was split.
  if (!text.empty()) words.push_back(text);
  return in_order(words, side);
}

std::vector<std::string_view> split_at(const Meter& meter, std::string_view text, std::string_view separator,
                                       std::int64_t most, Side side) {
  GrowingParts parts(meter);
  std::optional<BackwardSearch> backward;
  if (side == Side::right) backward.emplace(text, separator);
  while (most < 0 || parts.count() < most) {
    const std::size_t at = backward ? backward->find(text.size()) : find_bytes(text, separator, 0);
    if (at == std::string::npos) break;
    if (side == Side::left) {
      parts.push_back(text.substr(0, at));
      text.remove_prefix(at + separator.size());
    } else {
      parts.push_back(text.substr(at + separator.size()));
      text = text.substr(0, at);
    }
  }
  parts.push_back(text);
  return in_order(parts, side);
}

std::vector<std::string_view> split_lines(const Meter& meter, std::string_view text, bool keep_ends) {
  GrowingParts lines(meter);
  std::size_t line = 0;
  for (std::size_t at = 0; at < text.size();) {
    const char32_t c = text::code_point_at(text, at);
    std::size_t next = at + text::character_bytes(text[at]);
    if (ends_line(c)) {
      if (c == '\r' && next < text.size() && text[next] == '\n') ++next;
      lines.push_back(text.substr(line, (keep_ends ? next : at) - line));
      line = next;
    }
    at = next;
  }
  if (line < text.size()) lines.push_back(text.substr(line));
  return lines.take();
}

std::int64_t count_parts(std::string_view text, std::string_view part) {
  if (part.empty()) return static_cast<std::int64_t>(text::count_characters(text)) + 1;
  std::int64_t count = 0;
  for (std::size_t at = find_bytes(text, part, 0); at != std::string::npos;
       at = find_bytes(text, part, at + part.size()))
    ++count;
  return count;
}

std::string replaced(Meter& meter, std::string_view text, std::string_view from, std::string_view to,
                     std::int64_t most) {
  std::int64_t count = count_parts(text, from);
  if (most >= 0) count = std::min(count, most);
  GrowingText result(meter);
  std::size_t copied = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    // An empty text is replaced before each character, and at the end.
    std::size_t at = copied;
    if (!from.empty()) {
      at = find_bytes(text, from, copied);
    } else if (i > 0) {
      at += text::character_bytes(text[copied]);
    }
    (result += text.substr(copied, at - copied)) += to;
    copied = at + from.size();
  }
  return (result += text.substr(copied)).take();
}

}  // namespace strata::chat
