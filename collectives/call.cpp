#include "collectives/call.h"

#include <fmt/format.h>

#include <array>

namespace strata {

std::string_view name_of(Element element) {
  constexpr std::array<std::string_view, 4> kNames = {"bytes", "fp32", "bf16", "fp64"};
  return kNames[static_cast<std::size_t>(element)];
}

std::string_view name_of(ReduceOp op) {
  constexpr std::array<std::string_view, 3> kNames = {"sum", "min", "max"};
  return kNames[static_cast<std::size_t>(op)];
}

std::string describe(const Call& call) {
  if (!call.count) return std::string(call.operation);
  return fmt::format("{} of {} {}", call.operation, *call.count, name_of(call.element));
}

std::string waited_sentence(const Call& call, std::string_view self, double seconds, std::string_view peers) {
  return fmt::format("{} on {} waited {:g} s for {}", describe(call), self, seconds, peers);
}

std::string ended_sentence(const Call& call, std::string_view self, std::string_view failure) {
  return fmt::format("{} on {} ended: {}", describe(call), self, failure);
}

}  // namespace strata
