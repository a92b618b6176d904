#include "engine/input/chat/builtins.h"

#include <fmt/format.h>

#include <compare>

#include "engine/input/chat/operators.h"
#include "engine/input/chat/problem.h"
#include "engine/input/chat/python_text.h"
#include "engine/input/text/letter_case.h"
#include "engine/input/text/utf8.h"

namespace strata::chat {
namespace {

using Property = bool (*)(const Value&);

/// A test that looks at the value alone.
template <Property property>
bool has(Runtime&, const Value& value, const Arguments& arguments) {
  const Parameters none("is", arguments, {});
  return property(value);
}

bool is_sequence(const Value& value) {
  const Sequence* sequence = value.sequence();
  return value.is_text() || value.dict() != nullptr || value.is_undefined() ||
         (sequence != nullptr && sequence->kind <= SequenceKind::range);
}

bool is_iterable(const Value& value) {
  return value.is_text() || value.dict() != nullptr || value.is_undefined() || value.sequence() != nullptr ||
         (value.object() != nullptr && value.object()->is_iterator());
}

bool is_whole(const Value& value) {
  return std::holds_alternative<std::int64_t>(value.data());
}

bool is_flag(const Value& value, bool wanted) {
  return value.flag() != nullptr && *value.flag() == wanted;
}

bool has_remainder(const Value& value, const Value& divisor, std::int64_t wanted) {
  check_defined(value);
  if (value.is_text()) throw Problem("not all arguments converted during string formatting");
  return are_equal_scalars(remainder(value, divisor), wanted);
}

bool is_defined(const Value& value) {
  return !value.is_undefined();
}

bool is_undefined(const Value& value) {
  return value.is_undefined();
}

bool is_none(const Value& value) {
  return value.is_none();
}

bool is_boolean(const Value& value) {
  return value.flag() != nullptr;
}

bool is_true_flag(const Value& value) {
  return is_flag(value, true);
}

bool is_false_flag(const Value& value) {
  return is_flag(value, false);
}

bool is_real(const Value& value) {
  return value.real() != nullptr;
}

bool is_number(const Value& value) {
  return value.is_number();
}

bool is_text(const Value& value) {
  return value.is_text();
}

bool is_mapping(const Value& value) {
  return value.dict() != nullptr;
}

bool is_callable(const Value& value) {
  return value.is_undefined() || (value.object() != nullptr && value.object()->is_callable());
}

bool is_escaped(const Value& value) {
  return value.is_markup();
}

bool is_even(const Value& value) {
  return has_remainder(value, 2, 0);
}

bool is_odd(const Value& value) {
  return has_remainder(value, 2, 1);
}

/// Whether the text has letters of one case, and none of the other.
template <bool wants_upper>
bool has_case(Runtime& runtime, const Value& value, const Arguments& arguments) {
  const Parameters none("is", arguments, {});
  bool has_some = false, has_others = false;
  text::for_each_character(printed(runtime, value), [&](char32_t c, std::size_t, std::size_t) {
    const bool is_upper = text::is_upper_case(c), is_lower = text::is_lower_case(c);
    has_some |= wants_upper ? is_upper : is_lower;
    has_others |= (wants_upper ? is_lower : is_upper) || text::is_title_case(c);
  });
  return has_some && !has_others;
}

bool is_equal_to(Runtime& runtime, const Value& value, const Arguments& arguments) {
  const Parameters given("eq", arguments, {"b"}, 1);
  return equal(runtime.meter(), value, *given[0]);
}

bool is_not_equal_to(Runtime& runtime, const Value& value, const Arguments& arguments) {
  return !is_equal_to(runtime, value, arguments);
}

template <bool wants_less, bool or_equal>
bool is_ordered(Runtime& runtime, const Value& value, const Arguments& arguments) {
  const Parameters given("is", arguments, {"b"}, 1);
  constexpr std::string_view kSymbol = wants_less ? (or_equal ? "<=" : "<") : (or_equal ? ">=" : ">");
  const auto compared = order(runtime.meter(), value, *given[0], kSymbol);
  return (wants_less ? std::is_lt(compared) : std::is_gt(compared)) || (or_equal && std::is_eq(compared));
}

bool is_in(Runtime& runtime, const Value& value, const Arguments& arguments) {
  const Parameters given("in", arguments, {"seq"}, 1);
  return is_contained(runtime, *given[0], value);
}

bool is_same_as(Runtime&, const Value& value, const Arguments& arguments) {
  const Parameters given("sameas", arguments, {"other"}, 1);
  const Value& other = *given[0];
  if (value.is_text() || value.sequence() != nullptr || value.dict() != nullptr || value.real() != nullptr)
    throw Problem(fmt::format("'sameas' of a '{}' is not supported", type_name(value)));
  return value.data().index() == other.data().index() && are_equal_scalars(value, other);
}

bool is_divisible_by(Runtime&, const Value& value, const Arguments& arguments) {
  const Parameters given("divisibleby", arguments, {"num"}, 1);
  return has_remainder(value, *given[0], 0);
}

/// Throws Problem for what Python cannot look up.
void check_name(const Value& value) {
  const bool is_list = value.sequence() != nullptr && value.sequence()->kind == SequenceKind::list;
  if (is_list || value.dict() != nullptr)
    throw Problem(fmt::format("unhashable type: '{}'", type_name(value)));
}

bool is_filter(Runtime&, const Value& value, const Arguments& arguments) {
  const Parameters none("filter", arguments, {});
  check_name(value);
  return value.is_text() && find_filter(*value.text()) != nullptr;
}

bool is_test(Runtime&, const Value& value, const Arguments& arguments) {
  const Parameters none("test", arguments, {});
  check_name(value);
  return value.is_text() && find_test(*value.text()) != nullptr;
}

}  // namespace

const TestTable& all_tests() {
  static const TestTable table{
      {"defined", has<is_defined>},
      {"undefined", has<is_undefined>},
      {"none", has<is_none>},
      {"boolean", has<is_boolean>},
      {"true", has<is_true_flag>},
      {"false", has<is_false_flag>},
      {"integer", has<is_whole>},
      {"float", has<is_real>},
      {"number", has<is_number>},
      {"string", has<is_text>},
      {"mapping", has<is_mapping>},
      {"sequence", has<is_sequence>},
      {"iterable", has<is_iterable>},
      {"callable", has<is_callable>},
      {"escaped", has<is_escaped>},
      {"even", has<is_even>},
      {"odd", has<is_odd>},
      {"lower", has_case<false>},
      {"upper", has_case<true>},
      {"eq", is_equal_to},
      {"equalto", is_equal_to},
      {"==", is_equal_to},
      {"ne", is_not_equal_to},
      {"!=", is_not_equal_to},
      {"lt", is_ordered<true, false>},
      {"lessthan", is_ordered<true, false>},
      {"<", is_ordered<true, false>},
      {"le", is_ordered<true, true>},
      {"<=", is_ordered<true, true>},
      {"gt", is_ordered<false, false>},
      {"greaterthan", is_ordered<false, false>},
      {">", is_ordered<false, false>},
      {"ge", is_ordered<false, true>},
      {">=", is_ordered<false, true>},
      {"in", is_in},
      {"sameas", is_same_as},
      {"divisibleby", is_divisible_by},
      {"filter", is_filter},
      {"test", is_test},
  };
  return table;
}

Test find_test(std::string_view name) {
  const auto found = all_tests().find(name);
  return found == all_tests().end() ? nullptr : found->second;
}

}  // namespace strata::chat
