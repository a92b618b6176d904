#include "engine/input/chat/format_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>

#include "engine/input/chat/growing.h"
#include "engine/input/chat/operators.h"
#include "engine/input/chat/problem.h"
#include "engine/input/chat/python_text.h"
#include "engine/input/chat/text_operations.h"
#include "engine/input/text/utf8.h"

namespace strata::chat {
namespace {

constexpr std::int64_t kMostDigits = 1000;  // as a width or a precision

/// What stands between "%" and the letter of a conversion.
struct Conversion {
  bool left = false, sign = false, space = false, zero = false, alternate = false;
  std::int64_t width = 0, precision = -1;
  char letter = 's';
};

std::string fill_text(Meter& meter, std::string_view fill, std::int64_t count) {
  if (text::count_characters(fill) != 1)
    throw Problem("The fill character must be exactly one character long");
  count = std::max(count, std::int64_t{0});
  return GrowingText(meter).append(count, fill).take();
}

std::int64_t missing_width(std::string_view text, std::int64_t width) {
  return width - static_cast<std::int64_t>(text::count_characters(text));
}

/// Gives the values of a "%" one after the other, or by name.
class FormatValues {
 public:
  explicit FormatValues(const Value& values) : values_(values) {}

  const Value& next() {
    const Sequence* sequence = tuple();
    if (sequence == nullptr ? used_ > 0 : used_ == sequence->items.size())
      throw Problem("not enough arguments for format string");
    return sequence == nullptr ? (++used_, values_) : sequence->items[used_++];
  }

  const Value& named(std::string_view name) {
    if (values_.dict() == nullptr) throw Problem("format requires a mapping");
    const Value* found = values_.dict()->find(name);
    if (found == nullptr) throw Problem(fmt::format("the format's dict has no key '{}'", name));
    return *found;
  }

  void check_all_used() const {
    // To Python's formatting whatever has elements is a dict, which may have more than is asked for.
    const bool has_elements =
        values_.dict() != nullptr || values_.sequence() != nullptr || values_.is_undefined();
    const bool all_used = tuple() == nullptr ? used_ > 0 || has_elements : used_ == tuple()->items.size();
    if (!all_used) throw Problem("not all arguments converted during string formatting");
  }

 private:
  const Sequence* tuple() const {
    const Sequence* sequence = values_.sequence();
    return sequence != nullptr && sequence->kind == SequenceKind::tuple ? sequence : nullptr;
  }

