#include "engine/input/chat/lexer.h"

#include <algorithm>
#include <array>
#include <charconv>

#include <fmt/format.h>

#include "engine/input/chat/problem.h"
#include "engine/input/chat/text_operations.h"
#include "engine/input/text/utf8.h"

namespace strata::chat {
namespace {

/// The number of `count` digits behind an escape's letter.
char32_t escaped_number(std::string_view digits, std::size_t count, int base, int line) {
  digits = digits.substr(0, count);
  std::uint32_t number = 0;
  const auto read = std::from_chars(digits.data(), digits.data() + digits.size(), number, base);
  const bool is_whole = read.ptr == digits.data() + digits.size() && digits.size() == count;
  if (!is_whole || number > 0x10ffff || (number >= 0xd800 && number < 0xe000))
    throw Problem("this escape in a text is no character", line);
  return number;
}

std::string unescaped(std::string_view quoted, int line) {
  constexpr std::string_view kLetters = "\\'\"abfnrtv", kMeanings = "\\'\"\a\b\f\n\r\t\v";
  std::string text;
  for (std::size_t at = 0; at < quoted.size(); ++at) {
    if (quoted[at] != '\\' || at + 1 == quoted.size()) {
      text += quoted[at];
      continue;
    }
    const char letter = quoted[++at];
    const std::string_view behind = quoted.substr(at + 1);
    const std::size_t known = kLetters.find(letter);
    if (letter == '\n') continue;
    if (known != std::string_view::npos) {
      text += kMeanings[known];
    } else if (letter == 'x' || letter == 'u' || letter == 'U') {
      const std::size_t digits = letter == 'x' ? 2 : letter == 'u' ? 4 : 8;
      text::append_character(text, escaped_number(behind, digits, 16, line));
      at += digits;
    } else if ('0' <= letter && letter <= '7') {
      std::size_t digits = 1;
      while (digits < 3 && digits <= behind.size() && '0' <= behind[digits - 1] && behind[digits - 1] <= '7')
        ++digits;
      text::append_character(text, escaped_number(quoted.substr(at), digits, 8, line));
      at += digits - 1;
    } else if (letter == 'N') {
      throw Problem("escapes with names of characters are not supported", line);
    } else {
      text.append({'\\', letter});
    }
  }
  return text;
}

constexpr std::size_t kNowhere = std::string_view::npos;

/// With line breaks of one kind, and without the last one, as Jinja reads a template.
std::string normalized(std::string_view source) {
  std::string text;
  for (std::size_t i = 0; i < source.size(); ++i) {
    if (source[i] == '\r' && i + 1 < source.size() && source[i + 1] == '\n') continue;
    text += source[i] == '\r' ? '\n' : source[i];
  }
  if (text.ends_with('\n')) text.pop_back();
  return text;
}

bool is_name_character(char c) {
  return ('a' <= c && c <= 'z') || ('A' <= c && c <= 'Z') || ('0' <= c && c <= '9') || c == '_';
}

bool is_digit_character(char c) {
  return '0' <= c && c <= '9';
}

class Lexer {
 public:
  explicit Lexer(std::string source) : source_(std::move(source)) {}

  std::vector<Token> run() {
    while (at_ < source_.size()) read_text_and_tag();
    add(TokenKind::end, "");
    return std::move(tokens_);
  }

 private:
  [[noreturn]] void refuse(const std::string& reason) const { throw Problem(reason, line_); }

  std::string_view rest() const { return std::string_view(source_).substr(at_); }
  char peek(std::size_t ahead = 0) const {
    return at_ + ahead < source_.size() ? source_[at_ + ahead] : '\0';
  }

  void add(TokenKind kind, std::string text) { tokens_.push_back({kind, std::move(text), line_}); }

  void advance(std::size_t bytes) {
    const std::string_view passed = rest().substr(0, bytes);
    line_ += static_cast<int>(std::ranges::count(passed, '\n'));
    if (!passed.empty()) is_line_start_ = passed.back() == '\n';
    at_ += passed.size();
  }

  void skip_space() {
    std::size_t end = at_;
    while (end < source_.size() && is_python_space(text::code_point_at(source_, end)))
      end += text::character_bytes(source_[end]);
    advance(end - at_);
  }

