// Sizes in bytes: how they are read from a run file and printed for a person.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>

namespace strata {

using Bytes = std::int64_t;

constexpr Bytes KiB = 1024;
constexpr Bytes MiB = 1024 * KiB;
constexpr Bytes GiB = 1024 * MiB;

/// A budget that never binds.
constexpr Bytes kUnlimited = std::numeric_limits<Bytes>::max();

/// Every buffer starts at a multiple of this many bytes: a cache line, and four 16-byte accesses.
constexpr Bytes kAlignment = 64;

constexpr Bytes align_up(Bytes bytes, Bytes alignment = kAlignment) {
  return (bytes + alignment - 1) / alignment * alignment;
}

/// "2GiB", "512MB", "1.5 kB", "4096" or "unlimited" as bytes; nothing if the text is not a size.
std::optional<Bytes> parse_bytes(std::string_view text);

/// What parse_bytes() gives back, in the largest binary unit that divides it: "2GiB", "4096", "unlimited".
std::string exact_bytes(Bytes bytes);

/// Bytes for a person, in binary units: "1.50 GiB".
std::string format_bytes(Bytes bytes);

}  // namespace strata
