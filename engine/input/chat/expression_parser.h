// Expressions of a template, by Jinja's grammar and precedence. Used by one thread.
#pragma once

#include <string>

#include "engine/input/chat/problem.h"
#include "engine/input/chat/syntax.h"
#include "engine/input/chat/token_stream.h"

namespace strata::chat {

class ExpressionParser {
 public:
  explicit ExpressionParser(TokenStream& tokens) : tokens_(tokens) {}

  /// With `has_condition`, an inline if may follow.
  ExpressionPointer expression(bool has_condition = true);
  /// One expression, or several with commas between them, which are a tuple.
  ExpressionPointer tuple(bool has_condition = true);
  /// `name` or `name, (name, name)`, or with `may_be_namespace` `name.attribute`, too.
  Target target(bool may_be_namespace);
  /// `| name(arguments)`, any number of times; the first without its `|` if `begins_inline`.
  std::vector<Application> filters(bool begins_inline);
  /// The names that a template has read so far, with repetitions. Two calls, compared, show what a part
  /// reads.
  const std::vector<std::string>& names_read() const { return names_read_; }

  /// How many filters and tests have come that are not supported. Jinja refuses them when it reads a
  /// template, but not behind a condition, which may ask whether there is such a filter: those are forgotten
  /// by forgive().
  std::size_t unsupported() const { return unsupported_.size(); }
  void forgive(std::size_t since) {
    unsupported_.erase(unsupported_.begin() + static_cast<std::ptrdiff_t>(since), unsupported_.end());
  }
  /// Throws Problem for the first that is not forgiven.
  void check_unsupported() const {
    if (!unsupported_.empty()) throw unsupported_.front();
  }

 private:
  ExpressionPointer make(int line, decltype(Expression::node) node) const;
  ExpressionPointer disjunction();
  ExpressionPointer conjunction();
  ExpressionPointer negation();
  ExpressionPointer comparison();
  ExpressionPointer sum();
  ExpressionPointer concatenation();
  ExpressionPointer product();
  ExpressionPointer power();
  ExpressionPointer signed_value(bool has_filters);
  ExpressionPointer primary();
  ExpressionPointer name();
  ExpressionPointer number();
  ExpressionPointer list();
  ExpressionPointer dict();
  ExpressionPointer in_parentheses();
  ExpressionPointer postfix(ExpressionPointer value, TokenStream::Level& level);
  ExpressionPointer filtered(ExpressionPointer value, TokenStream::Level& level);
  ExpressionPointer subscript(ExpressionPointer object);
  ExpressionPointer called(ExpressionPointer callee);
  ExpressionPointer test(ExpressionPointer value);
  Application filter();
  CallArguments call_arguments();
  void call_argument(CallArguments& arguments);
  std::string dotted_name();
  bool at_tuple_end() const;
  Target one_target(bool may_be_namespace);

  TokenStream& tokens_;
  std::vector<std::string> names_read_;
  std::vector<Problem> unsupported_;
};

}  // namespace strata::chat
