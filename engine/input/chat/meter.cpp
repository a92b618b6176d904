#include "engine/input/chat/meter.h"

#include <fmt/format.h>

#include "engine/input/chat/problem.h"

namespace strata::chat {

void Meter::check_bytes(std::int64_t count, std::int64_t bytes) const {
  std::int64_t product = 0;
  if (__builtin_mul_overflow(count, bytes, &product)) refuse_bytes();
  check_bytes(product);
}

void Meter::refuse_steps() const {
  throw Problem(fmt::format("rendering takes more than {} steps", limits_.steps));
}

void Meter::refuse_bytes() const {
  throw Problem(fmt::format("rendering makes more than {} bytes of text and lists", limits_.bytes));
}

void Meter::refuse_depth() {
  --depth_;  // since the level's destructor does not run
  throw Problem(fmt::format("expressions and calls are nested more than {} deep", limits_.depth));
}

}  // namespace strata::chat
