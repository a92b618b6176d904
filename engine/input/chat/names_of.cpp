#include "engine/input/chat/names_of.h"

namespace strata::chat {
namespace {

/// Uses the names of one kind of expression.
class NameReader {
 public:
  explicit NameReader(const UseName& use) : use_(use) {}

  void operator()(const Literal&) const {}
  void operator()(const Name& name) const { use_(name.name); }
  void operator()(const ListLiteral& literal) const {
    for (const ExpressionPointer& item : literal.items) read(item);
  }
  void operator()(const DictLiteral& literal) const {
    for (const auto& [key, value] : literal.entries) {
      read(key);
      read(value);
    }
  }
  void operator()(const AttributeOf& attribute) const { read(attribute.object); }
  void operator()(const ItemOf& item) const {
    read(item.object);
    read(item.key);
  }
  void operator()(const SliceOf& slice) const {
    for (const ExpressionPointer* part : {&slice.object, &slice.begin, &slice.end, &slice.step}) read(*part);
  }
  void operator()(const Call& call) const {
    read(call.callee);
    for_each_name(call.arguments, use_);
  }
  void operator()(const Filtered& filtered) const {
    read(filtered.value);
    for_each_name(filtered.filter.arguments, use_);
  }
  void operator()(const Tested& tested) const {
    read(tested.value);
    for_each_name(tested.test.arguments, use_);
  }
  void operator()(const Signed& expression) const { read(expression.operand); }
  void operator()(const Calculation& calculation) const {
    read(calculation.left);
    read(calculation.right);
  }
  void operator()(const Remainder& remainder) const {
    read(remainder.left);
    read(remainder.right);
  }
  void operator()(const Choice& choice) const {
    read(choice.left);
    read(choice.right);
  }
  void operator()(const Comparison& comparison) const {
    read(comparison.first);
    for (const auto& [relation, expression] : comparison.rest) read(expression);
  }
  void operator()(const Concatenation& concatenation) const {
    for (const ExpressionPointer& part : concatenation.parts) read(part);
  }
  void operator()(const Conditional& conditional) const {
    for (const ExpressionPointer* part : {&conditional.condition, &conditional.value, &conditional.otherwise})
      read(*part);
  }

 private:
  void read(const ExpressionPointer& expression) const {
    if (expression) for_each_name(*expression, use_);
  }

  const UseName& use_;
};

}  // namespace

void for_each_name(const Expression& expression, const UseName& use) {
  std::visit(NameReader(use), expression.node);
}

void for_each_name(const CallArguments& arguments, const UseName& use) {
  for (const ExpressionPointer& each : arguments.positional) for_each_name(*each, use);
  for (const auto& [name, each] : arguments.named) for_each_name(*each, use);
  for (const ExpressionPointer* more : {&arguments.more_positional, &arguments.more_named})
    if (*more) for_each_name(**more, use);
}

}  // namespace strata::chat
