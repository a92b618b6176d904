#include "engine/input/chat/builtins.h"

#include <fmt/format.h>

#include <ctime>

#include "engine/input/chat/operators.h"
#include "engine/input/chat/problem.h"
#include "engine/input/chat/python_text.h"

namespace strata::chat {
namespace {

constexpr std::int64_t kMostInRange = 100'000;  // as in Jinja's sandbox
constexpr std::size_t kMostDateBytes = 1000;

Value range_function(Runtime& runtime, const Arguments& arguments) {
  const Parameters given("range", arguments, {"start", "stop", "step"}, 1);
  if (!arguments.named.empty()) throw Problem("range() takes no keyword arguments");
  const std::int64_t begin = given[1] == nullptr ? 0 : given.integer(0, 0);
  const std::int64_t end = given.integer(given[1] == nullptr ? 0 : 1, 0), step = given.integer(2, 1);
  if (step == 0) throw Problem("range() arg 3 must not be zero");
  const auto distance = step > 0 ? static_cast<long double>(end) - static_cast<long double>(begin)
                                 : static_cast<long double>(begin) - static_cast<long double>(end);
  const auto count = distance / std::abs(static_cast<long double>(step));
  if (count > kMostInRange)
    throw Problem(
        fmt::format("Range too big. The sandbox blocks ranges larger than MAX_RANGE ({}).", kMostInRange));
  runtime.meter().check_bytes(static_cast<std::int64_t>(std::max(count, 0.0L)), sizeof(Value));
  Sequence range{.kind = SequenceKind::range};
  for (std::int64_t number = begin; step > 0 ? number < end : number > end;) {
    range.items.emplace_back(number);
    if (__builtin_add_overflow(number, step, &number)) break;
  }
  return range;
}

/// dict(other or pairs, name=value...).
Dict dict_of(Runtime& runtime, const Arguments& arguments) {
  if (arguments.positional.size() > 1) throw Problem("dict expected at most 1 argument");
  Dict dict;
  const auto add = [&](const Value& key, const Value& value) {
    runtime.meter().count_bytes(2 * sizeof(Value));
    dict.set(key, value);
  };
  if (!arguments.positional.empty()) {
    const Value& first = arguments.positional[0];
    check_defined(first);
    if (first.dict() != nullptr) {
      for (const auto& [key, value] : first.dict()->entries) add(key, value);
    } else {
      for (const Value& pair : items_of(runtime, first)) {
        const std::vector<Value> parts = items_of(runtime, pair);
        if (parts.size() != 2) throw Problem("dict() needs pairs of a key and a value");
        add(parts[0], parts[1]);
      }
    }
  }
  for (const auto& [name, value] : arguments.named) add(name, value);
  return dict;
}

Value dict_function(Runtime& runtime, const Arguments& arguments) {
  return dict_of(runtime, arguments);
}

Value namespace_function(Runtime& runtime, const Arguments& arguments) {
  Namespace& made = runtime.own<Namespace>();
  made.attributes = dict_of(runtime, arguments);
  for (const auto& [name, value] : made.attributes.entries) {
    if (name.is_text() && name.text()->starts_with('_'))
      throw Problem("a namespace cannot have attributes that begin with an underscore");
  }
  return made;
}

Value raise_exception_function(Runtime& runtime, const Arguments& arguments) {
  const Parameters given("raise_exception", arguments, {"message"}, 1);
  throw Problem(printed(runtime, *given[0]));
}

std::string date_text(const std::string& format, std::int64_t now_seconds) {
  if (format.empty()) return "";
  if (format.find("%f") != std::string::npos) throw Problem("'%f' in strftime_now is not supported");
  const std::time_t seconds = now_seconds;
  std::tm now{};
  ::localtime_r(&seconds, &now);
  std::string text(kMostDateBytes, '\0');
  text.resize(std::strftime(text.data(), text.size(), format.c_str(), &now));
  return text;
}

}  // namespace

void add_functions(Runtime& runtime, Scope& scope, std::optional<std::int64_t> now_seconds) {
  const auto add = [&](std::string_view name, std::string_view type, Function::Body body) {
    scope.set(name, runtime.own<Function>(type, std::move(body)));
  };
  add("range", "function", range_function);
  add("dict", "TemplateDict", dict_function);
  add("namespace", "type", namespace_function);
  add("raise_exception", "function", raise_exception_function);
  add("strftime_now", "function", [now_seconds](Runtime&, const Arguments& arguments) -> Value {
    const Parameters given("strftime_now", arguments, {"format"}, 1);
    return date_text(given.text(0),
                     now_seconds ? *now_seconds : static_cast<std::int64_t>(std::time(nullptr)));
  });
}

void check_supported_function(std::string_view name) {
  if (name == "cycler" || name == "joiner" || name == "lipsum")
    throw Problem(fmt::format("the function '{}' is not supported", name));
}

}  // namespace strata::chat
