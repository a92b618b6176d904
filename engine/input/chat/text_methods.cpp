// The methods of Python's str.
#include <algorithm>
#include <limits>

#include <fmt/format.h>

#include "engine/input/chat/builtins.h"
#include "engine/input/chat/format_text.h"
#include "engine/input/chat/growing.h"
#include "engine/input/chat/operators.h"
#include "engine/input/chat/problem.h"
#include "engine/input/chat/text_operations.h"
#include "engine/input/text/letter_case.h"
#include "engine/input/text/utf8.h"

namespace strata::chat {
namespace {

template <Side side>
Value strip_method(Runtime&, const std::string& text, const Arguments& arguments) {
  const Parameters given("strip", arguments, {"chars"});
  return stripped(text, given.some(0) == nullptr ? nullptr : &given.text(0), side);
}

template <std::string (*change)(std::string_view)>
Value case_method(Runtime&, const std::string& text, const Arguments& arguments) {
  const Parameters none("case", arguments, {});
  return change(text);
}

char ascii_with_other_case(char c) {
  const bool is_letter = ('a' <= c && c <= 'z') || ('A' <= c && c <= 'Z');
  return is_letter ? static_cast<char>(c ^ 0x20) : c;
}

Value swap_case_method(Runtime&, const std::string& text, const Arguments& arguments) {
  const Parameters none("swapcase", arguments, {});
  std::string swapped;
  text::for_each_character(text, [&](char32_t c, std::size_t begin, std::size_t end) {
    const std::string_view character = std::string_view(text).substr(begin, end - begin);
    if (c < 0x80) {
      swapped += ascii_with_other_case(static_cast<char>(c));
      return;
    }
    swapped += text::is_upper_case(c)   ? text::lower_case(character)
               : text::is_lower_case(c) ? text::upper_case(character)
                                        : std::string(character);
  });
  return swapped;
}

Value replace_method(Runtime& runtime, const std::string& text, const Arguments& arguments) {
  const Parameters given("replace", arguments, {"old", "new", "count"}, 2);
  return replaced(runtime.meter(), text, given.text(0), given.text(1), given.integer(2, -1));
}

Value remove_prefix_method(Runtime&, const std::string& text, const Arguments& arguments) {
  const Parameters given("removeprefix", arguments, {"prefix"}, 1);
  return text.starts_with(given.text(0)) ? text.substr(given.text(0).size()) : text;
}

Value remove_suffix_method(Runtime&, const std::string& text, const Arguments& arguments) {
  const Parameters given("removesuffix", arguments, {"suffix"}, 1);
  return text.ends_with(given.text(0)) ? text.substr(0, text.size() - given.text(0).size()) : text;
}

using Pad = std::string (*)(Meter&, std::string_view, std::int64_t, std::string_view);
template <Pad pad>
Value pad_method(Runtime& runtime, const std::string& text, const Arguments& arguments) {
  const Parameters given("padding", arguments, {"width", "fillchar"}, 1);
  return pad(runtime.meter(), text, given.integer(0, 0), given[1] == nullptr ? " " : given.text(1));
}

Value zero_fill_method(Runtime& runtime, const std::string& text, const Arguments& arguments) {
  const Parameters given("zfill", arguments, {"width"}, 1);
  const std::size_t sign = text.starts_with('+') || text.starts_with('-') ? 1 : 0;
  const std::int64_t width = given.integer(0, 0) - static_cast<std::int64_t>(sign);
  return text.substr(0, sign) + padded_left(runtime.meter(), std::string_view(text).substr(sign), width, "0");
}

Value join_method(Runtime& runtime, const std::string& text, const Arguments& arguments) {
  const Parameters given("join", arguments, {"iterable"}, 1);
  GrowingText joined(runtime.meter());
  Walk walk(runtime, *given[0]);
  std::int64_t count = 0;
  for (Value item; walk.next(item); ++count) {
    if (!item.is_text())
      throw Problem(fmt::format("sequence item {}: expected str instance, {} found", count, type_name(item)));
    if (count > 0) joined += text;
    joined += *item.text();
  }
  return joined.take();
}

Value format_method(Runtime& runtime, const std::string& text, const Arguments& arguments) {
  return brace_formatted(runtime, text, arguments);
}

Value list_of_parts(const std::vector<std::string_view>& parts) {
  std::vector<Value> values(parts.begin(), parts.end());
  return list(std::move(values));
}

template <Side side>
Value split_method(Runtime& runtime, const std::string& text, const Arguments& arguments) {
  const Parameters given("split", arguments, {"sep", "maxsplit"});
  const std::int64_t most = given.integer(1, -1);
  if (given.some(0) == nullptr) return list_of_parts(split_at_space(runtime.meter(), text, most, side));
  const std::string& separator = given.text(0);
  if (separator.empty()) throw Problem("empty separator");
  return list_of_parts(split_at(runtime.meter(), text, separator, most, side));
}

Value split_lines_method(Runtime& runtime, const std::string& text, const Arguments& arguments) {
  const Parameters given("splitlines", arguments, {"keepends"});
  return list_of_parts(split_lines(runtime.meter(), text, given.flag(0, false)));
}

template <Side side>
Value partition_method(Runtime& runtime, const std::string& text, const Arguments& arguments) {
  const Parameters given("partition", arguments, {"sep"}, 1);
  const std::string& separator = given.text(0);
  if (separator.empty()) throw Problem("empty separator");
  const auto parts = split_at(runtime.meter(), text, separator, 1, side);
  if (parts.size() == 2) return tuple({parts[0], separator, parts[1]});
  return side == Side::left ? tuple({text, "", ""}) : tuple({"", "", text});
}

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

const TextMethodTable& changing_text_methods() {
  static const TextMethodTable table{
      {"strip", strip_method<Side::both>},
      {"lstrip", strip_method<Side::left>},
      {"rstrip", strip_method<Side::right>},
      {"lower", case_method<text::lower_case>},
      {"upper", case_method<text::upper_case>},
      {"title", case_method<text::title_case>},
      {"capitalize", case_method<text::capitalized>},
      {"swapcase", swap_case_method},
      {"replace", replace_method},
      {"removeprefix", remove_prefix_method},
      {"removesuffix", remove_suffix_method},
      {"center", pad_method<centered>},
      {"ljust", pad_method<padded_right>},
      {"rjust", pad_method<padded_left>},
      {"zfill", zero_fill_method},
      {"join", join_method},
      {"format", format_method},
      {"casefold", nullptr},
      {"encode", nullptr},
      {"expandtabs", nullptr},
      {"format_map", nullptr},
      {"maketrans", nullptr},
      {"translate", nullptr},
  };
  return table;
}

const TextMethodTable& splitting_text_methods() {
  static const TextMethodTable table{
      {"split", split_method<Side::left>},
      {"rsplit", split_method<Side::right>},
      {"splitlines", split_lines_method},
      {"partition", partition_method<Side::left>},
      {"rpartition", partition_method<Side::right>},
  };
  return table;
}

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
