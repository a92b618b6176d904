// The tables of a model's rotations for sequences of any length up to one: a model may have others for
// sequences that are longer than those that it was first trained on. Immutable; any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/bytes.h"

namespace strata {

struct Model;

/// The tables of all rotations, one after another, of `rows` rows each.
struct RotaryLayout {
  std::int64_t rows = 0;
  std::vector<Bytes> offsets = {};  ///< of each table: GraphShape::constants
  Bytes bytes = 0;
};
RotaryLayout rotary_layout(const Model& model, std::int64_t rows);

class PositionTables {
 public:
  struct Set {
    RotaryLayout layout;
    Bytes offset;  ///< in host()
  };

  /// Throws ConfigError if each length up to the longest has a rotation of its own.
  PositionTables(const Model& model, std::int64_t longest);

  /// Those of a sequence of this length, with a row for each of its positions. REQUIRES: length <= longest.
  const Set& for_length(std::int64_t length) const;
  /// The longest sequence of each set; rising.
  std::vector<std::int64_t> lengths() const;
  std::span<const std::byte> host() const { return host_; }

 private:
  std::vector<Set> sets_;
  std::vector<std::byte> host_;
};

}  // namespace strata
