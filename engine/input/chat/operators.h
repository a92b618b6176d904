// Python's operators on values: truth, equality, order, arithmetic, elements and slices. Plain functions;
// what may take long or grow is counted by the meter. They throw Problem where Python raises an error.
#pragma once

#include <compare>
#include <optional>
#include <string>

#include "engine/input/chat/meter.h"
#include "engine/input/chat/value.h"

namespace strata::chat {

/// What `if` makes of a value.
bool is_true(const Value& value);

/// Throws Problem if the value is undefined.
void check_defined(const Value& value);

/// Whether neither is a list or a dict and both are equal: 1, 1.0 and True are.
bool are_equal_scalars(const Value& left, const Value& right);
bool equal(Meter& meter, const Value& left, const Value& right);

/// Throws Problem for values that have no order; `symbol` is the operator's, for the error.
std::partial_ordering order(Meter& meter, const Value& left, const Value& right, std::string_view symbol);

/// `item in container`. Not for iterators.
bool contains(Meter& meter, const Value& container, const Value& item);

enum class Arithmetic : std::uint8_t { add, subtract, multiply, divide, floor_divide, power };

/// All but `%`, which is formatting, too.
Value arithmetic(Meter& meter, Arithmetic operation, const Value& left, const Value& right);
/// `%` of numbers.
Value remainder(const Value& left, const Value& right);
Value negative(const Value& value);
/// `+value`.
Value positive(const Value& value);

/// len(value). Throws Problem if the value has none.
std::int64_t length(const Value& value);

/// `value[key]`, or nothing where Python raises TypeError, IndexError or KeyError.
std::optional<Value> element(const Value& value, const Value& key);

/// `value[begin:end:step]`, whose parts may be None. Throws Problem for a value that has no slices.
Value slice(const Value& value, const Value& begin, const Value& end, const Value& step);

/// The error of an operator that the types do not have.
[[noreturn]] void refuse_operands(std::string_view symbol, const Value& left, const Value& right);

}  // namespace strata::chat
