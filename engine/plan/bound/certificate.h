// A lower bound on a step's seconds that no plan of the run beats by the same rates: none of any placement,
// order, recomputation or prefetch within its budgets. docs/explanation/bound.md derives it. Pure functions;
// any thread.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "base/enum_array.h"
#include "engine/plan/bound/step_facts.h"
#include "engine/plan/cost/rates.h"
#include "engine/plan/program/memory.h"

namespace strata {

/// What a step cannot be shorter than: what a lane has to do; what cores, the host's memory or drives have to
/// do for all lanes; or what has to happen one after another.
enum class BoundArgument : std::uint8_t { compute, h2d, d2h, cpu, cores, memory, drives, order };
inline constexpr std::array kBoundArguments = {
    BoundArgument::compute, BoundArgument::h2d,    BoundArgument::d2h,    BoundArgument::cpu,
    BoundArgument::cores,   BoundArgument::memory, BoundArgument::drives, BoundArgument::order};
constexpr const auto& values_of(BoundArgument) {
  return kBoundArguments;
}
std::string_view name_of(BoundArgument argument);
/// What limits a step, as in "limited by the drives".
std::string_view words_of(BoundArgument argument);

struct Certificate {
  double seconds = 0;  ///< the longest for which all arguments agree on one choice
  /// By argument, each with the choice that is best for it alone.
  EnumArray<BoundArgument, double> alone = {};
  BoundArgument binding = BoundArgument::compute;  ///< what counts most
};

/// For all plans of one rank within the budgets.
Certificate certify(const StepFacts& facts, const TierBudgets& budgets, const MachineRates& rates);

}  // namespace strata
