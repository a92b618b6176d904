#include "engine/input/chat/expression_parser.h"

#include <charconv>

#include <fmt/format.h>

#include "engine/input/chat/builtins.h"

namespace strata::chat {

ExpressionPointer ExpressionParser::make(int line, decltype(Expression::node) node) const {
  return std::make_unique<Expression>(Expression{line, std::move(node)});
}

ExpressionPointer ExpressionParser::expression(bool has_condition) {
  TokenStream::Level level(tokens_);
  int line = tokens_.line();
  const std::size_t known_unsupported = unsupported();
  ExpressionPointer value = disjunction();
  while (has_condition && tokens_.skip_name("if")) {
    level.deepen();
    ExpressionPointer condition = disjunction();
    ExpressionPointer otherwise = tokens_.skip_name("else") ? expression() : nullptr;
    value = make(line, Conditional{std::move(condition), std::move(value), std::move(otherwise)});
    line = tokens_.line();
    forgive(known_unsupported);
  }
  return value;
}

ExpressionPointer ExpressionParser::disjunction() {
  TokenStream::Level level(tokens_);
  const int line = tokens_.line();
  ExpressionPointer left = conjunction();
  while (tokens_.skip_name("or")) {
    level.deepen();
    ExpressionPointer right = conjunction();
    left = make(line, Choice{false, std::move(left), std::move(right)});
  }
  return left;
}

ExpressionPointer ExpressionParser::conjunction() {
  TokenStream::Level level(tokens_);
  const int line = tokens_.line();
  ExpressionPointer left = negation();
  while (tokens_.skip_name("and")) {
    level.deepen();
    ExpressionPointer right = negation();
    left = make(line, Choice{true, std::move(left), std::move(right)});
  }
  return left;
}

ExpressionPointer ExpressionParser::negation() {
  const int line = tokens_.line();
  if (!tokens_.skip_name("not")) return comparison();
  const TokenStream::Level level(tokens_);
  return make(line, Signed{Sign::negation, negation()});
}

ExpressionPointer ExpressionParser::comparison() {
  constexpr std::pair<std::string_view, Relation> kRelations[] = {
      {"==", Relation::equal},         {"!=", Relation::not_equal}, {"<", Relation::less},
      {"<=", Relation::less_or_equal}, {">", Relation::greater},    {">=", Relation::greater_or_equal}};
  const int line = tokens_.line();
  Comparison compared;
  compared.first = sum();
  const auto relation = [&]() -> std::optional<Relation> {
    for (const auto& [symbol, found] : kRelations)
      if (tokens_.skip_symbol(symbol)) return found;
    if (tokens_.skip_name("in")) return Relation::in;
    const Token& behind = tokens_.look();
    if (!tokens_.is_name("not") || behind.kind != TokenKind::name || behind.text != "in") return std::nullopt;
    tokens_.next();
    tokens_.next();
    return Relation::not_in;
  };
  while (const auto found = relation()) compared.rest.emplace_back(*found, sum());
  return compared.rest.empty() ? std::move(compared.first) : make(line, std::move(compared));
}

ExpressionPointer ExpressionParser::sum() {
  TokenStream::Level level(tokens_);
  const int line = tokens_.line();
  ExpressionPointer left = concatenation();
  while (tokens_.is_symbol("+") || tokens_.is_symbol("-")) {
    const Arithmetic operation = tokens_.next().text == "+" ? Arithmetic::add : Arithmetic::subtract;
    level.deepen();
    ExpressionPointer right = concatenation();
    left = make(line, Calculation{operation, std::move(left), std::move(right)});
  }
  return left;
}

ExpressionPointer ExpressionParser::concatenation() {
  const int line = tokens_.line();
  Concatenation joined;
  joined.parts.push_back(product());
  while (tokens_.skip_symbol("~")) joined.parts.push_back(product());
  return joined.parts.size() == 1 ? std::move(joined.parts[0]) : make(line, std::move(joined));
}

ExpressionPointer ExpressionParser::product() {
  TokenStream::Level level(tokens_);
  const int line = tokens_.line();
  ExpressionPointer left = power();
  while (tokens_.is_symbol("*") || tokens_.is_symbol("/") || tokens_.is_symbol("//") ||
         tokens_.is_symbol("%")) {
    const std::string symbol = tokens_.next().text;
    level.deepen();
    ExpressionPointer right = power();
    if (symbol == "%") {
      left = make(line, Remainder{std::move(left), std::move(right)});
      continue;
    }
    const Arithmetic operation = symbol == "*"   ? Arithmetic::multiply
                                 : symbol == "/" ? Arithmetic::divide
                                                 : Arithmetic::floor_divide;
    left = make(line, Calculation{operation, std::move(left), std::move(right)});
  }
  return left;
}

ExpressionPointer ExpressionParser::power() {
  TokenStream::Level level(tokens_);
  const int line = tokens_.line();
  ExpressionPointer left = signed_value(true);
  // To Jinja powers are grouped from the left.
  while (tokens_.skip_symbol("**")) {
    level.deepen();
    ExpressionPointer right = signed_value(true);
    left = make(line, Calculation{Arithmetic::power, std::move(left), std::move(right)});
  }
  return left;
}

ExpressionPointer ExpressionParser::signed_value(bool has_filters) {
  TokenStream::Level level(tokens_);
  const int line = tokens_.line();
  ExpressionPointer value;
  if (tokens_.skip_symbol("-")) {
    value = make(line, Signed{Sign::negative, signed_value(false)});
  } else if (tokens_.skip_symbol("+")) {
    value = make(line, Signed{Sign::positive, signed_value(false)});
  } else {
    value = primary();
  }
  value = postfix(std::move(value), level);
  return has_filters ? filtered(std::move(value), level) : std::move(value);
}

ExpressionPointer ExpressionParser::primary() {
  const int line = tokens_.line();
  switch (tokens_.current().kind) {
    case TokenKind::name:
      return name();
    case TokenKind::integer:
    case TokenKind::real:
      return number();
    case TokenKind::string: {
      std::string text;
      while (tokens_.is(TokenKind::string)) text += tokens_.next().text;
      return make(line, Literal{std::move(text)});
    }
    default:
      if (tokens_.is_symbol("(")) return in_parentheses();
      if (tokens_.is_symbol("[")) return list();
      if (tokens_.is_symbol("{")) return dict();
      tokens_.refuse_current("an expression");
  }
}

ExpressionPointer ExpressionParser::name() {
  const Token token = tokens_.next();
  if (token.text == "true" || token.text == "True") return make(token.line, Literal{true});
  if (token.text == "false" || token.text == "False") return make(token.line, Literal{false});
  if (token.text == "none" || token.text == "None") return make(token.line, Literal{Value()});
  names_read_.push_back(token.text);
  return make(token.line, Name{token.text});
}

ExpressionPointer ExpressionParser::number() {
  const Token token = tokens_.current();
  const char* end = token.text.data() + token.text.size();
  std::int64_t whole = 0;
  double real = 0;
  const auto read = token.kind == TokenKind::integer ? std::from_chars(token.text.data(), end, whole)
                                                     : std::from_chars(token.text.data(), end, real);
  if (read.ec != std::errc()) tokens_.refuse(fmt::format("the number {} does not fit 64 bits", token.text));
  tokens_.next();
  return make(token.line, Literal{token.kind == TokenKind::integer ? Value(whole) : Value(real)});
}

ExpressionPointer ExpressionParser::list() {
  const int line = tokens_.line();
  tokens_.expect_symbol("[");
  ListLiteral literal{{}, false};
  while (!tokens_.is_symbol("]")) {
    if (!literal.items.empty()) tokens_.expect_symbol(",");
    if (tokens_.is_symbol("]")) break;
    literal.items.push_back(expression());
  }
  tokens_.expect_symbol("]");
  return make(line, std::move(literal));
}

ExpressionPointer ExpressionParser::dict() {
  const int line = tokens_.line();
  tokens_.expect_symbol("{");
  DictLiteral literal;
  while (!tokens_.is_symbol("}")) {
    if (!literal.entries.empty()) tokens_.expect_symbol(",");
    if (tokens_.is_symbol("}")) break;
    ExpressionPointer key = expression();
    tokens_.expect_symbol(":");
    literal.entries.emplace_back(std::move(key), expression());
  }
  tokens_.expect_symbol("}");
  return make(line, std::move(literal));
}

bool ExpressionParser::at_tuple_end() const {
  return tokens_.is(TokenKind::end_output) || tokens_.is(TokenKind::end_block) || tokens_.is_symbol(")") ||
         tokens_.is_name("recursive");
}

ExpressionPointer ExpressionParser::in_parentheses() {
  const int line = tokens_.line();
  tokens_.expect_symbol("(");
  ExpressionPointer value = tokens_.is_symbol(")") ? make(line, ListLiteral{{}, true}) : tuple();
  tokens_.expect_symbol(")");
  return value;
}

ExpressionPointer ExpressionParser::tuple(bool has_condition) {
  const int line = tokens_.line();
  ExpressionPointer first = expression(has_condition);
  if (!tokens_.is_symbol(",")) return first;
  ListLiteral literal{{}, true};
  literal.items.push_back(std::move(first));
  while (tokens_.skip_symbol(",")) {
    if (at_tuple_end()) break;
    literal.items.push_back(expression(has_condition));
  }
  return make(line, std::move(literal));
}

Target ExpressionParser::one_target(bool may_be_namespace) {
  const TokenStream::Level level(tokens_);
  if (tokens_.skip_symbol("(")) {
    Target several = target(may_be_namespace);
    tokens_.expect_symbol(")");
    return several;
  }
  const Token token = tokens_.expect(TokenKind::name);
  for (const std::string_view constant : {"true", "false", "none", "True", "False", "None"}) {
    if (token.text == constant) tokens_.refuse(fmt::format("'{}' cannot be set", constant));
  }
  if (!may_be_namespace || !tokens_.skip_symbol(".")) return {Name{token.text}};
  return {NamespaceTarget{token.text, tokens_.expect(TokenKind::name).text}};
}

Target ExpressionParser::target(bool may_be_namespace) {
  Target first = one_target(may_be_namespace);
  if (!tokens_.is_symbol(",")) return first;
  TupleTarget several;
  several.targets.push_back(std::move(first));
  while (tokens_.skip_symbol(",")) {
    if (at_tuple_end() || tokens_.is_name("in") || tokens_.is_symbol("=")) break;
    several.targets.push_back(one_target(may_be_namespace));
  }
  return {std::move(several)};
}

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
