#include <fmt/format.h>

#include <cmath>
#include <limits>

#include "engine/input/chat/growing.h"
#include "engine/input/chat/markup.h"
#include "engine/input/chat/operators.h"
#include "engine/input/chat/problem.h"

namespace strata::chat {
namespace {

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
