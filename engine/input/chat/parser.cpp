#include "engine/input/chat/parser.h"

#include <fmt/format.h>

#include <algorithm>
#include <initializer_list>

#include "engine/input/chat/expression_parser.h"
#include "engine/input/chat/unset_names.h"

namespace strata::chat {
namespace {

class StatementParser {
 public:
  explicit StatementParser(std::string_view source) : tokens_(tokens_of(source)), expressions_(tokens_) {}

  Syntax run() {
    Syntax syntax{{body({})}, false};
    expressions_.check_unsupported();
    find_unset_names(syntax.body);
    syntax.has_generation = has_generation_;
    return syntax;
  }

 private:
  /// Statements up to a tag that begins with one of `ends`, which is the current token then; or to the
  /// template's end.
  Body body(std::initializer_list<std::string_view> ends) {
    const TokenStream::Level level(tokens_);
    const int begin_line = tokens_.line();
    Body statements;
    while (!tokens_.is(TokenKind::end)) {
      const Token token = tokens_.next();
      if (token.kind == TokenKind::text) {
        statements.push_back({token.line, Text{token.text}});
      } else if (token.kind == TokenKind::begin_output) {
        statements.push_back({token.line, Output{expressions_.tuple()}});
        tokens_.expect(TokenKind::end_output);
      } else {
        if (std::ranges::any_of(ends, [&](std::string_view end) { return tokens_.is_name(end); }))
          return statements;
        statements.push_back(statement());
        tokens_.expect(TokenKind::end_block);
      }
    }
    if (ends.size() > 0) throw_unclosed(*(ends.end() - 1), begin_line);
    return statements;
  }

  [[noreturn]] void throw_unclosed(std::string_view end, int begin_line) const {
    tokens_.refuse(fmt::format("the template ends where '{{% {} %}}' is expected, for what begins in line {}",
                               end, begin_line));
  }

  /// A tag's body: from the end of the tag to the tag `end`, whose name is skipped.
  Body body_to(std::string_view end) {
    begin_body();
    Body statements = body({end});
    tokens_.next();
    return statements;
  }

  void begin_body() {
    tokens_.skip_symbol(":");
    tokens_.expect(TokenKind::end_block);
  }

  Statement statement() {
    const Token tag = tokens_.current();
    if (tag.kind != TokenKind::name) tokens_.refuse_current("a tag's name");
    tokens_.next();
    const int line = tag.line;
    if (tag.text == "if") return {line, if_statement()};
    if (tag.text == "for") return {line, for_statement()};
    if (tag.text == "set") return set_statement(line);
    if (tag.text == "print") return {line, Output{expressions_.expression()}};
    if (tag.text == "macro") return {line, macro_statement()};
    if (tag.text == "call") return {line, call_statement()};
    if (tag.text == "filter") return {line, filter_statement()};
    if (tag.text == "with") return {line, with_statement()};
    if (tag.text == "generation") return {line, generation_statement()};
    if (tag.text == "break" || tag.text == "continue") {
      if (loops_ == 0) throw_outside(tag);
      if (tag.text == "break") return {line, Break{}};
      return {line, Continue{}};
    }
    throw_unknown(tag);
  }

  [[noreturn]] void throw_outside(const Token& tag) const {
    tokens_.refuse(fmt::format("'{}' stands outside of a loop", tag.text));
  }

  [[noreturn]] void throw_unknown(const Token& tag) const {
    tokens_.refuse(tag.text.starts_with("end") || tag.text == "else" || tag.text == "elif"
                       ? fmt::format("the tag '{}' closes nothing here", tag.text)
                       : fmt::format("the tag '{}' is not supported", tag.text));
  }

  If if_statement() {
    If statement;
    const std::size_t unsupported = expressions_.unsupported();
    while (true) {
      ExpressionPointer condition = expressions_.tuple(false);
      begin_body();
      statement.branches.emplace_back(std::move(condition), body({"elif", "else", "endif"}));
      const std::string tag = tokens_.next().text;
      if (tag == "else") statement.otherwise = body_to("endif");
      if (tag != "elif") {
        expressions_.forgive(unsupported);
        return statement;
      }
    }
  }

