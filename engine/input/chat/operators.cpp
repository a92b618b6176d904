#include "engine/input/chat/operators.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include <fmt/format.h>

#include "base/nth.h"
#include "engine/input/chat/growing.h"
#include "engine/input/chat/markup.h"
#include "engine/input/chat/object.h"
#include "engine/input/chat/problem.h"
#include "engine/input/chat/text_operations.h"
#include "engine/input/text/utf8.h"

namespace strata::chat {
namespace {

/// Exact for all whole numbers of 64 bits, which a long double of 64 bits' precision holds.
std::optional<long double> exact_number(const Value& value) {
  if (const auto whole = value.integer()) return static_cast<long double>(*whole);
  if (const double* real = value.real()) return static_cast<long double>(*real);
  return std::nullopt;
}

bool is_ordered_sequence(const Value& value) {
  return value.sequence() != nullptr &&
         (value.sequence()->kind == SequenceKind::list || value.sequence()->kind == SequenceKind::tuple);
}

bool equal_sequences(Meter& meter, const Sequence& left, const Sequence& right) {
  if (left.kind != right.kind || left.items.size() != right.items.size()) return false;
  for (std::size_t i = 0; i < left.items.size(); ++i) {
    if (!equal(meter, left.items[i], right.items[i])) return false;
  }
  return true;
}

bool equal_dicts(Meter& meter, const Dict& left, const Dict& right) {
  if (left.entries.size() != right.entries.size()) return false;
  for (const auto& [key, value] : left.entries) {
    const Value* other = right.find(key);
    if (other == nullptr || !equal(meter, value, *other)) return false;
  }
  return true;
}

std::partial_ordering order_sequences(Meter& meter, const Sequence& left, const Sequence& right,
                                      std::string_view symbol) {
  const std::size_t both = std::min(left.items.size(), right.items.size());
  for (std::size_t i = 0; i < both; ++i) {
    if (!equal(meter, left.items[i], right.items[i]))
      return order(meter, left.items[i], right.items[i], symbol);
  }
  return left.items.size() <=> right.items.size();
}

/// Where a slice begins and how many elements it has: slice.indices() of Python.
struct Range {
  std::int64_t begin, count, step;
};
Range indices(std::int64_t size, const Value& begin, const Value& end, const Value& step) {
  const auto part = [](const Value& value, std::int64_t otherwise) {
    if (value.is_none()) return otherwise;
    const auto number = value.integer();
    if (!number) throw Problem("slice indices must be integers or None");
    return *number;
  };
  Range range{0, 0, part(step, 1)};
  if (range.step == 0) throw Problem("slice step cannot be zero");
  range.step = std::clamp(range.step, -size - 1, size + 1);
  const bool forward = range.step > 0;
  const auto clip = [&](std::int64_t index) {
    if (index < 0) return std::max(index + size, forward ? std::int64_t{0} : std::int64_t{-1});
    return std::min(index, forward ? size : size - 1);
  };
  range.begin = begin.is_none() ? (forward ? 0 : size - 1) : clip(part(begin, 0));
  const std::int64_t stop = end.is_none() ? (forward ? size : -1) : clip(part(end, 0));
  const std::int64_t distance = forward ? stop - range.begin : range.begin - stop;
  range.count = distance <= 0 ? 0 : 1 + (distance - 1) / std::abs(range.step);
  return range;
}

constexpr std::string_view kSymbols[] = {"+", "-", "*", "/", "//", "**"};

[[noreturn]] void refuse_large_result() {
  throw Problem("the result is too large: whole numbers have 64 bits here");
}

double real_of(const Value& value) {
  const auto whole = value.integer();
  return whole ? static_cast<double>(*whole) : *value.real();
}

std::int64_t floor_quotient(std::int64_t left, std::int64_t right) {
  if (right == -1 && left == std::numeric_limits<std::int64_t>::min()) refuse_large_result();
  const std::int64_t quotient = left / right;
  return left % right != 0 && (left < 0) != (right < 0) ? quotient - 1 : quotient;
}

double floor_remainder(double left, double right) {
  const double rest = std::fmod(left, right);
  if (rest != 0) return (rest < 0) != (right < 0) ? rest + right : rest;
  return std::copysign(0.0, right);
}

std::int64_t whole_power(std::int64_t base, std::int64_t exponent) {
  std::int64_t power = 1;
  for (; exponent > 0; exponent >>= 1) {
    if ((exponent & 1) != 0 && __builtin_mul_overflow(power, base, &power)) refuse_large_result();
    if (exponent > 1 && __builtin_mul_overflow(base, base, &base)) refuse_large_result();
  }
  return power;
}

Value of_whole_numbers(Arithmetic operation, std::int64_t left, std::int64_t right) {
  std::int64_t result = 0;
  bool is_too_large = false;
  switch (operation) {
    case Arithmetic::add:
      is_too_large = __builtin_add_overflow(left, right, &result);
      break;
    case Arithmetic::subtract:
      is_too_large = __builtin_sub_overflow(left, right, &result);
      break;
    case Arithmetic::multiply:
      is_too_large = __builtin_mul_overflow(left, right, &result);
      break;
    case Arithmetic::divide:
      return static_cast<double>(static_cast<long double>(left) / static_cast<long double>(right));
    case Arithmetic::floor_divide:
      return floor_quotient(left, right);
    case Arithmetic::power:
      if (right < 0) return std::pow(static_cast<double>(left), static_cast<double>(right));
      return whole_power(left, right);
  }
  if (is_too_large) refuse_large_result();
  return result;
}

Value of_real_numbers(Arithmetic operation, double left, double right) {
  switch (operation) {
    case Arithmetic::add:
      return left + right;
    case Arithmetic::subtract:
      return left - right;
    case Arithmetic::multiply:
      return left * right;
    case Arithmetic::divide:
      return left / right;
    case Arithmetic::floor_divide:
      // So that quotient and remainder fit one another, as Python's do.
      return std::round((left - floor_remainder(left, right)) / right);
    case Arithmetic::power:
      break;
  }
  const double power = std::pow(left, right);
  if (std::isnan(power) && !std::isnan(left) && !std::isnan(right))
    throw Problem("complex numbers are not supported");
  if (std::isinf(power) && std::isfinite(left) && std::isfinite(right))
    throw Problem("the result is too large");
  return power;
}

/// `sequence * count`, as often as Python repeats it.
Value repeated(Meter& meter, const Value& value, std::int64_t count) {
  count = std::max(count, std::int64_t{0});
  if (const std::string* text = value.text())
    return like(value, GrowingText(meter).append(count, *text).take());
  const Sequence& sequence = *value.sequence();
  meter.check_bytes(count, std::ssize(sequence.items) * static_cast<std::int64_t>(sizeof(Value)));
  Sequence many{.kind = sequence.kind};
  for (std::int64_t i = 0; i < count && !sequence.items.empty(); ++i)
    many.items.insert(many.items.end(), sequence.items.begin(), sequence.items.end());
  return many;
}

bool can_be_repeated(const Value& value) {
  return value.is_text() || (value.sequence() != nullptr && value.sequence()->kind <= SequenceKind::tuple);
}

Value joined(Meter& meter, const Value& left, const Value& right) {
  if (left.is_text() && right.is_text()) {
    if (!left.is_markup() && !right.is_markup()) return *left.text() + *right.text();
    return Value::markup(*escaped(meter, left).text() + *escaped(meter, right).text());
  }
  const Sequence* first = left.sequence();
  const Sequence* second = right.sequence();
  if (first == nullptr || second == nullptr || first->kind != second->kind ||
      first->kind > SequenceKind::tuple) {
    refuse_operands("+", left, right);
  }
  Sequence both{.kind = first->kind, .items = first->items};
  both.items.insert(both.items.end(), second->items.begin(), second->items.end());
  return both;
}

}  // namespace

bool is_true(const Value& value) {
  if (value.is_undefined() || value.is_none()) return false;
  if (const auto number = value.integer()) return *number != 0;
  if (const double* real = value.real()) return *real != 0;
  if (value.object() != nullptr) return true;
  if (value.is_text()) return !value.is_empty_text();
  return length(value) > 0;
}

void check_defined(const Value& value) {
  if (const auto* undefined = std::get_if<Undefined>(&value.data())) throw Problem(*undefined->reason);
}

bool are_equal_scalars(const Value& left, const Value& right) {
  const auto left_number = exact_number(left), right_number = exact_number(right);
  if (left_number && right_number) return *left_number == *right_number;
  if (left.data().index() != right.data().index()) return false;
  if (left.is_none() || left.is_undefined()) return true;
  if (const std::string* text = left.text()) return *text == *right.text();
  return left.object() != nullptr && left.object() == right.object();
}

bool equal(Meter& meter, const Value& left, const Value& right) {
  meter.count_steps(1);
  if (left.sequence() != nullptr && right.sequence() != nullptr) {
    return equal_sequences(meter, *left.sequence(), *right.sequence());
  }
  if (left.dict() != nullptr && right.dict() != nullptr)
    return equal_dicts(meter, *left.dict(), *right.dict());
  return are_equal_scalars(left, right);
}

std::partial_ordering order(Meter& meter, const Value& left, const Value& right, std::string_view symbol) {
  meter.count_steps(1);
  const auto left_number = exact_number(left), right_number = exact_number(right);
  if (left_number && right_number) return *left_number <=> *right_number;
  // UTF-8 has the order of its code points.
  if (left.is_text() && right.is_text()) return *left.text() <=> *right.text();
  if (is_ordered_sequence(left) && is_ordered_sequence(right) &&
      left.sequence()->kind == right.sequence()->kind) {
    return order_sequences(meter, *left.sequence(), *right.sequence(), symbol);
  }
  check_defined(left);
  check_defined(right);
  throw Problem(fmt::format("'{}' not supported between instances of '{}' and '{}'", symbol, type_name(left),
                            type_name(right)));
}

bool contains(Meter& meter, const Value& container, const Value& item) {
  if (const std::string* text = container.text()) {
    if (!item.is_text()) {
      throw Problem(fmt::format("'in <string>' requires string as left operand, not {}", type_name(item)));
    }
    return find_bytes(*text, *item.text(), 0) != std::string::npos;
  }
  if (const Sequence* sequence = container.sequence()) {
    return std::ranges::any_of(sequence->items, [&](const Value& each) { return equal(meter, each, item); });
  }
  if (const Dict* dict = container.dict()) {
    return dict->find(item) != nullptr;
  }
  if (container.is_undefined()) return false;
  throw Problem(fmt::format("argument of type '{}' is not iterable", type_name(container)));
}

std::int64_t length(const Value& value) {
  if (const std::string* text = value.text()) return static_cast<std::int64_t>(text::count_characters(*text));
  if (const Sequence* sequence = value.sequence()) return std::ssize(sequence->items);
  if (const Dict* dict = value.dict()) return std::ssize(dict->entries);
  if (value.is_undefined()) return 0;
  throw Problem(fmt::format("object of type '{}' has no len()", type_name(value)));
}

std::optional<Value> element(const Value& value, const Value& key) {
  if (const Dict* dict = value.dict()) {
    if (key.sequence() != nullptr || key.dict() != nullptr) return std::nullopt;
    const Value* found = dict->find(key);
    return found == nullptr ? std::nullopt : std::optional(*found);
  }
  const auto index = key.integer();
  const Sequence* sequence = value.sequence();
  const bool has_elements = sequence != nullptr && sequence->kind <= SequenceKind::range;
  if (!index || (!has_elements && !value.is_text())) return std::nullopt;
  const std::int64_t size = length(value);
  const std::int64_t at = *index < 0 ? *index + size : *index;
  if (at < 0 || at >= size) return std::nullopt;
  if (sequence != nullptr) return nth(sequence->items, at);
  return like(value, every_character(*value.text(), at, 1, 1));
}

Value slice(const Value& value, const Value& begin, const Value& end, const Value& step) {
  check_defined(value);
  const Sequence* sequence = value.sequence();
  if (!value.is_text() && (sequence == nullptr || sequence->kind > SequenceKind::range))
    throw Problem(fmt::format("'{}' object has no slices", type_name(value)));
  const Range range = indices(length(value), begin, end, step);
  if (value.is_text())
    return like(value, every_character(*value.text(), range.begin, range.step, range.count));
  Sequence part{.kind = sequence->kind};
  for (std::int64_t i = 0; i < range.count; ++i)
    part.items.push_back(nth(sequence->items, range.begin + i * range.step));
  return part;
}

void refuse_operands(std::string_view symbol, const Value& left, const Value& right) {
  check_defined(left);
  check_defined(right);
  throw Problem(fmt::format("unsupported operand types for {}: '{}' and '{}'", symbol, type_name(left),
                            type_name(right)));
}

Value arithmetic(Meter& meter, Arithmetic operation, const Value& left, const Value& right) {
  if (left.is_number() && right.is_number()) {
    const bool divides = operation == Arithmetic::divide || operation == Arithmetic::floor_divide;
    const bool inverts = operation == Arithmetic::power && real_of(left) == 0 && real_of(right) < 0;
    if ((divides && real_of(right) == 0) || inverts) throw Problem("division by zero");
    if (left.integer() && right.integer())
      return of_whole_numbers(operation, *left.integer(), *right.integer());
    return of_real_numbers(operation, real_of(left), real_of(right));
  }
  if (operation == Arithmetic::add) return joined(meter, left, right);
  if (operation == Arithmetic::multiply) {
    if (can_be_repeated(left) && right.integer()) return repeated(meter, left, *right.integer());
    if (can_be_repeated(right) && left.integer()) return repeated(meter, right, *left.integer());
  }
  refuse_operands(kSymbols[static_cast<int>(operation)], left, right);
}

Value remainder(const Value& left, const Value& right) {
  if (!left.is_number() || !right.is_number()) refuse_operands("%", left, right);
  if (real_of(right) == 0) throw Problem("division by zero");
  if (!left.integer() || !right.integer()) return floor_remainder(real_of(left), real_of(right));
  const std::int64_t a = *left.integer(), b = *right.integer();
  if (b == -1) return 0;
  const std::int64_t rest = a % b;
  return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
}

Value negative(const Value& value) {
  if (const double* real = value.real()) return -*real;
  const auto whole = value.integer();
  if (whole) return of_whole_numbers(Arithmetic::subtract, 0, *whole);
  check_defined(value);
  throw Problem(fmt::format("bad operand type for unary -: '{}'", type_name(value)));
}

Value positive(const Value& value) {
  if (value.real() != nullptr) return value;
  if (const auto whole = value.integer()) return *whole;
  check_defined(value);
  throw Problem(fmt::format("bad operand type for unary +: '{}'", type_name(value)));
}

}  // namespace strata::chat