  const Value& values_;
  std::size_t used_ = 0;
};

/// Reads digits, or the next value for "*".
std::int64_t read_number(std::string_view format, std::size_t& at, FormatValues& values) {
  if (at < format.size() && format[at] == '*') {
    ++at;
    const auto number = values.next().integer();
    if (!number || *number > kMostDigits || *number < -kMostDigits)
      throw Problem("this width is not supported");
    return *number;
  }
  std::int64_t number = 0;
  for (; at < format.size() && '0' <= format[at] && format[at] <= '9'; ++at) {
    number = number * 10 + (format[at] - '0');
    if (number > kMostDigits) throw Problem("a width of more than 1000 is not supported");
  }
  return number;
}

Conversion read_conversion(std::string_view format, std::size_t& at, FormatValues& values) {
  Conversion conversion;
  for (; at < format.size(); ++at) {
    if (format[at] == '-')
      conversion.left = true;
    else if (format[at] == '+')
      conversion.sign = true;
    else if (format[at] == ' ')
      conversion.space = true;
    else if (format[at] == '0')
      conversion.zero = true;
    else if (format[at] == '#')
      conversion.alternate = true;
    else
      break;
  }
  conversion.width = read_number(format, at, values);
  if (conversion.width < 0) {
    conversion.left = true;
    conversion.width = -conversion.width;
  }
  if (at < format.size() && format[at] == '.') {
    ++at;
    conversion.precision = std::max(read_number(format, at, values), std::int64_t{0});
  }
  if (at == format.size()) throw Problem("incomplete format");
  conversion.letter = format[at++];
  return conversion;
}

std::string with_sign(bool is_negative, const Conversion& conversion, std::string_view prefix,
                      const std::string& digits) {
  const std::string sign = is_negative ? "-" : conversion.sign ? "+" : conversion.space ? " " : "";
  std::string before = sign + std::string(prefix);
  const std::int64_t missing = missing_width(before + digits, conversion.width);
  if (conversion.zero && !conversion.left && missing > 0)
    before.append(static_cast<std::size_t>(missing), '0');
  return before + digits;
}

std::string whole_number_text(const Value& value, const Conversion& conversion) {
  auto number = value.integer();
  if (const double* real = value.real();
      real != nullptr && std::abs(*real) < 9e18 && conversion.letter == 'd')
    number = static_cast<std::int64_t>(*real);
  if (!number) {
    check_defined(value);
    throw Problem(
        fmt::format("%{} format: a number is required, not {}", conversion.letter, type_name(value)));
  }
  const auto magnitude =
      *number < 0 ? 0 - static_cast<std::uint64_t>(*number) : static_cast<std::uint64_t>(*number);
  std::string digits, prefix;
  switch (conversion.letter) {
    case 'x':
      digits = fmt::format("{:x}", magnitude), prefix = "0x";
      break;
    case 'X':
      digits = fmt::format("{:X}", magnitude), prefix = "0X";
      break;
    case 'o':
      digits = fmt::format("{:o}", magnitude), prefix = "0o";
      break;
    default:
      digits = std::to_string(magnitude);
      break;
  }
  if (conversion.precision > std::ssize(digits))
    digits.insert(0, static_cast<std::size_t>(conversion.precision) - digits.size(), '0');
  return with_sign(*number < 0, conversion, conversion.alternate ? prefix : "", digits);
}

std::string real_number_text(const Value& value, const Conversion& conversion) {
  if (!value.is_number()) {
    check_defined(value);
    throw Problem(fmt::format("must be real number, not {}", type_name(value)));
  }
  const double number = value.real() != nullptr ? *value.real() : static_cast<double>(*value.integer());
  const int precision = conversion.precision < 0 ? 6 : static_cast<int>(conversion.precision);
  const double magnitude = std::abs(number);
  const std::string digits = conversion.letter == 'f'   ? fmt::format("{:.{}f}", magnitude, precision)
                             : conversion.letter == 'e' ? fmt::format("{:.{}e}", magnitude, precision)
                                                        : fmt::format("{:.{}g}", magnitude, precision);
  return with_sign(std::signbit(number), conversion, "", digits);
}

std::string converted(Runtime& runtime, const Value& value, const Conversion& conversion) {
  std::string text;
  switch (conversion.letter) {
    case 's':
    case 'r':
      text = conversion.letter == 's' ? printed(runtime, value) : repr(runtime, value);
      if (conversion.precision >= 0) text = *slice(text, {}, conversion.precision, {}).text();
      break;
    case 'd':
    case 'i':
    case 'x':
    case 'X':
    case 'o':
      text = whole_number_text(value, conversion);
      break;
    case 'f':
    case 'e':
    case 'g':
      text = real_number_text(value, conversion);
      break;
    default:
      throw Problem(fmt::format("the conversion '%{}' is not supported", conversion.letter));
  }
  return conversion.left ? padded_right(runtime.meter(), text, conversion.width, " ")
                         : padded_left(runtime.meter(), text, conversion.width, " ");
}

std::string brace_value(Runtime& runtime, std::string_view field, const Arguments& arguments,
                        std::size_t& automatic) {
  const std::size_t mark = field.find('!');
  const std::string_view conversion = mark == std::string_view::npos ? "" : field.substr(mark);
  const std::string_view name = field.substr(0, mark);
  if (name.find_first_of(".[:{") != std::string_view::npos ||
      (!conversion.empty() && conversion != "!r" && conversion != "!s"))
    throw Problem(fmt::format("'{{{}}}' in a format is not supported", field));
  const Value* value = arguments.find(name);
  std::size_t place = 0;
  const auto read = std::from_chars(name.data(), name.data() + name.size(), place);
  if (name.empty()) place = automatic++;
  if (name.empty() || (read.ec == std::errc() && read.ptr == name.data() + name.size()))
    value = place < arguments.positional.size() ? &arguments.positional[place] : nullptr;
  if (value == nullptr) throw Problem(fmt::format("the format's '{{{}}}' has no argument", field));
  return conversion == "!r" ? repr(runtime, *value) : printed(runtime, *value);
}

}  // namespace

std::string percent_formatted(Runtime& runtime, std::string_view format, const Value& values) {
  FormatValues given(values);
  GrowingText out(runtime.meter());
  for (std::size_t at = 0; at < format.size();) {
    const std::size_t percent = std::min(format.find('%', at), format.size());
    out += format.substr(at, percent - at);
    at = percent + 1;
    if (percent == format.size()) break;
    if (at < format.size() && format[at] == '%') {
      out += format[at++];
      continue;
    }
    const Value* value = nullptr;
    if (at < format.size() && format[at] == '(') {
      const std::size_t end = format.find(')', at);
      if (end == std::string_view::npos) throw Problem("incomplete format key");
      value = &given.named(format.substr(at + 1, end - at - 1));
      at = end + 1;
    }
    const Conversion conversion = read_conversion(format, at, given);
    out += converted(runtime, value != nullptr ? *value : given.next(), conversion);
  }
  given.check_all_used();
  return out.take();
}

std::string brace_formatted(Runtime& runtime, std::string_view format, const Arguments& arguments) {
  GrowingText out(runtime.meter());
  std::size_t automatic = 0;
  for (std::size_t at = 0; at < format.size(); ++at) {
    const char c = format[at];
    if (c != '{' && c != '}') {
      out += c;
      continue;
    }
    if (at + 1 < format.size() && format[at + 1] == c) {
      out += format[at++];
      continue;
    }
    const std::size_t end = format.find('}', at);
    if (c == '}' || end == std::string_view::npos) throw Problem("a format has a single brace");
    out += brace_value(runtime, format.substr(at + 1, end - at - 1), arguments, automatic);
    at = end;
  }
  return out.take();
}

std::string centered(Meter& meter, std::string_view text, std::int64_t width, std::string_view fill) {
  const std::int64_t missing = missing_width(text, width);
  if (missing <= 0) return std::string(text);
  // Where the odd one goes, as Python has it.
  const std::int64_t left = missing / 2 + (missing & width & 1);
  return fill_text(meter, fill, left).append(text) + fill_text(meter, fill, missing - left);
}

std::string padded_left(Meter& meter, std::string_view text, std::int64_t width, std::string_view fill) {
  return fill_text(meter, fill, missing_width(text, width)).append(text);
}

std::string padded_right(Meter& meter, std::string_view text, std::int64_t width, std::string_view fill) {
  return std::string(text) + fill_text(meter, fill, missing_width(text, width));
}

}  // namespace strata::chat