  For for_statement() {
    For statement{.target = expressions_.target(false),
                  .items = nullptr,
                  .condition = nullptr,
                  .body = {},
                  .otherwise = {},
                  .is_recursive = false};
    tokens_.expect_name("in");
    statement.items = expressions_.tuple(false);
    if (tokens_.skip_name("if")) statement.condition = expressions_.expression();
    statement.is_recursive = tokens_.skip_name("recursive");
    begin_body();
    ++loops_;
    statement.body.statements = body({"else", "endfor"});
    --loops_;
    if (tokens_.next().text == "else") statement.otherwise.statements = body_to("endfor");
    return statement;
  }

  Statement set_statement(int line) {
    Target target = expressions_.target(true);
    if (tokens_.skip_symbol("=")) {
      ExpressionPointer value = expressions_.tuple();
      return {line, Set{std::move(target), std::move(value)}};
    }
    SetBlock block{std::move(target), {}, {}};
    block.filters = expressions_.filters(false);
    block.body.statements = body_to("endset");
    return {line, std::move(block)};
  }

  std::vector<Parameter> parameters() {
    std::vector<Parameter> found;
    tokens_.expect_symbol("(");
    while (!tokens_.is_symbol(")")) {
      if (!found.empty()) tokens_.expect_symbol(",");
      Parameter parameter{tokens_.expect(TokenKind::name).text, nullptr};
      if (tokens_.skip_symbol("=")) {
        parameter.otherwise = expressions_.expression();
      } else if (!found.empty() && found.back().otherwise) {
        tokens_.refuse("non-default argument follows default argument");
      }
      found.push_back(std::move(parameter));
    }
    tokens_.expect_symbol(")");
    return found;
  }

  /// The body of a macro or a call, which loops around it cannot end.
  void read_procedure(Procedure& procedure, std::string_view end) {
    const int loops = std::exchange(loops_, 0);
    const std::size_t names = expressions_.names_read().size();
    procedure.body.statements = body_to(end);
    const auto reads = [&](std::string_view name) {
      const auto& all = expressions_.names_read();
      return std::find(all.begin() + static_cast<std::ptrdiff_t>(names), all.end(), name) != all.end();
    };
    procedure.uses_varargs = reads("varargs");
    procedure.uses_kwargs = reads("kwargs");
    procedure.uses_caller = reads("caller");
    loops_ = loops;
  }

  Macro macro_statement() {
    Macro macro;
    macro.procedure.name = tokens_.expect(TokenKind::name).text;
    macro.procedure.parameters = parameters();
    read_procedure(macro.procedure, "endmacro");
    return macro;
  }

  CallBlock call_statement() {
    CallBlock block;
    block.caller.name = "caller";
    if (tokens_.is_symbol("(")) block.caller.parameters = parameters();
    block.call = expressions_.expression();
    if (!std::holds_alternative<Call>(block.call->node)) tokens_.refuse("expected call");
    read_procedure(block.caller, "endcall");
    return block;
  }

  FilterBlock filter_statement() {
    FilterBlock block;
    block.filters = expressions_.filters(true);
    block.body.statements = body_to("endfilter");
    return block;
  }

  With with_statement() {
    With with;
    while (!tokens_.is(TokenKind::end_block)) {
      if (!with.values.empty()) tokens_.expect_symbol(",");
      Target target = expressions_.target(false);
      tokens_.expect_symbol("=");
      with.values.emplace_back(std::move(target), expressions_.expression());
    }
    with.body.statements = body_to("endwith");
    return with;
  }

  Generation generation_statement() {
    has_generation_ = true;
    // Its body is a function of its own to Jinja, which loops around it cannot end.
    const int loops = std::exchange(loops_, 0);
    Generation generation{{body_to("endgeneration")}};
    loops_ = loops;
    return generation;
  }

  TokenStream tokens_;
  ExpressionParser expressions_;
  int loops_ = 0;
  bool has_generation_ = false;
};

}  // namespace

Syntax parse_template(std::string_view source) {
  return StatementParser(source).run();
}

}  // namespace strata::chat
