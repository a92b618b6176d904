#include "engine/input/chat/filters.h"

#include <algorithm>
#include <charconv>

#include "engine/input/chat/problem.h"
#include "engine/input/chat/text_operations.h"

namespace strata::chat {

Filter find_filter(std::string_view name) {
  for (const FilterTable* table :
       {&text_filters(), &value_filters(), &sequence_filters(), &element_filters(), &order_filters()}) {
    const auto found = table->find(name);
    if (found != table->end()) return found->second;
  }
  return nullptr;
}

Value attribute_by_path(Runtime& runtime, const Value& value, const Value& path) {
  if (path.is_none()) return value;
  if (!path.is_text()) return runtime.item(value, path);
  Value part = value;
  for (const std::string_view name : split_at(runtime.meter(), *path.text(), ".", -1, Side::left)) {
    std::int64_t index = 0;
    const auto read = std::from_chars(name.data(), name.data() + name.size(), index);
    const bool is_index = std::ranges::all_of(name, [](char c) { return '0' <= c && c <= '9'; }) &&
                          !name.empty() && read.ec == std::errc();
    part = runtime.item(part, is_index ? Value(index) : Value(name));
  }
  return part;
}

}  // namespace strata::chat
