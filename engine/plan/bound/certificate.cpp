#include "engine/plan/bound/certificate.h"

#include <algorithm>
#include <span>

#include "engine/plan/bound/bound_program.h"
#include "engine/plan/bound/linear_program.h"

namespace strata {

std::string_view words_of(BoundArgument argument) {
  switch (argument) {
    case BoundArgument::compute:
      return "computing";
    case BoundArgument::h2d:
      return "the link from host to device";
    case BoundArgument::d2h:
      return "the link from device to host";
    case BoundArgument::cpu:
      return "updates on the host";
    case BoundArgument::cores:
      return "the cores, which compute, update and copy";
    case BoundArgument::memory:
      return "the host's memory, which updates and copies go through";
    case BoundArgument::drives:
      return "the drives";
    case BoundArgument::order:
      return "what must happen one after another";
  }
  return "";
}

std::string_view name_of(BoundArgument argument) {
  switch (argument) {
    case BoundArgument::compute:
      return "compute";
    case BoundArgument::h2d:
      return "h2d";
    case BoundArgument::d2h:
      return "d2h";
    case BoundArgument::cpu:
      return "cpu";
    case BoundArgument::cores:
      return "cores";
    case BoundArgument::memory:
      return "memory";
    case BoundArgument::drives:
      return "drives";
    case BoundArgument::order:
      return "order";
  }
  return "";
}

Certificate certify(const StepFacts& facts, const TierBudgets& budgets, const MachineRates& rates) {
  Certificate certificate;
  for (const BoundArgument argument : kBoundArguments) {
    const BoundProgram alone = bound_program(facts, budgets, rates, std::span(&argument, 1));
    double& seconds = certificate.alone[argument];
    seconds = std::max(0.0, weighted_bound(alone.program, find_weights(alone.program)) * alone.scale);
    if (seconds <= certificate.seconds) continue;
    certificate.seconds = seconds;
    certificate.binding = argument;
  }
  const BoundProgram all = bound_program(facts, budgets, rates, kBoundArguments);
  const std::vector<double> weights = find_weights(all.program);
  const double together = weighted_bound(all.program, weights) * all.scale;
  if (together <= certificate.seconds) return certificate;
  certificate.seconds = together;
  EnumArray<BoundArgument, double> shares;
  for (std::size_t row = 0; row < weights.size(); ++row)
    if (all.arguments[row]) shares[*all.arguments[row]] += weights[row];
  certificate.binding =
      std::ranges::max(kBoundArguments, {}, [&](BoundArgument argument) { return shares[argument]; });
  return certificate;
}

}  // namespace strata
