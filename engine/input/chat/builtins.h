// What a template may call by a name: Jinja's filters, its tests, functions, and the methods of Python's
// types. Plain functions; Jinja's and Python's manuals say what each does.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string_view>

#include "engine/input/chat/runtime.h"
#include "engine/input/chat/scope.h"

namespace strata::chat {

// Jinja's filters: `value | name(arguments)`.

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

// Jinja's tests: `value is name(arguments)`.

using Test = bool (*)(Runtime&, const Value&, const Arguments&);
using TestTable = std::map<std::string_view, Test>;

/// Null if there is no such test.
Test find_test(std::string_view name);

const TestTable& all_tests();

// The functions that transformers gives to templates: range, dict, namespace, raise_exception, strftime_now.

/// `now_seconds` since 1970 is what strftime_now() takes for now; nothing: the clock.
void add_functions(Runtime& runtime, Scope& scope, std::optional<std::int64_t> now_seconds);

/// Throws Problem for a function of Jinja's that is not supported.
void check_supported_function(std::string_view name);

// The methods of Python's str, list, tuple and dict that templates may call: those that change nothing.

/// An unsafe one would change the value, or reach into Python; to the sandbox it is undefined.
enum class MethodKind : std::uint8_t { none, method, unsafe };

MethodKind kind_of_method(const Value& value, std::string_view name);

/// REQUIRES: kind_of_method(value, name) is method. Throws Problem for one that is not supported.
Value call_method(Runtime& runtime, const Value& value, std::string_view name, const Arguments& arguments);

using TextMethod = Value (*)(Runtime&, const std::string&, const Arguments&);
using TextMethodTable = std::map<std::string_view, TextMethod>;
/// The methods of str by what they give: other texts, parts of a text, or an answer about it. Null is one
/// that is not supported.
const TextMethodTable& changing_text_methods();
const TextMethodTable& splitting_text_methods();
const TextMethodTable& asking_text_methods();

}  // namespace strata::chat
