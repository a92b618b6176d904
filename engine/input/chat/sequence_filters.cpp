#include <fmt/format.h>

#include <algorithm>

#include "engine/input/chat/filters.h"
#include "engine/input/chat/growing.h"
#include "engine/input/chat/operators.h"
#include "engine/input/chat/problem.h"
#include "engine/input/chat/python_text.h"
#include "engine/input/chat/text_operations.h"

namespace strata::chat {
namespace {

Value length_filter(Runtime&, const Value& value, const Arguments& arguments) {
  const Parameters none("length", arguments, {});
  return length(value);
}

Value first_filter(Runtime& runtime, const Value& value, const Arguments& arguments) {
  const Parameters none("first", arguments, {});
  Walk walk(runtime, value);
  Value first;
  return walk.next(first) ? first : Value::undefined("No first item, sequence was empty.");
}

/// A list's items from its end. Throws Problem for what Python cannot reverse.
std::vector<Value> items_from_end(Runtime& runtime, const Value& value) {
  if (value.object() != nullptr)
    throw Problem(fmt::format("'{}' object is not reversible", type_name(value)));
  std::vector<Value> items = items_of(runtime, value);
  std::ranges::reverse(items);
  return items;
}

Value last_filter(Runtime& runtime, const Value& value, const Arguments& arguments) {
  const Parameters none("last", arguments, {});
  if (value.is_text() || (value.sequence() != nullptr && value.sequence()->kind <= SequenceKind::range)) {
    const auto last = element(value, -1);
    return last ? *last : Value::undefined("No last item, sequence was empty.");
  }
  const std::vector<Value> items = items_from_end(runtime, value);
  return items.empty() ? Value::undefined("No last item, sequence was empty.") : items.front();
}

/// Gives the items one by one.
Value iterator_over(Runtime& runtime, std::vector<Value> items) {
  return runtime.iterator([items = std::move(items), at = std::size_t{0}](Value& item) mutable {
    if (at == items.size()) return false;
    item = items[at++];
    return true;
  });
}

Value reverse_filter(Runtime& runtime, const Value& value, const Arguments& arguments) {
  const Parameters none("reverse", arguments, {});
  if (value.is_text()) return slice(value, {}, {}, -1);
  if (value.object() == nullptr) return iterator_over(runtime, items_from_end(runtime, value));
  std::vector<Value> items = items_of(runtime, value);
  std::ranges::reverse(items);
  return list(std::move(items));
}

Value list_filter(Runtime& runtime, const Value& value, const Arguments& arguments) {
  const Parameters none("list", arguments, {});
  return list(items_of(runtime, value));
}

Value items_filter(Runtime& runtime, const Value& value, const Arguments& arguments) {
  const Parameters none("items", arguments, {});
  // Lazy, as in Jinja: what is no dict is an error only where something looks at its items.
  return runtime.iterator([value, at = std::size_t{0}](Value& item) mutable {
    if (value.is_undefined()) return false;
    const Dict* dict = value.dict();
    if (dict == nullptr) throw Problem("Can only get item pairs from a mapping.");
    if (at == dict->entries.size()) return false;
    item = tuple({dict->entries[at].first, dict->entries[at].second});
    ++at;
    return true;
  });
}

Value join_filter(Runtime& runtime, const Value& value, const Arguments& arguments) {
  const Parameters given("join", arguments, {"d", "attribute"});
  const std::string separator = given[0] == nullptr ? "" : printed(runtime, *given[0]);
  GrowingText joined(runtime.meter());
  Walk walk(runtime, value);
  bool is_first = true;
  for (Value item; walk.next(item); is_first = false) {
    if (!is_first) joined += separator;
    joined += printed(runtime, given.some(1) == nullptr ? item : attribute_by_path(runtime, item, *given[1]));
  }
  return joined.take();
}

Value sum_filter(Runtime& runtime, const Value& value, const Arguments& arguments) {
  const Parameters given("sum", arguments, {"attribute", "start"});
  Value sum = given[1] == nullptr ? Value(0) : *given[1];
  if (sum.is_text()) throw Problem("sum() can't sum strings [use ''.join(seq) instead]");
  Walk walk(runtime, value);
  for (Value item; walk.next(item);) {
    if (given.some(0) != nullptr) item = attribute_by_path(runtime, item, *given[0]);
    sum = arithmetic(runtime.meter(), Arithmetic::add, sum, item);
  }
  return sum;
}

Value batch_filter(Runtime& runtime, const Value& value, const Arguments& arguments) {
  const Parameters given("batch", arguments, {"linecount", "fill_with"}, 1);
  const auto size = static_cast<std::size_t>(std::max(given.integer(0, 1), std::int64_t{1}));
  std::vector<Value> batches, batch;
  for (const Value& item : items_of(runtime, value)) {
    if (batch.size() == size) batches.push_back(list(std::exchange(batch, {})));
    batch.push_back(item);
  }
  if (!batch.empty()) {
    if (given.some(1) != nullptr) {
      runtime.meter().check_bytes(static_cast<std::int64_t>(size), sizeof(Value));
      batch.resize(size, *given[1]);
    }
    batches.push_back(list(std::move(batch)));
  }
  return iterator_over(runtime, std::move(batches));
}

}  // namespace

const FilterTable& sequence_filters() {
  static const FilterTable table{
      {"length", length_filter},   {"count", length_filter}, {"first", first_filter}, {"last", last_filter},
      {"reverse", reverse_filter}, {"list", list_filter},    {"items", items_filter}, {"join", join_filter},
      {"sum", sum_filter},         {"batch", batch_filter},
  };
  return table;
}

}  // namespace strata::chat