  /// The text before a tag at `end`, without the white space that the tag takes away.
  void add_text(std::size_t end, char sign, bool is_output) {
    std::string_view text = std::string_view(source_).substr(at_, end - at_);
    if (sign == '-') {
      text = stripped(text, nullptr, Side::right);
    } else if (sign != '+' && !is_output) {
      const std::size_t line_begin = text.rfind('\n') + 1;  // npos + 1 is 0
      if ((line_begin > 0 || is_line_start_) &&
          stripped(text.substr(line_begin), nullptr, Side::both).empty())
        text = text.substr(0, line_begin);
    }
    if (!text.empty()) add(TokenKind::text, std::string(text));
    advance(end - at_);
  }

  char sign_behind(std::size_t at) const {
    const char sign = at < source_.size() ? source_[at] : '\0';
    return sign == '-' || sign == '+' ? sign : '\0';
  }

  void read_text_and_tag() {
    std::size_t begin = at_;
    while (true) {
      begin = source_.find('{', begin);
      if (begin == kNowhere || begin + 1 == source_.size()) {
        add(TokenKind::text, std::string(rest()));
        return advance(source_.size() - at_);
      }
      const char kind = source_[begin + 1];
      if (kind == '{' || kind == '%' || kind == '#') break;
      ++begin;
    }
    const char kind = source_[begin + 1], sign = sign_behind(begin + 2);
    add_text(begin, sign, kind == '{');
    advance(sign == '\0' ? 2 : 3);
    if (kind == '#') return skip_comment();
    if (kind == '%' && read_raw()) return;
    add(kind == '{' ? TokenKind::begin_output : TokenKind::begin_block, "");
    read_tag(kind == '{');
  }

  void skip_comment() {
    const std::size_t end = source_.find("#}", at_);
    if (end == kNowhere) refuse("this comment has no end: '#}' is missing");
    const char sign = end > at_ ? sign_behind(end - 1) : '\0';
    advance(end + 2 - at_);
    end_block(sign);
  }

  /// What the end of a block or comment takes away behind it.
  void end_block(char sign) {
    if (sign == '-') skip_space();
    if (sign == '\0' && peek() == '\n') advance(1);
  }

  /// The bytes of `{%` or what else is before `at_`, `word`, and the tag's end with its sign; 0 if another
  /// tag is here.
  struct WordTag {
    std::size_t bytes = 0;
    char sign = '\0';
  };
  WordTag word_tag(std::size_t at, std::string_view word, bool may_keep) const {
    const auto skip = [&] {
      while (at < source_.size() && is_python_space(text::code_point_at(source_, at)))
        at += text::character_bytes(source_[at]);
    };
    const std::size_t begin = at;
    skip();
    if (source_.compare(at, word.size(), word) != 0) return {};
    at += word.size();
    skip();
    const char sign = sign_behind(at);
    if (sign != '\0') ++at;
    if (source_.compare(at, 2, "%}") != 0 || (sign == '+' && !may_keep)) return {};
    return {at + 2 - begin, sign};
  }

  /// `{% raw %}…{% endraw %}`, if that is what begins here.
  bool read_raw() {
    const WordTag begin = word_tag(at_, "raw", false);
    if (begin.bytes == 0) return false;
    advance(begin.bytes);
    if (begin.sign == '-') skip_space();
    for (std::size_t end = source_.find("{%", at_); end != kNowhere; end = source_.find("{%", end + 1)) {
      const char sign = sign_behind(end + 2);
      const std::size_t word = end + (sign == '\0' ? 2 : 3);
      const WordTag tag = word_tag(word, "endraw", true);
      if (tag.bytes == 0) continue;
      add_text(end, sign, false);
      advance(word - at_ + tag.bytes);
      end_block(tag.sign);
      return true;
    }
    refuse("'{% raw %}' has no end: '{% endraw %}' is missing");
  }

