// Filters of sequences. Those that look at elements one by one do so when somebody asks for the next: an
// element that nobody asks for raises no error.
#include <algorithm>
#include <compare>

#include <fmt/format.h>

#include "engine/input/chat/builtins.h"
#include "engine/input/chat/growing.h"
#include "engine/input/chat/operators.h"
#include "engine/input/chat/problem.h"
#include "engine/input/chat/python_text.h"
#include "engine/input/chat/text_operations.h"
#include "engine/input/text/letter_case.h"

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

Value without_case(const Value& value) {
  return !value.is_text() ? value : Value(text::lower_case(*value.text()));
}

struct Keyed {
  Value key, item;
};

void sort_by_key(Runtime& runtime, std::vector<Keyed>& items, bool is_reversed) {
  // std::stable_sort may run out of its arrays where an order contradicts itself, as one with NaN does.
  std::vector<Keyed> sorted;
  const auto before = [&](const Value& left, const Value& right) {
    return std::is_lt(order(runtime.meter(), left, right, "<"));
  };
  // Python sorts in reverse so that equal items keep their order.
  for (std::size_t width = 1; width < items.size(); width *= 2) {
    sorted.clear();
    for (std::size_t begin = 0; begin < items.size(); begin += 2 * width) {
      const std::size_t middle = std::min(begin + width, items.size()),
                        end = std::min(begin + 2 * width, items.size());
      for (std::size_t i = begin, j = middle; i < middle || j < end;) {
        const bool takes_right =
            i == middle || (j < end && (is_reversed ? before(items[i].key, items[j].key)
                                                    : before(items[j].key, items[i].key)));
        sorted.push_back(items[takes_right ? j++ : i++]);
      }
    }
    items.swap(sorted);
  }
}

std::vector<Value> items_in_order(Runtime& runtime, std::vector<Keyed>& items, bool is_reversed) {
  sort_by_key(runtime, items, is_reversed);
  std::vector<Value> sorted;
  sorted.reserve(items.size());
  for (Keyed& each : items) sorted.push_back(std::move(each.item));
  return sorted;
}

Value sort_filter(Runtime& runtime, const Value& value, const Arguments& arguments) {
  const Parameters given("sort", arguments, {"reverse", "case_sensitive", "attribute"});
  std::vector<Value> paths{Value()};
  if (given.some(2) != nullptr) paths[0] = *given[2];
  if (paths[0].is_text()) {
    const std::string names = *paths[0].text();
    paths.clear();
    for (const std::string_view name : split_at(runtime.meter(), names, ",", -1, Side::left))
      paths.emplace_back(name);
  }
  std::vector<Keyed> items;
  for (const Value& item : items_of(runtime, value)) {
    std::vector<Value> keys;
    for (const Value& path : paths) {
      const Value key = attribute_by_path(runtime, item, path);
      keys.push_back(given.flag(1, false) ? key : without_case(key));
    }
    items.push_back({list(std::move(keys)), item});
  }
  return list(items_in_order(runtime, items, given.flag(0, false)));
}

Value dict_sort_filter(Runtime& runtime, const Value& value, const Arguments& arguments) {
  const Parameters given("dictsort", arguments, {"case_sensitive", "by", "reverse"});
  const std::string by = given[1] == nullptr ? "key" : given.text(1);
  if (by != "key" && by != "value") throw Problem("You can only sort by either \"key\" or \"value\"");
  check_defined(value);
  if (value.dict() == nullptr) throw Problem("'dictsort' needs a dict");
  std::vector<Keyed> items;
  for (const auto& [name, held] : value.dict()->entries) {
    const Value& key = by == "key" ? name : held;
    items.push_back({given.flag(0, false) ? key : without_case(key), tuple({name, held})});
  }
  return list(items_in_order(runtime, items, given.flag(2, false)));
}

template <bool wants_largest>
Value extreme_filter(Runtime& runtime, const Value& value, const Arguments& arguments) {
  const Parameters given("min", arguments, {"case_sensitive", "attribute"});
  const auto key_of = [&](const Value& item) {
    const Value key = given.some(1) == nullptr ? item : attribute_by_path(runtime, item, *given[1]);
    return given.flag(0, false) ? key : without_case(key);
  };
  Walk walk(runtime, value);
  Value best;
  if (!walk.next(best)) return Value::undefined("No aggregated item, sequence was empty.");
  Value best_key = key_of(best);
  for (Value item; walk.next(item);) {
    const Value key = key_of(item);
    const auto compared = order(runtime.meter(), key, best_key, wants_largest ? ">" : "<");
    if (!(wants_largest ? std::is_gt(compared) : std::is_lt(compared))) continue;
    best = item;
    best_key = key;
  }
  return best;
}

