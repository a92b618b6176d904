#include <fmt/format.h>

#include "engine/input/chat/format_text.h"
#include "engine/input/chat/growing.h"
#include "engine/input/chat/methods.h"
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

}  // namespace strata::chat
