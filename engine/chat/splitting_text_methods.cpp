#include "engine/chat/methods.h"
#include "engine/chat/operators.h"
#include "engine/chat/problem.h"
#include "engine/chat/text_operations.h"

namespace strata::chat {
namespace {

Value list_of_parts(Runtime& runtime, const std::vector<std::string_view>& parts) {
  runtime.meter().count_bytes(std::ssize(parts), 4 * sizeof(Value));
  std::vector<Value> values(parts.begin(), parts.end());
  return list(std::move(values));
}

/// A search from the end looks at each byte as often as the separator is long.
void count_search(Runtime& runtime, std::string_view text, std::string_view part, Side side) {
  if (side == Side::right)
    runtime.meter().count_steps(static_cast<std::int64_t>(text.size() / 64 * (1 + part.size() / 64)));
}

template <Side side>
Value split_method(Runtime& runtime, const std::string& text, const Arguments& arguments) {
  const Parameters given("split", arguments, {"sep", "maxsplit"});
  const std::int64_t most = given.integer(1, -1);
  if (given.some(0) == nullptr) return list_of_parts(runtime, split_at_space(text, most, side));
  if (given.text(0).empty()) throw Problem("empty separator");
  count_search(runtime, text, given.text(0), side);
  return list_of_parts(runtime, split_at(text, given.text(0), most, side));
}

Value split_lines_method(Runtime& runtime, const std::string& text, const Arguments& arguments) {
  const Parameters given("splitlines", arguments, {"keepends"});
  return list_of_parts(runtime, split_lines(text, given.flag(0, false)));
}

template <Side side>
Value partition_method(Runtime& runtime, const std::string& text, const Arguments& arguments) {
  const Parameters given("partition", arguments, {"sep"}, 1);
  if (given.text(0).empty()) throw Problem("empty separator");
  count_search(runtime, text, given.text(0), side);
  const auto parts = split_at(text, given.text(0), 1, side);
  if (parts.size() == 2) return tuple({parts[0], given.text(0), parts[1]});
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
