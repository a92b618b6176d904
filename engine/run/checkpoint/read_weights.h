// Internal to checkpoint: weights of a folder that others made.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <span>
#include <string>

#include "base/finite.h"
#include "base/nth.h"
#include "engine/run/checkpoint/safetensors.h"

namespace strata {

/// SafetensorsReader::read(). Throws NotFiniteError too, which names file and tensor.
inline void read_weights(const SafetensorsReader& file, const std::string& name, std::int64_t first,
                         std::span<float> out) {
  file.read(name, first, out);
  if (const auto at = first_not_finite(out)) {
    throw NotFiniteError(fmt::format(
        "{}: element {} of tensor {} is {}: these weights are spoilt; take a copy from before that",
        file.path().string(), first + *at, name, nth(out, *at)));
  }
}

}  // namespace strata
