// A machine's profile, whose rates plans divide by.
#include "engine/plan/cost/rates.h"
#include "tests/fuzz/target.h"

namespace strata::fuzz {
namespace {

void read_profile(std::string_view input) {
  const MachineRates rates = parse_profile(input, "machine.json");
  require(rates.flops_per_second > 0 && rates.memory_bytes_per_second > 0 && rates.h2d_bytes_per_second > 0 &&
              rates.d2h_bytes_per_second > 0,
          "rates are positive");
  require(rates.kernels.is_valid(), "kernels take time");
  require(KernelTimes::from_json(rates.kernels.to_json()) == rates.kernels,
          "kernels are written as they were read");
}

}  // namespace
}  // namespace strata::fuzz

STRATA_FUZZ_TARGET(profile, strata::fuzz::read_profile)
