#include "engine/input/text/token_places.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "base/nth.h"

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

/// What the tokens of a text spell, where a normalizer has changed it, and where borders of the text are in
/// that: behind what the tokens of the text before the border spell.
class ChangedText {
 public:
  ChangedText(const Tokenizer& tokenizer, std::string_view text, std::span<const std::int32_t> ids)
      : tokenizer_(tokenizer), text_(text) {
    const std::vector<std::size_t> begins = tokenizer.section_begins(text);
    std::vector<std::int32_t> joined;
    for (std::size_t i = 0; i < begins.size(); ++i) {
      const std::size_t end = i + 1 < begins.size() ? begins[i + 1] : text.size();
      const std::vector<std::int32_t> own = ids_of({begins[i], end});
      joined.insert(joined.end(), own.begin(), own.end());
      sections_.push_back({{begins[i], end}, add_tokens(own)});
    }
    if (std::ranges::equal(joined, ids)) return;
    // Something looks beyond its section.
    spelled_.clear();
    places_.clear();
    sections_ = {{{0, text.size()}, add_tokens(ids)}};
  }

  /// In what the tokens spell.
  std::span<const Range> places() const { return places_; }

  /// The stretch in what the tokens spell, with whole characters of it; nothing if that cannot be told.
  std::optional<Range> place_of(const Range& bytes) const {
    if (bytes.begin >= bytes.end) return Range{};
    const auto begin = border(bytes.begin, Outward::left), end = border(bytes.end, Outward::right);
    if (!begin || !end) return std::nullopt;
    return Range{*begin, *end};
  }

 private:
  enum class Outward : std::uint8_t { left, right };
  /// A normalizer knows nothing of the text around it.
  struct Section {
    Range bytes, spelled;
  };

  std::vector<std::int32_t> ids_of(const Range& bytes) const {
    std::vector<std::int32_t> ids;
    tokenizer_.encode(text_.substr(bytes.begin, bytes.end - bytes.begin), ids, AddSpecial::no);
    return ids;
  }

  Range add_tokens(std::span<const std::int32_t> ids) {
    const std::size_t begin = spelled_.size();
    for (const std::int32_t id : ids) {
      const std::size_t from = spelled_.size();
      spelled_ += tokenizer_.spelling(id);
      places_.push_back({from, spelled_.size()});
    }
    return {begin, spelled_.size()};
  }

  /// A border within characters that a normalizer makes one of is moved to where these begin or end.
  std::optional<std::size_t> border(std::size_t byte, Outward outward) const {
    constexpr int kMostCharacters = 32;  // that a normalizer makes one of, or that spell one word
    const auto behind = std::ranges::partition_point(
        sections_, [&](const Section& section) { return section.bytes.begin <= byte; });
    const Section& section = *(behind - 1);
    const std::string_view spelled =
        std::string_view(spelled_).substr(section.spelled.begin, section.spelled.end - section.spelled.begin);
    for (int moves = 0; moves <= kMostCharacters; ++moves) {
      if (byte >= section.bytes.end) return section.spelled.end;
      std::string before;
      for (const std::int32_t id : ids_of({section.bytes.begin, byte})) before += tokenizer_.spelling(id);
      if (spelled.starts_with(before)) return section.spelled.begin + before.size();
      do outward == Outward::left ? --byte : ++byte;
      while (byte < section.bytes.end && continues_character(text_[byte]));
    }
    return std::nullopt;
  }

  const Tokenizer& tokenizer_;
  std::string_view text_;
  std::string spelled_;
  std::vector<Range> places_;
  std::vector<Section> sections_;
};

/// The ids up to the first of an added token, and that one: what is between them is tokenized by itself.
std::span<const std::int32_t> first_section(const Tokenizer& tokenizer, std::span<const std::int32_t> ids) {
  const auto added = std::ranges::find_if(ids, [&](std::int32_t id) { return tokenizer.is_added(id); });
  return ids.first(index_of(ids, added) + (added == ids.end() ? 0 : 1));
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
  // Places begin and end in the order of the tokens.
  const auto first =
      std::ranges::partition_point(places, [&](const Range& place) { return place.end <= bytes.begin; });
  const auto last =
      std::ranges::partition_point(places, [&](const Range& place) { return place.begin < bytes.end; });
  const auto begin = index_of(places, first);
  return {begin, std::max(begin, index_of(places, last))};
}

std::optional<std::vector<Range>> tokens_of_stretches(const Tokenizer& tokenizer, std::string_view text,
                                                      std::span<const std::int32_t> ids,
                                                      std::span<const Range> stretches) {
  std::vector<Range> tokens;
  if (const auto places = token_places(tokenizer, text, ids)) {
    for (const Range& stretch : stretches) tokens.push_back(tokens_of(*places, stretch));
    return tokens;
  }
  const ChangedText changed(tokenizer, text, ids);
  for (const Range& stretch : stretches) {
    const std::optional<Range> place = changed.place_of(stretch);
    if (!place) return std::nullopt;
    tokens.push_back(tokens_of(changed.places(), *place));
  }
  return tokens;
}

}  // namespace strata::text
