// Rotary tables: what every block of the llama family reads beside its parameters.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/bytes.h"
#include "engine/device/matrix.h"
#include "engine/model/architecture.h"

namespace strata {

/// Cosine and sine of position × frequency, fp32 [sequence, head_dimension / 2] each.
struct RotaryTables {
  Matrix cosine, sine;
};

Bytes rotary_bytes(const Architecture& architecture, std::int64_t sequence);

/// Views of the tables in rotary_bytes() of memory.
RotaryTables rotary_tables(const Architecture& architecture, std::int64_t sequence, const std::byte* memory);

/// Fills rotary_bytes() of host memory as transformers does (LlamaRotaryEmbedding,
/// _compute_llama3_parameters): its frequencies and angles are fp32, and at large positions their rounding
/// shows, so ours round at the same places.
void fill_rotary_tables(const Architecture& architecture, std::int64_t sequence, std::span<std::byte> memory);

}  // namespace strata
