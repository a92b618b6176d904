// What follows a value in an expression: attributes, elements, calls, filters and tests.
#include <fmt/format.h>

#include "engine/input/chat/expression_parser.h"
#include "engine/input/chat/filters.h"
#include "engine/input/chat/tests.h"

namespace strata::chat {

ExpressionPointer ExpressionParser::postfix(ExpressionPointer value, TokenStream::Level& level) {
  while (true) {
    if (tokens_.is_symbol(".") || tokens_.is_symbol("[")) {
      level.deepen();
      value = subscript(std::move(value));
    } else if (tokens_.is_symbol("(")) {
      level.deepen();
      value = called(std::move(value));
    } else {
      return value;
    }
  }
}

ExpressionPointer ExpressionParser::called(ExpressionPointer callee) {
  const int line = tokens_.line();
  CallArguments arguments = call_arguments();
  return make(line, Call{std::move(callee), std::move(arguments)});
}

ExpressionPointer ExpressionParser::filtered(ExpressionPointer value, TokenStream::Level& level) {
  while (true) {
    const int line = tokens_.line();
    if (tokens_.skip_symbol("|")) {
      level.deepen();
      Application applied = filter();
      value = make(line, Filtered{std::move(value), std::move(applied)});
    } else if (tokens_.is_name("is")) {
      level.deepen();
      value = test(std::move(value));
    } else if (tokens_.is_symbol("(")) {
      level.deepen();
      value = called(std::move(value));
    } else {
      return value;
    }
  }
}

ExpressionPointer ExpressionParser::subscript(ExpressionPointer object) {
  const int line = tokens_.line();
  if (tokens_.skip_symbol(".")) {
    if (tokens_.is(TokenKind::integer)) {
      ExpressionPointer key = number();
      return make(line, ItemOf{std::move(object), std::move(key)});
    }
    if (!tokens_.is(TokenKind::name)) tokens_.refuse_current("an attribute's name or number");
    return make(line, AttributeOf{std::move(object), tokens_.next().text});
  }
  tokens_.expect_symbol("[");
  const auto ends_part = [&] { return tokens_.is_symbol(":") || tokens_.is_symbol("]"); };
  ExpressionPointer first = tokens_.is_symbol(":") ? nullptr : expression();
  if (tokens_.is_symbol(",")) tokens_.refuse("a tuple as a key is not supported");
  if (!tokens_.skip_symbol(":")) {
    tokens_.expect_symbol("]");
    return make(line, ItemOf{std::move(object), std::move(first)});
  }
  ExpressionPointer end = ends_part() ? nullptr : expression();
  ExpressionPointer step = tokens_.skip_symbol(":") && !ends_part() ? expression() : nullptr;
  tokens_.expect_symbol("]");
  return make(line, SliceOf{std::move(object), std::move(first), std::move(end), std::move(step)});
}

std::string ExpressionParser::dotted_name() {
  std::string name = tokens_.expect(TokenKind::name).text;
  while (tokens_.skip_symbol(".")) name.append(1, '.').append(tokens_.expect(TokenKind::name).text);
  return name;
}

Application ExpressionParser::filter() {
  Application filter{tokens_.line(), dotted_name(), {}};
  if (find_filter(filter.name) == nullptr)
    unsupported_.emplace_back(fmt::format("the filter '{}' is not supported", filter.name), filter.line);
  if (tokens_.is_symbol("(")) filter.arguments = call_arguments();
  return filter;
}

std::vector<Application> ExpressionParser::filters(bool begins_inline) {
  std::vector<Application> found;
  if (begins_inline) found.push_back(filter());
  while (tokens_.skip_symbol("|")) found.push_back(filter());
  return found;
}

ExpressionPointer ExpressionParser::test(ExpressionPointer value) {
  const int line = tokens_.line();
  tokens_.expect_name("is");
  const bool is_negated = tokens_.skip_name("not");
  Application test{tokens_.line(), dotted_name(), {}};
  if (find_test(test.name) == nullptr)
    unsupported_.emplace_back(fmt::format("the test '{}' is not supported", test.name), test.line);
  const bool is_operator = tokens_.is_name("else") || tokens_.is_name("or") || tokens_.is_name("and");
  const bool has_argument = tokens_.is(TokenKind::name) || tokens_.is(TokenKind::string) ||
                            tokens_.is(TokenKind::integer) || tokens_.is(TokenKind::real) ||
                            tokens_.is_symbol("[") || tokens_.is_symbol("{");
  if (tokens_.is_symbol("(")) {
    test.arguments = call_arguments();
  } else if (has_argument && !is_operator) {
    if (tokens_.is_name("is")) tokens_.refuse("You cannot chain multiple tests with is");
    TokenStream::Level level(tokens_);
    test.arguments.positional.push_back(postfix(primary(), level));
  }
  ExpressionPointer tested = make(line, Tested{std::move(value), std::move(test)});
  return is_negated ? make(line, Signed{Sign::negation, std::move(tested)}) : std::move(tested);
}

void ExpressionParser::call_argument(CallArguments& arguments) {
  const bool is_last = arguments.more_named != nullptr;
  if (tokens_.skip_symbol("*")) {
    if (is_last || arguments.more_positional) tokens_.refuse("invalid syntax for function call expression");
    arguments.more_positional = expression();
    return;
  }
  if (is_last) tokens_.refuse("invalid syntax for function call expression");
  if (tokens_.skip_symbol("**")) {
    arguments.more_named = expression();
    return;
  }
  const Token& behind = tokens_.look();
  if (tokens_.is(TokenKind::name) && behind.kind == TokenKind::symbol && behind.text == "=") {
    std::string name = tokens_.next().text;
    tokens_.next();
    arguments.named.emplace_back(std::move(name), expression());
    return;
  }
  if (arguments.more_positional || !arguments.named.empty())
    tokens_.refuse("an argument without a name stands behind one with a name");
  arguments.positional.push_back(expression());
}

CallArguments ExpressionParser::call_arguments() {
  tokens_.expect_symbol("(");
  CallArguments arguments;
  for (bool is_first = true; !tokens_.is_symbol(")"); is_first = false) {
    if (!is_first) tokens_.expect_symbol(",");
    if (tokens_.is_symbol(")")) break;
    call_argument(arguments);
  }
  tokens_.expect_symbol(")");
  return arguments;
}

}  // namespace strata::chat
