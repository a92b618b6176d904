#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "engine/input/chat/methods.h"
#include "engine/input/chat/operators.h"
#include "engine/input/chat/problem.h"
#include "engine/input/chat/text_operations.h"
#include "engine/input/text/letter_case.h"
#include "engine/input/text/utf8.h"

namespace strata::chat {
namespace {

/// text[start:end] of a method's last arguments, as bytes.
ByteRange searched(const Parameters& given, std::string_view text) {
  const auto bound = [&](std::size_t parameter, std::int64_t otherwise) {
    return given.some(parameter) == nullptr ? otherwise : given.integer(parameter, otherwise);
  };
  return byte_range(text, bound(1, 0), bound(2, std::numeric_limits<std::int64_t>::max()));
}

bool is_one_of_its_ends(std::string_view text, const std::string& part, Side side) {
  return side == Side::left ? text.starts_with(part) : text.ends_with(part);
}

template <Side side>
Value has_end_method(Runtime&, const std::string& text, const Arguments& arguments) {
  const Parameters given("startswith", arguments, {"prefix", "start", "end"}, 1);
  const ByteRange range = searched(given, text);
  const Sequence* several = given[0]->sequence();
  if (several == nullptr) {
    const std::string& part = given.text(0);
    return range.begin != std::string::npos &&
           is_one_of_its_ends(std::string_view(text).substr(range.begin, range.end - range.begin), part,
                              side);
  }
  if (several->kind != SequenceKind::tuple)
    throw Problem("startswith and endswith need a text or a tuple of texts");
  return std::ranges::any_of(several->items, [&](const Value& part) {
    if (!part.is_text()) throw Problem("startswith and endswith need a tuple of texts");
    return range.begin != std::string::npos &&
           is_one_of_its_ends(std::string_view(text).substr(range.begin, range.end - range.begin),
                              *part.text(), side);
  });
}

template <Side side, bool must_be_there>
Value find_method(Runtime&, const std::string& text, const Arguments& arguments) {
  const Parameters given("find", arguments, {"sub", "start", "end"}, 1);
  const std::string& part = given.text(0);
  const ByteRange range = searched(given, text);
  std::size_t at = std::string::npos;
  if (range.begin != std::string::npos) {
    const std::string_view whole = std::string_view(text).substr(0, range.end);
    at = side == Side::left ? find_bytes(whole, part, range.begin)
                            : BackwardSearch(whole, part).find(whole.size());
    if (at != std::string::npos && at < range.begin) at = std::string::npos;
  }
  if (at != std::string::npos) return text::count_characters(std::string_view(text).substr(0, at));
  if (must_be_there) throw Problem("substring not found");
  return -1;
}

Value count_method(Runtime&, const std::string& text, const Arguments& arguments) {
  const Parameters given("count", arguments, {"sub", "start", "end"}, 1);
  const std::string& part = given.text(0);
  const ByteRange range = searched(given, text);
  if (range.begin == std::string::npos) return 0;
  return count_parts(std::string_view(text).substr(range.begin, range.end - range.begin), part);
}

bool is_letter_or_number(char32_t c) {
  return text::is_letter(c) || text::has_number(c);
}

bool is_ascii_character(char32_t c) {
  return c < 0x80;
}

using CharacterProperty = bool (*)(char32_t);
/// Whether there are characters and all have the property.
template <CharacterProperty property, bool of_empty = false>
Value all_method(Runtime&, const std::string& text, const Arguments& arguments) {
  const Parameters none("is", arguments, {});
  bool holds = of_empty || !text.empty();
  text::for_each_character(text, [&](char32_t c, std::size_t, std::size_t) { holds = holds && property(c); });
  return holds;
}

/// Whether there are letters of the case, and none of another.
template <CharacterProperty wanted, CharacterProperty other>
Value is_case_method(Runtime&, const std::string& text, const Arguments& arguments) {
  const Parameters none("is", arguments, {});
  bool has_some = false, has_others = false;
  text::for_each_character(text, [&](char32_t c, std::size_t, std::size_t) {
    has_some |= wanted(c);
    has_others |= other(c) || text::is_title_case(c);
  });
  return has_some && !has_others;
}

Value is_title_method(Runtime&, const std::string& text, const Arguments& arguments) {
  const Parameters none("istitle", arguments, {});
  bool has_some = false, holds = true, is_within = false;
  text::for_each_character(text, [&](char32_t c, std::size_t, std::size_t) {
    const bool begins = text::is_upper_case(c) || text::is_title_case(c), goes_on = text::is_lower_case(c);
    holds = holds && !(begins && is_within) && !(goes_on && !is_within);
    is_within = begins || goes_on;
    has_some |= is_within;
  });
  return holds && has_some;
}

}  // namespace

const TextMethodTable& asking_text_methods() {
  static const TextMethodTable table{
      {"startswith", has_end_method<Side::left>},
      {"endswith", has_end_method<Side::right>},
      {"find", find_method<Side::left, false>},
      {"rfind", find_method<Side::right, false>},
      {"index", find_method<Side::left, true>},
      {"rindex", find_method<Side::right, true>},
      {"count", count_method},
      {"isspace", all_method<is_python_space>},
      {"isalpha", all_method<text::is_letter>},
      {"isdigit", all_method<text::is_digit>},
      {"isdecimal", all_method<text::is_decimal_digit>},
      {"isnumeric", all_method<text::has_number>},
      {"isalnum", all_method<is_letter_or_number>},
      {"isascii", all_method<is_ascii_character, true>},
      {"isprintable", all_method<text::is_printable, true>},
      {"islower", is_case_method<text::is_lower_case, text::is_upper_case>},
      {"isupper", is_case_method<text::is_upper_case, text::is_lower_case>},
      {"istitle", is_title_method},
      {"isidentifier", nullptr},
  };
  return table;
}

}  // namespace strata::chat
