// Filters of single values, and how filters are found.
#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>

#include <fmt/format.h>

#include "engine/input/chat/builtins.h"
#include "engine/input/chat/operators.h"
#include "engine/input/chat/problem.h"
#include "engine/input/chat/text_operations.h"

namespace strata::chat {
namespace {

Value default_filter(Runtime&, const Value& value, const Arguments& arguments) {
  const Parameters given("default", arguments, {"default_value", "boolean"});
  if (!value.is_undefined() && (is_true(value) || !given.flag(1, false))) return value;
  return given[0] == nullptr ? Value("") : *given[0];
}

/// The digits of a Python number, which underscores may separate; nothing if they stand elsewhere.
std::optional<std::string> without_underscores(std::string_view text) {
  std::string digits;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '_') {
      digits += text[i];
      continue;
    }
    const auto is_digit = [&](std::size_t at) {
      return at < text.size() && std::isalnum(static_cast<unsigned char>(text[at])) != 0;
    };
    if (i == 0 || !is_digit(i - 1) || !is_digit(i + 1)) return std::nullopt;
  }
  return digits;
}

/// int(text, base), or nothing where Python raises ValueError.
std::optional<std::int64_t> parsed_integer(std::string_view text, int base) {
  text = stripped(text, nullptr, Side::both);
  const bool is_negative = text.starts_with('-');
  if (is_negative || text.starts_with('+')) text.remove_prefix(1);
  const auto has_prefix = [&](char letter) {
    return text.size() > 2 && text[0] == '0' && (text[1] | 0x20) == letter;
  };
  for (const auto& [letter, its_base] : {std::pair('x', 16), {'o', 8}, {'b', 2}}) {
    if (!has_prefix(letter) || (base != its_base && base != 0)) continue;
    text.remove_prefix(text[2] == '_' ? 3 : 2);
    base = its_base;
    break;
  }
  if (base == 0) base = 10;
  const auto digits = without_underscores(text);
  if (!digits || digits->empty() || !std::isalnum(static_cast<unsigned char>((*digits)[0])))
    return std::nullopt;
  const std::string signed_digits = (is_negative ? "-" : "") + *digits;
  std::int64_t number = 0;
  const char* end = signed_digits.data() + signed_digits.size();
  const auto read = std::from_chars(signed_digits.data(), end, number, base);
  if (read.ptr != end) return std::nullopt;
  if (read.ec == std::errc::result_out_of_range)
    throw Problem("the number is too large: whole numbers have 64 bits here");
  return number;
}

/// float(text), or nothing where Python raises ValueError.
std::optional<double> parsed_real(std::string_view text) {
  const auto digits = without_underscores(stripped(text, nullptr, Side::both));
  if (!digits || digits->empty()) return std::nullopt;
  const bool is_signed = (*digits)[0] == '+' || (*digits)[0] == '-';
  const std::string_view number = std::string_view(*digits).substr(is_signed ? 1 : 0);
  double real = 0;
  const auto read = std::from_chars(number.data(), number.data() + number.size(), real);
  if (number.empty() || number[0] == '-' || number.find('(') != std::string_view::npos) return std::nullopt;
  if (read.ptr != number.data() + number.size()) return std::nullopt;
  if (read.ec == std::errc::result_out_of_range) real = std::strtod(std::string(number).c_str(), nullptr);
  return (*digits)[0] == '-' ? -real : real;
}

std::int64_t truncated(double real) {
  if (std::abs(real) >= 9.2e18) throw Problem("the number is too large: whole numbers have 64 bits here");
  return static_cast<std::int64_t>(real);
}

Value int_filter(Runtime&, const Value& value, const Arguments& arguments) {
  const Parameters given("int", arguments, {"default", "base"});
  check_defined(value);
  const auto otherwise = [&given]() -> Value { return given[0] == nullptr ? Value(0) : *given[0]; };
  if (const auto whole = value.integer()) return *whole;
  std::optional<double> real;
  if (value.real() != nullptr) real = *value.real();
  if (const std::string* text = value.text()) {
    const std::int64_t base = given.integer(1, 10);
    if (base < 0 || base > 36 || base == 1) return otherwise();
    if (const auto whole = parsed_integer(*text, static_cast<int>(base))) return *whole;
    real = parsed_real(*text);
  }
  return real && std::isfinite(*real) ? Value(truncated(*real)) : otherwise();
}

Value float_filter(Runtime&, const Value& value, const Arguments& arguments) {
  const Parameters given("float", arguments, {"default"});
  check_defined(value);
  if (const double* real = value.real()) return *real;
  if (const auto whole = value.integer()) return static_cast<double>(*whole);
  const auto parsed = !value.is_text() ? std::nullopt : parsed_real(*value.text());
  if (parsed) return *parsed;
  return given[0] == nullptr ? Value(0.0) : *given[0];
}

Value round_filter(Runtime&, const Value& value, const Arguments& arguments) {
  const Parameters given("round", arguments, {"precision", "method"});
  const std::string method = given[1] == nullptr ? "common" : given.text(1);
  const std::int64_t precision = given.integer(0, 0);
  if (method != "common" && method != "ceil" && method != "floor")
    throw Problem("method must be common, ceil or floor");
  if (!value.is_number()) {
    check_defined(value);
    throw Problem(fmt::format("'round' needs a number, not '{}'", type_name(value)));
  }
  if (precision < 0 || precision > 300) throw Problem("rounding to this precision is not supported");
  if (method == "common" && value.integer()) return *value.integer();
  const double number = value.real() != nullptr ? *value.real() : static_cast<double>(*value.integer());
  // The nearest decimal number, and the even one of two, as printing has it.
  if (method == "common")
    return std::isfinite(number) ? std::strtod(fmt::format("{:.{}f}", number, precision).c_str(), nullptr)
                                 : number;
  const double scale = std::pow(10.0, static_cast<double>(precision));
  const double whole = method == "ceil" ? std::ceil(number * scale) : std::floor(number * scale);
  return whole / scale;
}

Value abs_filter(Runtime&, const Value& value, const Arguments& arguments) {
  const Parameters none("abs", arguments, {});
  if (const double* real = value.real()) return std::abs(*real);
  const auto whole = value.integer();
  if (whole) return *whole < 0 ? negative(value) : Value(*whole);
  check_defined(value);
  throw Problem(fmt::format("bad operand type for abs(): '{}'", type_name(value)));
}

}  // namespace

Filter find_filter(std::string_view name) {
  for (const FilterTable* table :
       {&text_filters(), &value_filters(), &sequence_filters(), &element_filters(), &order_filters()}) {
    const auto found = table->find(name);
    if (found != table->end()) return found->second;
  }
  return nullptr;
}

Value attribute_by_path(Runtime& runtime, const Value& value, const Value& path) {
  if (path.is_none()) return value;
  if (!path.is_text()) return runtime.item(value, path);
  Value part = value;
  for (const std::string_view name : split_at(runtime.meter(), *path.text(), ".", -1, Side::left)) {
    std::int64_t index = 0;
    const auto read = std::from_chars(name.data(), name.data() + name.size(), index);
    const bool is_index = std::ranges::all_of(name, [](char c) { return '0' <= c && c <= '9'; }) &&
                          !name.empty() && read.ec == std::errc();
    part = runtime.item(part, is_index ? Value(index) : Value(name));
  }
  return part;
}

const FilterTable& value_filters() {
  static const FilterTable table{
      {"default", default_filter}, {"d", default_filter},   {"int", int_filter},
      {"float", float_filter},     {"round", round_filter}, {"abs", abs_filter},
  };
  return table;
}

}  // namespace strata::chat
