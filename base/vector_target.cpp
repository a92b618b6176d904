#include "base/vector_target.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <optional>
#include <string>

#include "base/error.h"
#include "base/nth.h"
#include "hwy/targets.h"

namespace strata {
namespace {

constexpr std::array<std::string_view, 5> kNames = {"baseline", "sse4", "avx2", "avx512", "avx512_bf16"};
/// What Highway calls each; its bits are the lower the better.
#if HWY_ARCH_X86
constexpr std::array<std::int64_t, 5> kHighway = {HWY_STATIC_TARGET, HWY_SSE4, HWY_AVX2, HWY_AVX3, HWY_AVX3};
#endif

/// The processor's, asked before Highway is capped.
VectorTarget find_best() {
#if HWY_ARCH_X86
  const std::int64_t supported = hwy::SupportedTargets();
  if ((supported & HWY_AVX3) != 0) {
    __builtin_cpu_init();  // this may run before main
    return __builtin_cpu_supports("avx512bf16") != 0 ? VectorTarget::avx512_bf16 : VectorTarget::avx512;
  }
  if ((supported & HWY_AVX2) != 0) return VectorTarget::avx2;
  if ((supported & HWY_SSE4) != 0) return VectorTarget::sse4;
#endif
  return VectorTarget::baseline;
}

struct Choice {
  VectorTarget best = find_best(), target = best;
  std::string cap = {};  ///< the variable's value
  bool is_valid = true, is_capped = false;
};

Choice choose() {
  Choice choice;
  const char* cap = std::getenv("STRATA_VECTOR_TARGET");
  if (cap == nullptr || *cap == '\0') return choice;
  choice.cap = cap;
  const auto found = std::ranges::find(kNames, choice.cap);
  choice.is_valid = found != kNames.end();
  if (choice.is_valid) {
    choice.target = std::min(choice.target, static_cast<VectorTarget>(found - kNames.begin()));
    choice.is_capped = HWY_ARCH_X86 != 0;
  }
  return choice;
}

/// Read once, and kept for good.
const Choice& choice() {
  static const Choice made = choose();
  return made;
}

}  // namespace

std::string_view name_of(VectorTarget target) {
  return nth(kNames, target);
}

VectorTarget vector_target() {
  if (!choice().is_valid) {
    throw ConfigError(fmt::format(
        "STRATA_VECTOR_TARGET in the environment is \"{}\", which is no vector target: unset it, or "
        "set it to one of {}",
        choice().cap, fmt::join(kNames, ", ")));
  }
  return choice().target;
}

VectorTarget best_vector_target() {
  return choice().best;
}

bool vector_target_is_capped() {
  return choice().is_capped;
}

bool cap_highway() {
  // vector_target() refuses a name that is none. Here the program is being loaded, and no error may leave it.
#if HWY_ARCH_X86
  if (choice().is_capped) hwy::DisableTargets(nth(kHighway, choice().target) - 1);
#endif
  return true;
}

}  // namespace strata