  /// The words of a tag to its end.
  void read_tag(bool is_output) {
    const int tag_line = line_;
    const std::string_view end = is_output ? "}}" : "%}";
    std::string closers;
    while (true) {
      skip_space();
      if (at_ == source_.size())
        throw Problem(fmt::format("this tag has no end: '{}' is missing", end), tag_line);
      const char sign = sign_behind(at_);
      const bool has_sign = sign == '-' || (sign == '+' && !is_output);
      if (closers.empty() && rest().substr(has_sign ? 1 : 0).starts_with(end)) {
        add(is_output ? TokenKind::end_output : TokenKind::end_block, "");
        advance(has_sign ? 3 : 2);
        if (!is_output) return end_block(has_sign ? sign : '\0');
        if (has_sign) skip_space();
        return;
      }
      read_word(closers);
    }
  }

  void read_word(std::string& closers) {
    const char c = peek();
    if (c == '"' || c == '\'') return read_string(c);
    if (is_digit_character(c)) return read_number();
    if (is_name_character(c)) {
      std::size_t end = 0;
      while (is_name_character(peek(end))) ++end;
      add(TokenKind::name, std::string(rest().substr(0, end)));
      return advance(end);
    }
    read_symbol(closers);
  }

  void read_symbol(std::string& closers) {
    constexpr std::array<std::string_view, 26> kSymbols = {"//", "**", "==", "!=", ">=", "<=", "+", "-", "/",
                                                           "*",  "%",  "~",  "[",  "]",  "(",  ")", "{", "}",
                                                           ">",  "<",  "=",  ".",  ":",  "|",  ",", ";"};
    const auto* found =
        std::ranges::find_if(kSymbols, [&](std::string_view symbol) { return rest().starts_with(symbol); });
    if (found == kSymbols.end()) {
      const std::size_t bytes = text::character_bytes(peek());
      refuse(fmt::format("'{}' is not expected in a tag", rest().substr(0, bytes)));
    }
    const char c = (*found)[0];
    if (c == '(') closers += ')';
    if (c == '[') closers += ']';
    if (c == '{') closers += '}';
    if (c == ')' || c == ']' || c == '}') {
      if (closers.empty()) refuse(fmt::format("this '{}' closes nothing", c));
      if (closers.back() != c) refuse(fmt::format("'{}' is here where '{}' is expected", c, closers.back()));
      closers.pop_back();
    }
    add(TokenKind::symbol, std::string(*found));
    advance(found->size());
  }

  void read_string(char quote) {
    std::size_t end = 1;
    while (at_ + end < source_.size() && peek(end) != quote) end += peek(end) == '\\' ? 2 : 1;
    if (at_ + end >= source_.size()) refuse("this text has no end: its quote is missing");
    add(TokenKind::string, unescaped(rest().substr(1, end - 1), line_));
    advance(end + 1);
  }

  /// Digits and single underscores between them.
  std::size_t digits_end(std::size_t end) const {
    while (is_digit_character(peek(end)) || (peek(end) == '_' && is_digit_character(peek(end + 1)))) ++end;
    return end;
  }

  void read_number() {
    if (peek() == '0' && std::string_view("bBoOxX").find(peek(1)) != kNowhere && peek(1) != '\0')
      refuse("numbers of other bases than ten are not supported");
    std::size_t end = digits_end(0);
    bool is_real = false;
    // What stands behind a dot is an element's number: x.0.1.
    const bool may_be_real = at_ == 0 || source_[at_ - 1] != '.';
    if (may_be_real && peek(end) == '.' && is_digit_character(peek(end + 1))) {
      is_real = true;
      end = digits_end(end + 1);
    }
    const std::size_t sign = peek(end + 1) == '+' || peek(end + 1) == '-' ? 1 : 0;
    if (may_be_real && (peek(end) | 0x20) == 'e' && is_digit_character(peek(end + 1 + sign))) {
      is_real = true;
      end = digits_end(end + 1 + sign);
    }
    std::string digits(rest().substr(0, end));
    std::erase(digits, '_');
    add(is_real ? TokenKind::real : TokenKind::integer, digits);
    advance(end);
  }

  std::string source_;
  std::size_t at_ = 0;
  int line_ = 1;
  bool is_line_start_ = true;
  std::vector<Token> tokens_;
};

}  // namespace

std::vector<Token> tokens_of(std::string_view source) {
  return Lexer(normalized(source)).run();
}

}  // namespace strata::chat
