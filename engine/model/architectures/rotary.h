// Rotary tables: what every block with rotary positions reads beside its parameters.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/bytes.h"
#include "base/context_part.h"
#include "engine/device/matrix.h"
#include "engine/model/architectures/architecture.h"

namespace strata {

/// Which angles heads are rotated by.
struct Rotation {
  std::int64_t head_dimension = 0;
  RopeOptions options;
  friend bool operator==(const Rotation&, const Rotation&) = default;
};

/// Cosine and sine of position × frequency, fp32 [sequence, rotated columns / 2] each.
struct RotaryTables {
  Matrix cosine, sine;
};

/// How many of a head's columns are rotated, the first ones.
std::int64_t rotated_columns(const Rotation& rotation);

/// Texts of up to this many tokens have other angles than longer ones; 0: all have the same.
std::int64_t short_length(const Rotation& rotation);

/// The size of one of the two tables, aligned: the sine lies that far behind the cosine.
Bytes rotary_table_bytes(const Rotation& rotation, std::int64_t sequence);

/// Views of both tables.
RotaryTables rotary_tables(const Rotation& rotation, std::int64_t sequence, std::byte* memory);

/// Fills both tables as transformers does (modeling_rope_utils.py): its frequencies and angles are fp32, and
/// at large positions their rounding shows, so ours round at the same places. The `sequence` rows are a
/// rank's part of each sequence.
void fill_rotary_tables(const Rotation& rotation, std::int64_t sequence, std::span<std::byte> memory,
                        const ContextPart& part = {});

/// Fills tables with two rows for each of `positions` positions, as rotary_row() counts them: those of short
/// texts, and those of texts that have all of the positions. Of a long text with fewer tokens angles are the
/// same, but where they are others at each length (dynamic).
void fill_rotary_tables_by_length(const Rotation& rotation, std::int64_t positions,
                                  std::span<std::byte> memory);

}  // namespace strata
