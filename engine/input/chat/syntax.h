// A template as a tree, as its parser leaves it: plain structs, each with its line. Immutable once it is
// read, so any number of threads may render it.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "engine/input/chat/operators.h"
#include "engine/input/chat/value.h"

namespace strata::chat {

struct Expression;
using ExpressionPointer = std::unique_ptr<Expression>;

struct Literal {
  Value value;
};
struct Name {
  std::string name;
};
struct ListLiteral {
  std::vector<ExpressionPointer> items;
  bool is_tuple;
};
struct DictLiteral {
  std::vector<std::pair<ExpressionPointer, ExpressionPointer>> entries;
};
struct AttributeOf {
  ExpressionPointer object;
  std::string name;
};
struct ItemOf {
  ExpressionPointer object, key;
};
struct SliceOf {
  ExpressionPointer object, begin, end, step;  ///< the last three may be null
};
struct CallArguments {
  std::vector<ExpressionPointer> positional;
  std::vector<std::pair<std::string, ExpressionPointer>> named;
  ExpressionPointer more_positional, more_named;  ///< `*a` and `**b`, or null
};
struct Call {
  ExpressionPointer callee;
  CallArguments arguments;
};
/// A filter or a test by its name.
struct Application {
  int line;
  std::string name;
  CallArguments arguments;
};
struct Filtered {
  ExpressionPointer value;
  Application filter;
};
struct Tested {
  ExpressionPointer value;
  Application test;
};
enum class Sign : std::uint8_t { negative, positive, negation };
struct Signed {
  Sign sign;
  ExpressionPointer operand;
};
struct Calculation {
  Arithmetic operation;
  ExpressionPointer left, right;
};
struct Remainder {
  ExpressionPointer left, right;
};
/// `and` and `or`, which give one of their values.
struct Choice {
  bool is_and;
  ExpressionPointer left, right;
};
enum class Relation : std::uint8_t {
  equal,
  not_equal,
  less,
  less_or_equal,
  greater,
  greater_or_equal,
  in,
  not_in
};
/// `a < b < c` is `a < b and b < c`.
struct Comparison {
  ExpressionPointer first;
  std::vector<std::pair<Relation, ExpressionPointer>> rest;
};
struct Concatenation {
  std::vector<ExpressionPointer> parts;
};
struct Conditional {
  ExpressionPointer condition, value, otherwise;  ///< the last may be null
};

struct Expression {
  int line;
  std::variant<Literal, Name, ListLiteral, DictLiteral, AttributeOf, ItemOf, SliceOf, Call, Filtered, Tested,
               Signed, Calculation, Remainder, Choice, Comparison, Concatenation, Conditional>
      node;
};

struct Statement;
using Body = std::vector<Statement>;

/// A body in a scope of its own.
struct ScopedBody {
  Body statements;
  /// What the body sets before it reads it, and nothing around it knows: undefined until it is set, even if
  /// the caller of the template has passed something by this name.
  std::vector<std::string> unset = {};
};

/// What `set` and `for` write to.
struct Target;
struct NamespaceTarget {
  std::string name, attribute;
};
struct TupleTarget {
  std::vector<Target> targets;
};
struct Target {
  std::variant<Name, NamespaceTarget, TupleTarget> node;
};

struct Text {
  std::string text;
};
struct Output {
  ExpressionPointer value;
};
struct If {
  std::vector<std::pair<ExpressionPointer, Body>> branches;
  Body otherwise;
};
struct For {
  Target target;
  ExpressionPointer items, condition;  ///< the last may be null
  ScopedBody body, otherwise;
  bool is_recursive;
};
struct Set {
  Target target;
  ExpressionPointer value;
};
struct SetBlock {
  Target target;
  std::vector<Application> filters;
  ScopedBody body;
};
struct Parameter {
  std::string name;
  ExpressionPointer otherwise;  ///< null if the parameter has no default
};
/// What a macro, and the body of a call, is.
struct Procedure {
  std::string name;
  std::vector<Parameter> parameters;
  ScopedBody body;
  bool uses_varargs = false, uses_kwargs = false, uses_caller = false;
};
struct Macro {
  Procedure procedure;
};
struct CallBlock {
  Procedure caller;
  ExpressionPointer call;
};
struct FilterBlock {
  std::vector<Application> filters;
  ScopedBody body;
};
struct With {
  std::vector<std::pair<Target, ExpressionPointer>> values;
  ScopedBody body;
};
struct Generation {
  ScopedBody body;
};
struct Break {};
struct Continue {};

struct Statement {
  int line;
  std::variant<Text, Output, If, For, Set, SetBlock, Macro, CallBlock, FilterBlock, With, Generation, Break,
               Continue>
      node;
};

}  // namespace strata::chat
