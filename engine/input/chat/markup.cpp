#include "engine/input/chat/markup.h"

#include "engine/input/chat/growing.h"

namespace strata::chat {

Value like(const Value& original, std::string text) {
  return original.is_markup() ? Value::markup(std::move(text)) : Value(std::move(text));
}

Value all_like(const Value& original, const Value& value) {
  if (!original.is_markup()) return value;
  if (const std::string* text = value.text()) return Value::markup(*text);
  const Sequence* sequence = value.sequence();
  if (sequence == nullptr) return value;
  Sequence marked{.kind = sequence->kind};
  for (const Value& item : sequence->items) marked.items.push_back(all_like(original, item));
  return marked;
}

Value escaped(Meter& meter, const Value& text) {
  if (text.is_markup()) return text;
  constexpr std::string_view kCharacters = "&<>\"'";
  constexpr std::string_view kEntities[] = {"&amp;", "&lt;", "&gt;", "&#34;", "&#39;"};
  GrowingText markup(meter);
  for (const char c : *text.text()) {
    const std::size_t special = kCharacters.find(c);
    if (special == std::string_view::npos) {
      markup += c;
    } else {
      markup += kEntities[special];
    }
  }
  return Value::markup(markup.take());
}

}  // namespace strata::chat
