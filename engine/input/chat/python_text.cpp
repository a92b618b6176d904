#include "engine/input/chat/python_text.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <compare>

#include <fmt/format.h>

#include "engine/input/chat/growing.h"
#include "engine/input/chat/object.h"
#include "engine/input/chat/operators.h"
#include "engine/input/chat/problem.h"
#include "engine/input/text/letter_case.h"
#include "engine/input/text/utf8.h"

namespace strata::chat {
namespace {

void append_repr(Runtime& runtime, const Value& value, GrowingText& out);

void append_items(Runtime& runtime, const Sequence& sequence, GrowingText& out) {
  for (std::size_t i = 0; i < sequence.items.size(); ++i) {
    if (i > 0) out += ", ";
    append_repr(runtime, sequence.items[i], out);
  }
}

void append_sequence(Runtime& runtime, const Sequence& sequence, GrowingText& out) {
  if (sequence.kind == SequenceKind::tuple) {
    out += '(';
    append_items(runtime, sequence, out);
    out += sequence.items.size() == 1 ? ",)" : ")";
    return;
  }
  const bool is_list = sequence.kind == SequenceKind::list;
  if (sequence.kind == SequenceKind::range) {
    // With the fewest numbers that Python would need for it.
    const auto number = [&](std::size_t i) { return *sequence.items[i].integer(); };
    const std::size_t size = sequence.items.size();
    const std::int64_t step = size > 1 ? number(1) - number(0) : 1;
    const std::int64_t begin = size > 0 ? number(0) : 0, end = size > 0 ? number(size - 1) + step : 0;
    out += step == 1 ? fmt::format("range({}, {})", begin, end)
                     : fmt::format("range({}, {}, {})", begin, end, step);
    return;
  }
  if (!is_list) (out += type_name(Value(sequence))) += "(";
  out += '[';
  append_items(runtime, sequence, out);
  out += is_list ? "]" : "])";
}

void append_dict(Runtime& runtime, const Dict& dict, GrowingText& out) {
  out += '{';
  for (std::size_t i = 0; i < dict.entries.size(); ++i) {
    if (i > 0) out += ", ";
    append_repr(runtime, dict.entries[i].first, out);
    out += ": ";
    append_repr(runtime, dict.entries[i].second, out);
  }
  out += '}';
}

void append_repr(Runtime& runtime, const Value& value, GrowingText& out) {
  runtime.meter().count_steps(1);
  if (const std::string* text = value.text()) {
    out += value.is_markup() ? fmt::format("Markup({})", repr_of_text(*text)) : repr_of_text(*text);
  } else if (const Sequence* sequence = value.sequence()) {
    append_sequence(runtime, *sequence, out);
  } else if (const Dict* dict = value.dict()) {
    append_dict(runtime, *dict, out);
  } else if (value.is_undefined()) {
    out += "Undefined";
  } else {
    out += printed(runtime, value);
  }
}

void append_code(std::uint32_t unit, GrowingText& out) {
  out += fmt::format("\\u{:04x}", unit);
}

void append_json_text(std::string_view text, bool ensures_ascii, GrowingText& out) {
  out += '"';
  text::for_each_character(text, [&](char32_t c, std::size_t begin, std::size_t end) {
    constexpr std::string_view kEscaped = "\"\\\n\r\t\f\b", kLetters = "\"\\nrtfb";
    const std::size_t escaped = c < 0x80 ? kEscaped.find(static_cast<char>(c)) : std::string_view::npos;
    const auto number = static_cast<std::uint32_t>(c);
    if (escaped != std::string_view::npos) {
      (out += '\\') += kLetters[escaped];
    } else if (c < 0x20 || (ensures_ascii && c >= 0x7f && c < 0x10000)) {
      append_code(number, out);
    } else if (ensures_ascii && c >= 0x10000) {
      append_code(0xd800 + ((number - 0x10000) >> 10), out);
      append_code(0xdc00 + ((number - 0x10000) & 0x3ff), out);
    } else {
      out += text.substr(begin, end - begin);
    }
  });
  out += '"';
}

class JsonWriter {
 public:
  JsonWriter(Runtime& runtime, const JsonForm& form)
      : runtime_(runtime), form_(form), out_(runtime.meter()) {}

  void write(const Value& value, int level) {
    runtime_.meter().count_steps(1);
    if (const Sequence* sequence = value.sequence()) return write_list(*sequence, level);
    if (const Dict* dict = value.dict()) return write_dict(*dict, level);
    if (const std::string* text = value.text()) {
      append_json_text(*text, form_.ensures_ascii, out_);
    } else {
      out_ += scalar(value);
    }
  }

  std::string take() { return out_.take(); }

