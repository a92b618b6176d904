#include "engine/input/text/bounds.h"

#include <fmt/format.h>

#include "base/error.h"

namespace strata::text {
namespace {

constexpr std::size_t kBytesOfAByte = 64, kMoreBytes = std::size_t{1} << 20;
constexpr std::size_t kStepsOfAByte = 200, kMoreSteps = 200'000;

}  // namespace

std::size_t most_bytes_from(std::size_t bytes) {
  return kBytesOfAByte * bytes + kMoreBytes;
}

void check_growth(std::size_t made, std::size_t most) {
  if (made <= most) return;
  throw ConfigError(fmt::format(
      "the tokenizer's normalizer or pre-tokenizer makes more than {} bytes of a text: remove the "
      "steps that let it grow, or take another tokenizer",
      most));
}

std::size_t most_steps_for(std::size_t bytes) {
  return kStepsOfAByte * bytes + kMoreSteps;
}

void check_steps(std::size_t steps, std::size_t bytes) {
  if (steps <= most_steps_for(bytes)) return;
  throw ConfigError(fmt::format(
      "the tokenizer takes more than {} steps for a text of {} bytes: cut the text, or take another "
      "tokenizer",
      most_steps_for(bytes), bytes));
}

}  // namespace strata::text
