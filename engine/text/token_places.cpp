#include "engine/text/token_places.h"

#include <algorithm>
#include <optional>
#include <utility>

namespace strata::text {
namespace {

bool is_space(char c) {
  return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}
bool continues_character(char c) {
  return (static_cast<unsigned char>(c) & 0xC0U) == 0x80;
}

/// What tokens make of a text besides spelling it.
struct Liberties {
  bool puts_in_space = false;  ///< in front of the first token that is read
  bool makes_spaces = false;   ///< of other whitespace
};

/// A text that tokens are read off, one after another.
class Reading {
 public:
  Reading(std::string_view text, std::size_t from, Liberties liberties)
      : text_(text), read_(from), liberties_(liberties) {}

  /// The token's characters; nothing if it is not what comes next. Whitespace that it leaves out is passed.
  std::optional<Range> take(std::string_view token) {
    const bool has_space_put_in = std::exchange(liberties_.puts_in_space, false) && token.starts_with(' ');
    if (has_space_put_in) token.remove_prefix(1);
    if (follows(token, read_)) return taken(read_, token.size());
    std::size_t behind = read_;
    while (behind < text_.size() && is_space(text_[behind])) ++behind;
    if (behind == read_) return std::nullopt;
    if (token.starts_with(' ')) token.remove_prefix(1);
    if (follows(token, behind)) return taken(behind, token.size());
    return std::nullopt;
  }

  std::size_t read() const { return read_; }

 private:
  bool follows(std::string_view token, std::size_t from) const {
    if (text_.size() - from < token.size()) return false;
    for (std::size_t i = 0; i < token.size(); ++i) {
      const char c = text_[from + i];
      if (c != token[i] && !(liberties_.makes_spaces && token[i] == ' ' && is_space(c))) return false;
    }
    return true;
  }

  Range taken(std::size_t from, std::size_t size) {
    read_ = from + size;
    Range place = {from, std::min(std::max(read_, from + 1), text_.size())};
    while (place.begin > 0 && place.begin < text_.size() && continues_character(text_[place.begin]))
      --place.begin;
    while (place.end < text_.size() && continues_character(text_[place.end])) ++place.end;
    return place;
  }

  std::string_view text_;
  std::size_t read_;
  Liberties liberties_;
};

/// The ids up to the first of an added token, and that one: what is between them is tokenized by itself.
std::span<const std::int32_t> first_section(const Tokenizer& tokenizer, std::span<const std::int32_t> ids) {
  const auto added = std::ranges::find_if(ids, [&](std::int32_t id) { return tokenizer.is_added(id); });
  return ids.first(static_cast<std::size_t>(added - ids.begin()) + (added == ids.end() ? 0 : 1));
}

}  // namespace

std::optional<std::vector<Range>> token_places(const Tokenizer& tokenizer, std::string_view text,
                                               std::span<const std::int32_t> ids) {
  std::vector<Range> places;
  std::size_t read = 0;
  const auto read_section = [&](std::span<const std::int32_t> section, Liberties liberties) {
    Reading reading(text, read, liberties);
    const std::size_t before = places.size();
    for (const std::int32_t id : section) {
      const std::optional<Range> place = reading.take(tokenizer.spelling(id));
      if (!place) {
        places.resize(before);
        return false;
      }
      places.push_back(*place);
    }
    read = reading.read();
    return true;
  };
  while (!ids.empty()) {
    const std::span<const std::int32_t> section = first_section(tokenizer, ids);
    const bool is_spelled = read_section(section, {}) || read_section(section, {.puts_in_space = true}) ||
                            read_section(section, {.makes_spaces = true}) ||
                            read_section(section, {.puts_in_space = true, .makes_spaces = true});
    if (!is_spelled) return std::nullopt;
    ids = ids.subspan(section.size());
  }
  return places;
}

Range tokens_of(std::span<const Range> places, const Range& bytes) {
  if (bytes.begin >= bytes.end) return {};
  const auto first_behind = [&](std::size_t byte) {
    return static_cast<std::size_t>(
        std::ranges::find_if(places, [&](const Range& place) { return place.end > byte; }) - places.begin());
  };
  const std::size_t last = first_behind(bytes.end - 1);
  const bool has_last = last < places.size() && places[last].begin < bytes.end;
  return {first_behind(bytes.begin), has_last ? last + 1 : last};
}

std::optional<Range> tokens_by_beginnings(const Tokenizer& tokenizer, std::string_view text,
                                          std::span<const std::int32_t> ids, const Range& bytes) {
  const auto tokens_before = [&](std::size_t end) -> std::optional<std::size_t> {
    std::vector<std::int32_t> beginning;
    tokenizer.encode(text.substr(0, end), beginning, AddSpecial::no);
    if (beginning.size() > ids.size() || !std::ranges::equal(beginning, ids.first(beginning.size())))
      return std::nullopt;
    return beginning.size();
  };
  const std::optional<std::size_t> begin = tokens_before(bytes.begin), end = tokens_before(bytes.end);
  if (!begin || !end) return std::nullopt;
  return Range{*begin, *end};
}

}  // namespace strata::text
