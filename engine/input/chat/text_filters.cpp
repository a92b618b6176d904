#include <fmt/format.h>

#include "base/nth.h"
#include "engine/input/chat/builtins.h"
#include "engine/input/chat/format_text.h"
#include "engine/input/chat/growing.h"
#include "engine/input/chat/markup.h"
#include "engine/input/chat/operators.h"
#include "engine/input/chat/problem.h"
#include "engine/input/chat/python_text.h"
#include "engine/input/chat/text_operations.h"
#include "engine/input/text/letter_case.h"
#include "engine/input/text/utf8.h"

namespace strata::chat {
namespace {

Value string_filter(Runtime& runtime, const Value& value, const Arguments& arguments) {
  const Parameters none("string", arguments, {});
  return value.is_text() ? value : Value(printed(runtime, value));
}

Value safe_filter(Runtime& runtime, const Value& value, const Arguments& arguments) {
  const Parameters none("safe", arguments, {});
  return Value::markup(printed(runtime, value));
}

Value escape_filter(Runtime& runtime, const Value& value, const Arguments& arguments) {
  const Parameters none("escape", arguments, {});
  return escaped(runtime.meter(), value.is_text() ? value : Value(printed(runtime, value)));
}

Value lower_filter(Runtime& runtime, const Value& value, const Arguments& arguments) {
  const Parameters none("lower", arguments, {});
  return like(value, text::lower_case(printed(runtime, value)));
}

Value upper_filter(Runtime& runtime, const Value& value, const Arguments& arguments) {
  const Parameters none("upper", arguments, {});
  return like(value, text::upper_case(printed(runtime, value)));
}

Value capitalize_filter(Runtime& runtime, const Value& value, const Arguments& arguments) {
  const Parameters none("capitalize", arguments, {});
  return like(value, text::capitalized(printed(runtime, value)));
}

/// Words begin behind white space, hyphens and opening brackets; what is between words keeps its case.
Value title_filter(Runtime& runtime, const Value& value, const Arguments& arguments) {
  const Parameters none("title", arguments, {});
  const std::string whole = printed(runtime, value);
  std::string titled;
  std::size_t word = 0;
  const auto end_word = [&](std::size_t end) {
    if (word == end) return;
    const std::size_t first = text::character_bytes(whole[word]);
    titled += text::upper_case(std::string_view(whole).substr(word, first));
    titled += text::lower_case(std::string_view(whole).substr(word + first, end - word - first));
  };
  text::for_each_character(whole, [&](char32_t c, std::size_t begin, std::size_t end) {
    const bool separates =
        is_python_space(c) ||
        (c < 0x80 && std::string_view("-({[<").find(static_cast<char>(c)) != std::string_view::npos);
    if (!separates) return;
    end_word(begin);
    titled.append(whole, begin, end - begin);
    word = end;
  });
  end_word(whole.size());
  return titled;
}

Value trim_filter(Runtime& runtime, const Value& value, const Arguments& arguments) {
  const Parameters given("trim", arguments, {"chars"});
  const std::string* characters = given.some(0) == nullptr ? nullptr : &given.text(0);
  return like(value, std::string(stripped(printed(runtime, value), characters, Side::both)));
}

Value replace_filter(Runtime& runtime, const Value& value, const Arguments& arguments) {
  const Parameters given("replace", arguments, {"old", "new", "count"}, 2);
  const std::int64_t most = given.some(2) == nullptr ? -1 : given.integer(2, -1);
  return replaced(runtime.meter(), printed(runtime, value), printed(runtime, *given[0]),
                  printed(runtime, *given[1]), most);
}

Value indent_filter(Runtime& runtime, const Value& value, const Arguments& arguments) {
  const Parameters given("indent", arguments, {"width", "first", "blank"});
  std::string indent(4, ' ');
  if (given[0] != nullptr && given[0]->is_text()) {
    indent = *given[0]->text();
  } else {
    const std::int64_t width = std::max(given.integer(0, 4), std::int64_t{0});
    runtime.meter().check_bytes(width);
    indent.assign(static_cast<std::size_t>(width), ' ');
  }
  if (!value.is_text()) refuse_operands("+", value, "\n");
  // Python's splitlines() of a text that ends with a line break: the break makes no further line.
  const std::string text = *value.text() + "\n";
  GrowingText indented(runtime.meter());
  if (given.flag(1, false)) indented += indent;
  const auto lines = split_lines(runtime.meter(), text, false);
  for (std::size_t i = 0; i < lines.size(); ++i) {
    if (i > 0) indented += '\n';
    if (i > 0 && (!lines[i].empty() || given.flag(2, false))) indented += indent;
    indented += lines[i];
  }
  return like(value, indented.take());
}

Value center_filter(Runtime& runtime, const Value& value, const Arguments& arguments) {
  const Parameters given("center", arguments, {"width"});
  return centered(runtime.meter(), printed(runtime, value), given.integer(0, 80), " ");
}

Value truncate_filter(Runtime&, const Value& value, const Arguments& arguments) {
  const Parameters given("truncate", arguments, {"length", "killwords", "end", "leeway"});
  const std::int64_t most = given.integer(0, 255);
  const std::int64_t leeway = given.some(3) == nullptr ? 5 : given.integer(3, 5);
  const std::string end = given[2] == nullptr ? "..." : given.text(2);
  if (length(value) <= most + leeway) return value;
  const std::int64_t kept = most - length(Value(end));
  if (kept < 0) throw Problem("'truncate' needs a length that is not less than its end's");
  if (!value.is_text()) throw Problem("'truncate' needs a text");
  std::string text = *slice(value, {}, kept, {}).text();
  const std::size_t space = text.rfind(' ');
  if (!given.flag(1, false) && space != std::string::npos) text.resize(space);
  return text + end;
}

Value format_filter(Runtime& runtime, const Value& value, const Arguments& arguments) {
  if (value.is_markup()) throw Problem("'format' of what is safe is not supported");
  if (!arguments.positional.empty() && !arguments.named.empty())
    throw Problem("'format' takes positional or named arguments, not both");
  if (arguments.named.empty())
    return percent_formatted(runtime, printed(runtime, value), tuple(arguments.positional));
  Dict named;
  for (const auto& [name, argument] : arguments.named) named.set(name, argument);
  return percent_formatted(runtime, printed(runtime, value), named);
}

Value to_json_filter(Runtime& runtime, const Value& value, const Arguments& arguments) {
  const Parameters given("tojson", arguments, {"ensure_ascii", "indent", "separators", "sort_keys"});
  JsonForm form{.ensures_ascii = given.flag(0, false), .sorts_keys = given.flag(3, false), .indent = {}};
  if (const Value* indent = given.some(1)) {
    form.item_separator.resize(1);  // without the space
    const bool is_text = indent->is_text();
    const std::int64_t width = is_text ? 0 : std::max(given.integer(1, 0), std::int64_t{0});
    runtime.meter().check_bytes(width);
    form.indent = is_text ? *indent->text() : sized<std::string>(width, ' ');
  }
  if (const Value* separators = given.some(2)) {
    const std::vector<Value> parts = items_of(runtime, *separators);
    if (parts.size() != 2 || !parts[0].is_text() || !parts[1].is_text())
      throw Problem("'tojson' needs two texts as its separators");
    form.item_separator = *parts[0].text();
    form.key_separator = *parts[1].text();
  }
  return json_of(runtime, value, form);
}

Value word_count_filter(Runtime& runtime, const Value& value, const Arguments& arguments) {
  const Parameters none("wordcount", arguments, {});
  std::int64_t count = 0;
  bool is_within = false;
  text::for_each_character(printed(runtime, value), [&](char32_t c, std::size_t, std::size_t) {
    const bool is_part = c == '_' || text::is_letter(c) || text::has_number(c);
    count += is_part && !is_within ? 1 : 0;
    is_within = is_part;
  });
  return count;
}

}  // namespace

const FilterTable& text_filters() {
  static const FilterTable table{
      {"string", string_filter},         {"safe", safe_filter},     {"e", escape_filter},
      {"escape", escape_filter},         {"lower", lower_filter},   {"upper", upper_filter},
      {"capitalize", capitalize_filter}, {"title", title_filter},   {"trim", trim_filter},
      {"replace", replace_filter},       {"indent", indent_filter}, {"center", center_filter},
      {"truncate", truncate_filter},     {"format", format_filter}, {"tojson", to_json_filter},
      {"wordcount", word_count_filter},
  };
  return table;
}

}  // namespace strata::chat
