#include "engine/input/chat/interpreter.h"

#include <fmt/format.h>

#include "engine/input/chat/loop.h"
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

}  // namespace strata::chat
