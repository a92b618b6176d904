#include "collectives/call.h"

#include <fmt/format.h>

#include <array>

#include "base/nth.h"

namespace strata {

std::string_view name_of(Element element) {
  constexpr std::array<std::string_view, 4> kNames = {"bytes", "fp32", "bf16", "fp64"};
  return nth(kNames, element);
}

std::string_view name_of(ReduceOp op) {
  constexpr std::array<std::string_view, 3> kNames = {"sum", "min", "max"};
  return nth(kNames, op);
}

std::string describe(const Call& call) {
  std::string text(call.operation);
  if (call.count) text += fmt::format(" of {} {}", *call.count, name_of(call.element));
  if (call.op && *call.op != ReduceOp::sum) text += fmt::format(" ({})", name_of(*call.op));
  if (call.root) text += fmt::format(" (root {})", *call.root);
  return text;
}

std::string waited_sentence(const Call& call, std::string_view self, double seconds, std::string_view peers) {
  return fmt::format("{} on {} waited {:g} s for {}", describe(call), self, seconds, peers);
}

std::string ended_sentence(const Call& call, std::string_view self, std::string_view failure) {
  return fmt::format("{} on {} ended: {}", describe(call), self, failure);
}

}  // namespace strata
