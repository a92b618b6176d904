#include "engine/input/chat/token_stream.h"

#include <fmt/format.h>

#include "engine/input/chat/problem.h"

namespace strata::chat {
namespace {

constexpr int kMostLevels = 400;

std::string_view describe(TokenKind kind) {
  constexpr std::string_view kDescriptions[] = {"text",
                                                "'{{'",
                                                "'}}'",
                                                "'{%'",
                                                "'%}'",
                                                "a name",
                                                "a text in quotes",
                                                "a number",
                                                "a number",
                                                "a symbol",
                                                "the template's end"};
  return kDescriptions[static_cast<int>(kind)];
}

}  // namespace

Token TokenStream::next() {
  Token token = current();
  if (at_ + 1 < tokens_.size()) ++at_;
  return token;
}

bool TokenStream::skip_symbol(std::string_view symbol) {
  const bool is_here = is_symbol(symbol);
  if (is_here) next();
  return is_here;
}

bool TokenStream::skip_name(std::string_view name) {
  const bool is_here = is_name(name);
  if (is_here) next();
  return is_here;
}

Token TokenStream::expect(TokenKind kind) {
  if (!is(kind)) refuse_current(describe(kind));
  return next();
}

void TokenStream::expect_symbol(std::string_view symbol) {
  if (!skip_symbol(symbol)) refuse_current(fmt::format("'{}'", symbol));
}

void TokenStream::expect_name(std::string_view name) {
  if (!skip_name(name)) refuse_current(fmt::format("'{}'", name));
}

void TokenStream::refuse(const std::string& reason) const {
  throw Problem(reason, line());
}

void TokenStream::refuse_current(std::string_view expected) const {
  const bool is_word = is(TokenKind::name) || is(TokenKind::symbol);
  const std::string here =
      is_word ? fmt::format("'{}'", current().text) : std::string(describe(current().kind));
  refuse(fmt::format("{} is here where {} is expected", here, expected));
}

void TokenStream::Level::deepen() {
  ++levels_;
  if (++tokens_.depth_ <= kMostLevels) return;
  tokens_.depth_ -= levels_;
  tokens_.refuse(fmt::format("expressions and tags are nested more than {} deep", kMostLevels));
}

}  // namespace strata::chat