Value unique_filter(Runtime& runtime, const Value& value, const Arguments& arguments) {
  const Parameters given("unique", arguments, {"case_sensitive", "attribute"});
  std::vector<Value> seen, unique;
  for (const Value& item : items_of(runtime, value)) {
    Value key = given.some(1) == nullptr ? item : attribute_by_path(runtime, item, *given[1]);
    if (!given.flag(0, false)) key = without_case(key);
    if (key.dict() != nullptr || key.sequence() != nullptr) throw Problem("'unique' needs texts or numbers");
    const auto is_same = [&](const Value& other) { return equal(runtime.meter(), other, key); };
    if (std::ranges::any_of(seen, is_same)) continue;
    seen.push_back(key);
    unique.push_back(item);
  }
  return runtime.iterator([unique = std::move(unique), at = std::size_t{0}](Value& item) mutable {
    if (at == unique.size()) return false;
    item = unique[at++];
    return true;
  });
}

using ElementChange = std::function<Value(Runtime&, const Value&)>;
using ElementChoice = std::function<bool(Runtime&, const Value&)>;

/// A filter's walk over its value, which begins when its first element is asked for.
class LateWalk {
 public:
  LateWalk(Runtime& runtime, Value value) : runtime_(runtime), value_(std::move(value)) {}

  bool next(Value& item) {
    if (!walk_ && !is_true(value_)) return false;
    if (!walk_) walk_.emplace(runtime_, value_);
    return walk_->next(item);
  }

 private:
  Runtime& runtime_;
  Value value_;
  std::optional<Walk> walk_;
};

Arguments without_first(const Arguments& arguments, std::size_t count) {
  Arguments rest = arguments;
  rest.positional.erase(rest.positional.begin(),
                        rest.positional.begin() + static_cast<std::ptrdiff_t>(count));
  return rest;
}

const std::string& name_of(const Value& value, std::string_view kind) {
  if (!value.is_text()) throw Problem(fmt::format("a {}'s name is a text, not '{}'", kind, type_name(value)));
  return *value.text();
}

ElementChange change_of(const Arguments& arguments) {
  const Value* attribute = arguments.find("attribute");
  if (!arguments.positional.empty()) {
    return [name = name_of(arguments.positional[0], "filter"), rest = without_first(arguments, 1)](
               Runtime& runtime, const Value& item) { return runtime.filter(name, item, rest); };
  }
  if (attribute == nullptr) throw Problem("map requires a filter argument");
  for (const auto& [name, value] : arguments.named) {
    if (name != "attribute" && name != "default")
      throw Problem(fmt::format("Unexpected keyword argument '{}'", name));
  }
  const Value* otherwise = arguments.find("default");
  return [path = *attribute, otherwise = otherwise == nullptr ? Value() : *otherwise](Runtime& runtime,
                                                                                      const Value& item) {
    const Value found = attribute_by_path(runtime, item, path);
    return found.is_undefined() && !otherwise.is_none() ? otherwise : found;
  };
}

Value map_filter(Runtime& runtime, const Value& value, const Arguments& arguments) {
  return runtime.iterator(
      [&runtime, walk = LateWalk(runtime, value), arguments, change = ElementChange()](Value& item) mutable {
        Value each;
        if (!walk.next(each)) return false;
        if (!change) change = change_of(arguments);
        item = change(runtime, each);
        return true;
      });
}

ElementChoice choice_of(const Arguments& arguments, bool has_attribute) {
  const std::size_t used = has_attribute ? 1 : 0;
  if (arguments.positional.size() < used) throw Problem("Missing parameter for attribute name");
  const Value path = has_attribute ? arguments.positional[0] : Value();
  if (arguments.positional.size() == used) {
    return [path](Runtime& runtime, const Value& item) {
      return is_true(attribute_by_path(runtime, item, path));
    };
  }
  return [path, name = name_of(arguments.positional[used], "test"),
          rest = without_first(arguments, used + 1)](Runtime& runtime, const Value& item) {
    return runtime.test(name, attribute_by_path(runtime, item, path), rest);
  };
}

template <bool wanted, bool has_attribute>
Value select_filter(Runtime& runtime, const Value& value, const Arguments& arguments) {
  return runtime.iterator(
      [&runtime, walk = LateWalk(runtime, value), arguments, choice = ElementChoice()](Value& item) mutable {
        while (walk.next(item)) {
          if (!choice) choice = choice_of(arguments, has_attribute);
          if (choice(runtime, item) == wanted) return true;
        }
        return false;
      });
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

const FilterTable& order_filters() {
  static const FilterTable table{
      {"sort", sort_filter},          {"dictsort", dict_sort_filter}, {"unique", unique_filter},
      {"min", extreme_filter<false>}, {"max", extreme_filter<true>},
  };
  return table;
}

const FilterTable& element_filters() {
  static const FilterTable table{
      {"map", map_filter},
      {"select", select_filter<true, false>},
      {"reject", select_filter<false, false>},
      {"selectattr", select_filter<true, true>},
      {"rejectattr", select_filter<false, true>},
  };
  return table;
}

}  // namespace strata::chat
