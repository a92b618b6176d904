#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <compare>

#include "engine/input/chat/growing.h"
#include "engine/input/chat/operators.h"
#include "engine/input/chat/problem.h"
#include "engine/input/chat/python_text.h"
#include "engine/input/text/utf8.h"

namespace strata::chat {
namespace {

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

std::string json_of(Runtime& runtime, const Value& value, const JsonForm& form) {
  JsonWriter writer(runtime, form);
  writer.write(value, 0);
  return writer.take();
}

}  // namespace strata::chat