 private:
  std::string scalar(const Value& value) const {
    if (value.is_none()) return "null";
    if (const bool* flag = value.flag()) return *flag ? "true" : "false";
    if (const auto number = value.integer()) return std::to_string(*number);
    const double* number = value.real();
    if (number == nullptr)
      throw Problem(fmt::format("Object of type {} is not JSON serializable", type_name(value)));
    if (std::isnan(*number)) return "NaN";
    if (std::isinf(*number)) return *number < 0 ? "-Infinity" : "Infinity";
    return repr_of_number(*number);
  }

  std::string key_text(const Value& key) const { return key.is_text() ? *key.text() : scalar(key); }

  void begin_line(int level) {
    if (!form_.indent) return;
    out_ += '\n';
    out_.append(level, *form_.indent);
  }

  template <typename Items, typename Write>
  void write_items(const Items& items, const char* brackets, int level, const Write& write_item) {
    out_ += brackets[0];
    for (std::size_t i = 0; i < items.size(); ++i) {
      if (i > 0) out_ += form_.item_separator;
      begin_line(level + 1);
      write_item(items[i]);
    }
    if (!items.empty()) begin_line(level);
    out_ += brackets[1];
  }

  void write_list(const Sequence& sequence, int level) {
    if (sequence.kind > SequenceKind::tuple) {
      throw Problem(fmt::format("Object of type {} is not JSON serializable", type_name(Value(sequence))));
    }
    write_items(sequence.items, "[]", level, [&](const Value& item) { write(item, level + 1); });
  }

  void write_dict(const Dict& dict, int level) {
    auto entries = dict.entries;
    if (form_.sorts_keys) {
      std::ranges::stable_sort(entries, [&](const auto& left, const auto& right) {
        return std::is_lt(order(runtime_.meter(), left.first, right.first, "<"));
      });
    }
    write_items(entries, "{}", level, [&](const auto& entry) {
      append_json_text(key_text(entry.first), form_.ensures_ascii, out_);
      out_ += form_.key_separator;
      write(entry.second, level + 1);
    });
  }

  Runtime& runtime_;
  const JsonForm& form_;
  GrowingText out_;
};

}  // namespace

std::string printed(Runtime& runtime, const Value& value) {
  if (const std::string* text = value.text()) return *text;
  if (value.is_undefined()) return "";
  if (value.is_none()) return "None";
  if (const bool* flag = value.flag()) return *flag ? "True" : "False";
  if (const auto number = value.integer()) return std::to_string(*number);
  if (const double* number = value.real()) return repr_of_number(*number);
  if (const Object* object = value.object()) return object->text(runtime);
  return repr(runtime, value);
}

std::string repr(Runtime& runtime, const Value& value) {
  GrowingText out(runtime.meter());
  append_repr(runtime, value, out);
  return out.take();
}

std::string repr_of_text(std::string_view text) {
  const bool has_single = text.find('\'') != std::string_view::npos;
  const char quote = has_single && text.find('"') == std::string_view::npos ? '"' : '\'';
  std::string out(1, quote);
  text::for_each_character(text, [&](char32_t c, std::size_t begin, std::size_t end) {
    const auto number = static_cast<std::uint32_t>(c);
    if (c == '\\' || c == static_cast<char32_t>(quote)) {
      out.append({'\\', static_cast<char>(c)});
    } else if (c == '\n' || c == '\r' || c == '\t') {
      out += c == '\n' ? "\\n" : c == '\r' ? "\\r" : "\\t";
    } else if (text::is_printable(c)) {
      out.append(text.substr(begin, end - begin));
    } else {
      out += number < 0x100     ? fmt::format("\\x{:02x}", number)
             : number < 0x10000 ? fmt::format("\\u{:04x}", number)
                                : fmt::format("\\U{:08x}", number);
    }
  });
  return out += quote;
}

std::string repr_of_number(double number) {
  if (std::isnan(number)) return "nan";
  if (std::isinf(number)) return number < 0 ? "-inf" : "inf";
  char buffer[64];
  const auto written =
      std::to_chars(std::begin(buffer), std::end(buffer), number, std::chars_format::scientific);
  const std::string_view scientific(buffer, static_cast<std::size_t>(written.ptr - buffer));
  const std::size_t e = scientific.find('e');
  int exponent = 0;
  const std::size_t digits = scientific[e + 1] == '+' ? e + 2 : e + 1;
  std::from_chars(scientific.data() + digits, scientific.data() + scientific.size(), exponent);
  // Python's limits: repr() writes an exponent beyond them.
  if (exponent < -4 || exponent >= 16) return std::string(scientific);
  const auto fixed = std::to_chars(std::begin(buffer), std::end(buffer), number, std::chars_format::fixed);
  std::string text(buffer, fixed.ptr);
  return text.find('.') == std::string::npos ? text + ".0" : text;
}

std::string json_of(Runtime& runtime, const Value& value, const JsonForm& form) {
  JsonWriter writer(runtime, form);
  writer.write(value, 0);
  return writer.take();
}

}  // namespace strata::chat
