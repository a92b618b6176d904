// The interpreter's expressions.
#include <fmt/format.h>

#include <compare>

#include "engine/input/chat/format_text.h"
#include "engine/input/chat/functions.h"
#include "engine/input/chat/growing.h"
#include "engine/input/chat/interpreter.h"
#include "engine/input/chat/operators.h"
#include "engine/input/chat/problem.h"
#include "engine/input/chat/python_text.h"

namespace strata::chat {

Value Interpreter::evaluate(const Expression& expression) {
  const Meter::Level level(runtime_.meter());
  runtime_.meter().count_steps(1);
  const int line = std::exchange(line_, expression.line);
  Value value = std::visit([this](const auto& node) { return evaluate(node); }, expression.node);
  line_ = line;  // an error keeps the innermost one
  return value;
}

Value Interpreter::evaluate(const Name& name) {
  if (const Value* found = scope_->find(name.name)) return *found;
  check_supported_function(name.name);
  return Value::undefined(fmt::format("'{}' is undefined", name.name));
}

Value Interpreter::evaluate(const ListLiteral& literal) {
  std::vector<Value> items;
  for (const ExpressionPointer& item : literal.items) items.push_back(evaluate(*item));
  return literal.is_tuple ? tuple(std::move(items)) : list(std::move(items));
}

Value Interpreter::evaluate(const DictLiteral& literal) {
  Dict dict;
  for (const auto& [key, value] : literal.entries) {
    const Value name = evaluate(*key);
    dict.set(name, evaluate(*value));
  }
  return dict;
}

Value Interpreter::evaluate(const AttributeOf& attribute) {
  return runtime_.attribute(evaluate(*attribute.object), attribute.name);
}

Value Interpreter::evaluate(const ItemOf& item) {
  const Value object = evaluate(*item.object);
  return runtime_.item(object, evaluate(*item.key));
}

Value Interpreter::evaluate_or_none(const ExpressionPointer& expression) {
  return expression ? evaluate(*expression) : Value();
}

Value Interpreter::evaluate(const SliceOf& part) {
  const Value object = evaluate(*part.object);
  const Value begin = evaluate_or_none(part.begin), end = evaluate_or_none(part.end),
              step = evaluate_or_none(part.step);
  check_defined(object);
  return slice(object, begin, end, step);
}

Arguments Interpreter::evaluate(const CallArguments& arguments) {
  Arguments values;
  for (const ExpressionPointer& each : arguments.positional) values.positional.push_back(evaluate(*each));
  for (const auto& [name, each] : arguments.named) values.named.emplace_back(name, evaluate(*each));
  if (arguments.more_positional) {
    for (Value& each : items_of(runtime_, evaluate(*arguments.more_positional)))
      values.positional.push_back(each);
  }
  if (!arguments.more_named) return values;
  const Value more = evaluate(*arguments.more_named);
  if (more.dict() == nullptr) throw Problem(fmt::format("'**' needs a dict, not '{}'", type_name(more)));
  for (const auto& [name, value] : more.dict()->entries) {
    if (!name.is_text()) throw Problem("keywords must be strings");
    if (values.find(*name.text()) != nullptr)
      throw Problem(fmt::format("'{}' is passed twice", *name.text()));
    values.named.emplace_back(*name.text(), value);
  }
  return values;
}

Value Interpreter::call(const Call& call, const Arguments& arguments) {
  if (const auto* method = std::get_if<AttributeOf>(&call.callee->node))
    return runtime_.call_attribute(evaluate(*method->object), method->name, arguments);
  return runtime_.call(evaluate(*call.callee), arguments);
}

Value Interpreter::evaluate(const Call& expression) {
  return call(expression, evaluate(expression.arguments));
}

Value Interpreter::evaluate(const Filtered& expression) {
  const Value value = evaluate(*expression.value);
  return runtime_.filter(expression.filter.name, value, evaluate(expression.filter.arguments));
}

Value Interpreter::filtered(Value value, const std::vector<Application>& filters) {
  for (const Application& filter : filters) {
    line_ = filter.line;
    value = runtime_.filter(filter.name, value, evaluate(filter.arguments));
  }
  return value;
}

Value Interpreter::evaluate(const Tested& tested) {
  const Value value = evaluate(*tested.value);
  return runtime_.test(tested.test.name, value, evaluate(tested.test.arguments));
}

Value Interpreter::evaluate(const Signed& expression) {
  const Value value = evaluate(*expression.operand);
  if (expression.sign == Sign::negation) return !is_true(value);
  return expression.sign == Sign::negative ? negative(value) : positive(value);
}

Value Interpreter::evaluate(const Calculation& calculation) {
  const Value left = evaluate(*calculation.left);
  return arithmetic(runtime_.meter(), calculation.operation, left, evaluate(*calculation.right));
}

Value Interpreter::evaluate(const Remainder& expression) {
  const Value left = evaluate(*expression.left), right = evaluate(*expression.right);
  if (!left.is_text()) return remainder(left, right);
  if (left.is_markup()) throw Problem("'%' of what is safe is not supported");
  return percent_formatted(runtime_, *left.text(), right);
}

Value Interpreter::evaluate(const Choice& choice) {
  Value left = evaluate(*choice.left);
  return is_true(left) == choice.is_and ? evaluate(*choice.right) : left;
}

bool Interpreter::compare(const Value& left, Relation relation, const Value& right) {
  Meter& meter = runtime_.meter();
  switch (relation) {
    case Relation::equal:
      return equal(meter, left, right);
    case Relation::not_equal:
      return !equal(meter, left, right);
    case Relation::less:
      return std::is_lt(order(meter, left, right, "<"));
    case Relation::less_or_equal:
      return std::is_lteq(order(meter, left, right, "<="));
    case Relation::greater:
      return std::is_gt(order(meter, left, right, ">"));
    case Relation::greater_or_equal:
      return std::is_gteq(order(meter, left, right, ">="));
    case Relation::in:
      return is_contained(runtime_, right, left);
    case Relation::not_in:
      return !is_contained(runtime_, right, left);
  }
  return false;
}

Value Interpreter::evaluate(const Comparison& comparison) {
  Value left = evaluate(*comparison.first);
  for (const auto& [relation, expression] : comparison.rest) {
    Value right = evaluate(*expression);
    if (!compare(left, relation, right)) return false;
    left = std::move(right);
  }
  return true;
}

Value Interpreter::evaluate(const Concatenation& concatenation) {
  GrowingText joined(runtime_.meter());
  for (const ExpressionPointer& part : concatenation.parts) joined += printed(runtime_, evaluate(*part));
  return joined.take();
}

Value Interpreter::evaluate(const Conditional& conditional) {
  if (is_true(evaluate(*conditional.condition))) return evaluate(*conditional.value);
  if (conditional.otherwise) return evaluate(*conditional.otherwise);
  return Value::undefined(fmt::format(
      "the inline if-expression on line {} evaluated to false and no else section was defined.", line_));
}

}  // namespace strata::chat
