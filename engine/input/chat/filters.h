// Jinja's filters: `value | name(arguments)`. Plain functions; see Jinja's manual for what each does.
#pragma once

#include <map>
#include <string_view>

#include "engine/input/chat/runtime.h"

namespace strata::chat {

using Filter = Value (*)(Runtime&, const Value&, const Arguments&);
using FilterTable = std::map<std::string_view, Filter>;

/// Null if there is no such filter.
Filter find_filter(std::string_view name);

/// The filters by what they are about.
const FilterTable& text_filters();
const FilterTable& value_filters();
const FilterTable& sequence_filters();
/// Those that apply other filters, tests or attributes to each element.
const FilterTable& element_filters();
const FilterTable& order_filters();

/// An attribute of Jinja's: "a.b.0" is the element 0 of the attribute b of the attribute a; a number is an
/// element; None is the value itself.
Value attribute_by_path(Runtime& runtime, const Value& value, const Value& path);

}  // namespace strata::chat
