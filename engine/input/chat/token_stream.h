// A template's tokens, looked at one by one, and how deep the parser is in them. Used by one thread.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "engine/input/chat/lexer.h"

namespace strata::chat {

class TokenStream {
 public:
  explicit TokenStream(std::vector<Token> tokens) : tokens_(std::move(tokens)) {}

  const Token& current() const { return tokens_[at_]; }
  const Token& look() const { return tokens_[at_ + 1 < tokens_.size() ? at_ + 1 : at_]; }
  int line() const { return current().line; }
  Token next();

  bool is(TokenKind kind) const { return current().kind == kind; }
  bool is_symbol(std::string_view symbol) const { return is(TokenKind::symbol) && current().text == symbol; }
  bool is_name(std::string_view name) const { return is(TokenKind::name) && current().text == name; }
  bool skip_symbol(std::string_view symbol);
  bool skip_name(std::string_view name);

  /// The following throw Problem if something else is here.
  Token expect(TokenKind kind);
  void expect_symbol(std::string_view symbol);
  void expect_name(std::string_view name);

  [[noreturn]] void refuse(const std::string& reason) const;
  /// "'x' is here where ... is expected".
  [[noreturn]] void refuse_current(std::string_view expected) const;

  /// One more level of nesting, for as long as this lives; deepen() adds more, for chains of operators.
  class Level {
   public:
    explicit Level(TokenStream& tokens) : tokens_(tokens) { deepen(); }
    ~Level() { tokens_.depth_ -= levels_; }
    Level(const Level&) = delete;
    Level& operator=(const Level&) = delete;
    void deepen();

   private:
    TokenStream& tokens_;
    int levels_ = 0;
  };

 private:
  std::vector<Token> tokens_;
  std::size_t at_ = 0;
  int depth_ = 0;
};

}  // namespace strata::chat
