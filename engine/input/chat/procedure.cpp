// Macros, and the bodies of calls, which are macros that are named "caller".
#include <fmt/format.h>

#include <algorithm>

#include "engine/input/chat/interpreter.h"
#include "engine/input/chat/operators.h"
#include "engine/input/chat/problem.h"
#include "engine/input/chat/python_text.h"

namespace strata::chat {
namespace {

class ProcedureObject : public Object {
 public:
  ProcedureObject(Interpreter& interpreter, const Procedure& procedure, std::shared_ptr<const Scope> around)
      : interpreter_(interpreter), procedure_(procedure), around_(std::move(around)) {}

  std::string_view type_name() const override { return "Macro"; }
  std::string text(Runtime&) const override { return fmt::format("<Macro '{}'>", procedure_.name); }
  bool is_callable() const override { return true; }
  Value call(Runtime&, const Arguments& arguments) override {
    return interpreter_.call_procedure(procedure_, around_, arguments);
  }
  std::optional<Value> attribute(Runtime&, std::string_view name) override {
    if (name == "name") return Value(procedure_.name);
    return std::nullopt;
  }

 private:
  Interpreter& interpreter_;
  const Procedure& procedure_;
  std::shared_ptr<const Scope> around_;
};

}  // namespace

Value Interpreter::procedure_object(const Procedure& procedure) {
  return runtime_.own<ProcedureObject>(*this, procedure, scope_);
}

Interpreter::Flow Interpreter::execute(const Macro& statement) {
  scope_->set(statement.procedure.name, procedure_object(statement.procedure));
  return Flow::on;
}

Interpreter::Flow Interpreter::execute(const CallBlock& statement) {
  const Call& expression = std::get<Call>(statement.call->node);
  Arguments arguments = evaluate(expression.arguments);
  arguments.named.emplace_back("caller", procedure_object(statement.caller));
  write(printed(runtime_, call(expression, arguments)));
  return Flow::on;
}

/// What a macro gets beyond its parameters.
void Interpreter::bind_rest(const Procedure& procedure, const Arguments& arguments) {
  const auto has_parameter = [&](std::string_view name) {
    Meter::count_search(procedure.parameters.size());
    return std::ranges::find(procedure.parameters, name, &Parameter::name) != procedure.parameters.end();
  };
  Dict rest;
  for (const auto& [name, value] : arguments.named) {
    if (has_parameter(name) || (procedure.uses_caller && name == "caller")) continue;
    if (!procedure.uses_kwargs)
      throw Problem(fmt::format("macro '{}' takes no keyword argument '{}'", procedure.name, name));
    rest.set(name, value);
  }
  if (procedure.uses_kwargs) scope_->set("kwargs", rest);
  const std::size_t count = procedure.parameters.size();
  if (arguments.positional.size() > count && !procedure.uses_varargs)
    throw Problem(fmt::format("macro '{}' takes not more than {} argument(s)", procedure.name, count));
  if (!procedure.uses_varargs) return;
  const auto begin = arguments.positional.begin() +
                     static_cast<std::ptrdiff_t>(std::min(count, arguments.positional.size()));
  scope_->set("varargs", tuple({begin, arguments.positional.end()}));
}

void Interpreter::bind(const Procedure& procedure, const Arguments& arguments) {
  if (procedure.uses_caller) {
    const Value* caller = arguments.find("caller");
    scope_->set("caller", caller != nullptr ? *caller : Value::undefined("No caller defined"));
  }
  bind_rest(procedure, arguments);
  for (std::size_t i = 0; i < procedure.parameters.size(); ++i) {
    const auto& [name, otherwise] = procedure.parameters[i];
    const Value* named = arguments.find(name);
    if (i < arguments.positional.size()) {
      if (named != nullptr)
        throw Problem(fmt::format("macro '{}' takes no keyword argument '{}'", procedure.name, name));
      scope_->set(name, arguments.positional[i]);
    } else if (named != nullptr) {
      scope_->set(name, *named);
    } else {
      scope_->set(name, otherwise ? evaluate(*otherwise)
                                  : Value::undefined(fmt::format("parameter '{}' was not provided", name)));
    }
  }
}

std::string Interpreter::call_procedure(const Procedure& procedure,
                                        const std::shared_ptr<const Scope>& around,
                                        const Arguments& arguments) {
  const Meter::Level level(runtime_.meter());
  const std::shared_ptr<Scope> here = std::exchange(scope_, std::make_shared<Scope>(around));
  const int line = line_;
  bind(procedure, arguments);
  std::string outside = std::exchange(out_, {});
  ++captures_;
  execute(procedure.body);
  --captures_;
  scope_ = here;
  line_ = line;
  return std::exchange(out_, std::move(outside));
}

}  // namespace strata::chat
