#include <algorithm>
#include <compare>

#include "engine/input/chat/filters.h"
#include "engine/input/chat/operators.h"
#include "engine/input/chat/problem.h"
#include "engine/input/chat/text_operations.h"
#include "engine/input/text/letter_case.h"

namespace strata::chat {
namespace {

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

}  // namespace

const FilterTable& order_filters() {
  static const FilterTable table{
      {"sort", sort_filter},          {"dictsort", dict_sort_filter}, {"unique", unique_filter},
      {"min", extreme_filter<false>}, {"max", extreme_filter<true>},
  };
  return table;
}

}  // namespace strata::chat
