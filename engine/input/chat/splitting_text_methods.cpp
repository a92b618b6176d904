#include "engine/input/chat/methods.h"
#include "engine/input/chat/operators.h"
#include "engine/input/chat/problem.h"
#include "engine/input/chat/text_operations.h"

namespace strata::chat {
namespace {

Value list_of_parts(const std::vector<std::string_view>& parts) {
  std::vector<Value> values(parts.begin(), parts.end());
  return list(std::move(values));
}

template <Side side>
Value split_method(Runtime& runtime, const std::string& text, const Arguments& arguments) {
  const Parameters given("split", arguments, {"sep", "maxsplit"});
  const std::int64_t most = given.integer(1, -1);
  if (given.some(0) == nullptr) return list_of_parts(split_at_space(runtime.meter(), text, most, side));
  const std::string& separator = given.text(0);
  if (separator.empty()) throw Problem("empty separator");
  return list_of_parts(split_at(runtime.meter(), text, separator, most, side));
}

Value split_lines_method(Runtime& runtime, const std::string& text, const Arguments& arguments) {
  const Parameters given("splitlines", arguments, {"keepends"});
  return list_of_parts(split_lines(runtime.meter(), text, given.flag(0, false)));
}

template <Side side>
Value partition_method(Runtime& runtime, const std::string& text, const Arguments& arguments) {
  const Parameters given("partition", arguments, {"sep"}, 1);
  const std::string& separator = given.text(0);
  if (separator.empty()) throw Problem("empty separator");
  const auto parts = split_at(runtime.meter(), text, separator, 1, side);
  if (parts.size() == 2) return tuple({parts[0], separator, parts[1]});
  return side == Side::left ? tuple({text, "", ""}) : tuple({"", "", text});
}

}  // namespace

const TextMethodTable& splitting_text_methods() {
  static const TextMethodTable table{
      {"split", split_method<Side::left>},
      {"rsplit", split_method<Side::right>},
      {"splitlines", split_lines_method},
      {"partition", partition_method<Side::left>},
      {"rpartition", partition_method<Side::right>},
  };
  return table;
}

}  // namespace strata::chat
