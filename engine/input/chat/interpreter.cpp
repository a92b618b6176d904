#include "engine/input/chat/interpreter.h"

#include <compare>

#include <fmt/format.h>

#include "engine/input/chat/builtins.h"
#include "engine/input/chat/format_text.h"
#include "engine/input/chat/growing.h"
#include "engine/input/chat/object.h"
#include "engine/input/chat/operators.h"
#include "engine/input/chat/problem.h"
#include "engine/input/chat/python_text.h"

namespace strata::chat {

Interpreter::Interpreter(Runtime& runtime, std::shared_ptr<const Scope> globals)
    : runtime_(runtime), scope_(std::make_shared<Scope>(std::move(globals))) {}

Rendering Interpreter::run(const Syntax& syntax, const Value& messages) {
  for (const Value& message : messages.sequence()->items) messages_.emplace(message.dict(), messages_.size());
  execute(syntax.body);
  return {std::move(out_), std::move(generated_), std::move(written_)};
}

void Interpreter::note_message(const Value& item, std::size_t begin) {
  if (captures_ > 0 || begin == out_.size() || item.dict() == nullptr) return;
  // Values are shared, so a message is found by where it is, in whatever list the template has put it.
  if (const auto found = messages_.find(item.dict()); found != messages_.end())
    written_.push_back({found->second, {begin, out_.size()}});
}

Interpreter::Flow Interpreter::execute(const Body& body) {
  const Meter::Level level(runtime_.meter());
  for (const Statement& statement : body) {
    runtime_.meter().count_steps(1);
    line_ = statement.line;
    const Flow flow = std::visit([this](const auto& node) { return execute(node); }, statement.node);
    if (flow != Flow::on) return flow;
  }
  return Flow::on;
}

Interpreter::Flow Interpreter::execute(const ScopedBody& body) {
  for (const std::string& name : body.unset)
    scope_->set(name, Value::undefined(fmt::format("'{}' is undefined", name)));
  return execute(body.statements);
}

void Interpreter::write(const std::string& text) {
  runtime_.meter().count_bytes(std::ssize(text));
  out_ += text;
}

Interpreter::Flow Interpreter::execute(const Text& text) {
  write(text.text);
  return Flow::on;
}

Interpreter::Flow Interpreter::execute(const Output& output) {
  write(printed(runtime_, evaluate(*output.value)));
  return Flow::on;
}

Interpreter::Flow Interpreter::execute(const If& statement) {
  for (const auto& [condition, body] : statement.branches) {
    if (is_true(evaluate(*condition))) return execute(body);
  }
  return execute(statement.otherwise);
}

Interpreter::Flow Interpreter::execute(const For& statement) {
  return go_through(statement, evaluate(*statement.items), 0);
}

Interpreter::Flow Interpreter::go_through(const For& statement, const Value& items, std::int64_t level) {
  const Meter::Level recursion(runtime_.meter());
  const std::shared_ptr<Scope> around = scope_;
  const auto in_new_scope = [&] { scope_ = std::make_shared<Scope>(around); };
  const auto next = [this, &statement, around, walk = Walk(runtime_, items)](Value& item) mutable {
    while (walk.next(item)) {
      if (!statement.condition) return true;
      const std::shared_ptr<Scope> here = std::exchange(scope_, std::make_shared<Scope>(around));
      assign(statement.target, item);
      const bool is_wanted = is_true(evaluate(*statement.condition));
      scope_ = here;
      if (is_wanted) return true;
    }
    return false;
  };
  const auto again = [this, &statement, around, level](const Value& deeper) -> Value {
    const std::shared_ptr<Scope> here = std::exchange(scope_, around);
    std::string outside = std::exchange(out_, {});
    ++captures_;
    go_through(statement, deeper, level + 1);
    --captures_;
    scope_ = here;
    return std::exchange(out_, std::move(outside));
  };
  Loop& loop =
      runtime_.own<Loop>(next, statement.is_recursive ? again : std::function<Value(const Value&)>(), level);
  bool is_empty = true;
  while (loop.advance()) {
    is_empty = false;
    in_new_scope();
    scope_->set("loop", loop);
    assign(statement.target, loop.item());
    const std::size_t begin = out_.size();
    const Flow flow = execute(statement.body);
    note_message(loop.item(), begin);
    if (flow == Flow::end_loop) break;
  }
  scope_ = around;
  if (is_empty) execute_inside(statement.otherwise);
  return Flow::on;
}

void Interpreter::assign(const Target& target, const Value& value) {
  if (const Name* name = std::get_if<Name>(&target.node)) return scope_->set(name->name, value);
  if (const auto* attribute = std::get_if<NamespaceTarget>(&target.node)) {
    const Value* found = scope_->find(attribute->name);
    Namespace* written = found == nullptr ? nullptr : dynamic_cast<Namespace*>(found->object());
    if (written == nullptr) throw Problem("cannot assign attribute on non-namespace object");
    if (attribute->attribute.starts_with('_'))
      throw Problem("a namespace cannot have attributes that begin with an underscore");
    return written->attributes.set(attribute->attribute, value);
  }
  const auto& targets = std::get<TupleTarget>(target.node).targets;
  check_defined(value);
  const std::vector<Value> items = items_of(runtime_, value);
  if (items.size() < targets.size()) {
    throw Problem(
        fmt::format("not enough values to unpack (expected {}, got {})", targets.size(), items.size()));
  }
  if (items.size() > targets.size())
    throw Problem(fmt::format("too many values to unpack (expected {})", targets.size()));
  for (std::size_t i = 0; i < targets.size(); ++i) assign(targets[i], items[i]);
}

Interpreter::Flow Interpreter::execute(const Set& statement) {
  assign(statement.target, evaluate(*statement.value));
  return Flow::on;
}

Interpreter::Flow Interpreter::execute_inside(const ScopedBody& body) {
  const std::shared_ptr<Scope> around = scope_;
  scope_ = std::make_shared<Scope>(around);
  const Flow flow = execute(body);
  scope_ = around;
  return flow;
}

Interpreter::Flow Interpreter::capture(const ScopedBody& body, std::string& text) {
  std::string outside = std::exchange(out_, {});
  ++captures_;
  const Flow flow = execute_inside(body);
  --captures_;
  text = std::exchange(out_, std::move(outside));
  return flow;
}

Interpreter::Flow Interpreter::execute(const SetBlock& statement) {
  std::string text;
  const Flow flow = capture(statement.body, text);
  if (flow == Flow::on) assign(statement.target, filtered(std::move(text), statement.filters));
  return flow;
}

Interpreter::Flow Interpreter::execute(const FilterBlock& statement) {
  std::string text;
  const Flow flow = capture(statement.body, text);
  if (flow == Flow::on) write(printed(runtime_, filtered(std::move(text), statement.filters)));
  return flow;
}

Interpreter::Flow Interpreter::execute(const With& statement) {
  const std::shared_ptr<Scope> around = scope_;
  std::vector<Value> values;
  for (const auto& [target, value] : statement.values) values.push_back(evaluate(*value));
  scope_ = std::make_shared<Scope>(around);
  for (std::size_t i = 0; i < values.size(); ++i) assign(statement.values[i].first, values[i]);
  const Flow flow = execute(statement.body);
  scope_ = around;
  return flow;
}

Interpreter::Flow Interpreter::execute(const Generation& statement) {
  if (captures_ > 0) {
    throw Problem(
        "'generation' within a macro, a call or a block that is not written at once is not supported: where "
        "its text will stand is not known here");
  }
  const std::size_t begin = out_.size();
  ++captures_;  // so that there is none within
  execute_inside(statement.body);
  --captures_;
  generated_.push_back({begin, out_.size()});
  return Flow::on;
}

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
