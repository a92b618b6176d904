// Walks a template's tree and writes its text. One per rendering, used by one thread.
#pragma once

#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "engine/input/chat/parser.h"
#include "engine/input/chat/runtime.h"
#include "engine/input/chat/scope.h"
#include "engine/input/chat/span.h"

namespace strata::chat {

class Interpreter {
 public:
  /// `globals` are what names are that the template does not set.
  Interpreter(Runtime& runtime, std::shared_ptr<const Scope> globals);

  /// `messages` is the list of the conversation's messages. Throws Problem for what goes wrong, in line().
  Rendering run(const Syntax& syntax, const Value& messages);
  int line() const { return line_; }

  /// A macro's text. `around` is the scope in which the macro is defined.
  std::string call_procedure(const Procedure& procedure, const std::shared_ptr<const Scope>& around,
                             const Arguments& arguments);

 private:
  enum class Flow { on, next_item, end_loop };

  Flow execute(const Body& body);
  /// In the scope that is its own already.
  Flow execute(const ScopedBody& body);
  Flow execute(const Text& text);
  Flow execute(const Output& output);
  Flow execute(const If& statement);
  Flow execute(const For& statement);
  Flow execute(const Set& statement);
  Flow execute(const SetBlock& statement);
  Flow execute(const Macro& statement);
  Flow execute(const CallBlock& statement);
  Flow execute(const FilterBlock& statement);
  Flow execute(const With& statement);
  Flow execute(const Generation& statement);
  Flow execute(const Break&) { return Flow::end_loop; }
  Flow execute(const Continue&) { return Flow::next_item; }

  Value evaluate(const Expression& expression);
  Value evaluate(const Literal& literal) { return literal.value; }
  Value evaluate(const Name& name);
  Value evaluate(const ListLiteral& literal);
  Value evaluate(const DictLiteral& literal);
  Value evaluate(const AttributeOf& attribute);
  Value evaluate(const ItemOf& item);
  Value evaluate(const SliceOf& slice);
  Value evaluate(const Call& call);
  Value evaluate(const Filtered& filtered);
  Value evaluate(const Tested& tested);
  Value evaluate(const Signed& expression);
  Value evaluate(const Calculation& calculation);
  Value evaluate(const Remainder& remainder);
  Value evaluate(const Choice& choice);
  Value evaluate(const Comparison& comparison);
  Value evaluate(const Concatenation& concatenation);
  Value evaluate(const Conditional& conditional);

  Value evaluate_or_none(const ExpressionPointer& expression);
  Arguments evaluate(const CallArguments& arguments);
  Value call(const Call& call, const Arguments& arguments);
  bool compare(const Value& left, Relation relation, const Value& right);
  Value filtered(Value value, const std::vector<Application>& filters);

  void write(const std::string& text);
  /// The pass of a loop for `item` has written what stands behind `begin`.
  void note_message(const Value& item, std::size_t begin);
  void assign(const Target& target, const Value& value);
  void assign_item(const For& statement, const Value& item);
  Flow go_through(const For& statement, const Value& items, std::int64_t level);
  /// Executes a body in a scope of its own.
  Flow execute_inside(const ScopedBody& body);
  /// Executes a body in a scope of its own, and puts its output into `text`.
  Flow capture(const ScopedBody& body, std::string& text);
  void bind(const Procedure& procedure, const Arguments& arguments);
  void bind_rest(const Procedure& procedure, const Arguments& arguments);
  Value procedure_object(const Procedure& procedure);

  Runtime& runtime_;
  std::shared_ptr<Scope> scope_;
  std::string out_;
  std::vector<Span> generated_;
  std::unordered_map<const Dict*, std::size_t> messages_;  ///< their numbers
  std::vector<MessageText> written_;
  int captures_ = 0;  ///< within how many texts that are not written yet
  int line_ = 1;
};

}  // namespace strata::chat
