// Axes of tensors: a length that is made of named dimensions. Names say what belongs together in a whole
// unit, and so what can be split together over ranks. Values.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/model/graph/unit_memory.h"

namespace strata {

/// A length: a fixed count, or one for each sequence, position or token of a microbatch, or for one of
/// several equal parts of these.
struct Extent {
  enum class Per : std::uint8_t { microbatch, sequence, position, token };

  std::int64_t count = 1;
  Per per = Per::microbatch;
  std::int64_t parts = 1;

  /// REQUIRES: parts divide it.
  std::int64_t in(const MicrobatchShape& shape) const {
    switch (per) {
      case Per::sequence:
        return checked_product(count, shape.batch) / parts;
      case Per::position:
        return checked_product(count, shape.sequence) / parts;
      case Per::token:
        return checked_product(count, shape.tokens()) / parts;
      default:
        return count;
    }
  }
  /// In a number that does not wrap around, for what may be too large.
  double about(const MicrobatchShape& shape) const {
    const bool per_batch = per == Per::sequence || per == Per::token;
    const bool per_place = per == Per::position || per == Per::token;
    return static_cast<double>(count) * (per_batch ? static_cast<double>(shape.batch) : 1.0) *
           (per_place ? static_cast<double>(shape.sequence) : 1.0) / static_cast<double>(parts);
  }
  friend bool operator==(const Extent&, const Extent&) = default;
};

constexpr Extent fixed(std::int64_t count) {
  return {count, Extent::Per::microbatch};
}
constexpr Extent per_sequence(std::int64_t count) {
  return {count, Extent::Per::sequence};
}
constexpr Extent per_position(std::int64_t count) {
  return {count, Extent::Per::position};
}
constexpr Extent per_token(std::int64_t count) {
  return {count, Extent::Per::token};
}

/// A literal, compared by its text.
class AxisName {
 public:
  // NOLINTNEXTLINE(google-explicit-constructor): a literal stands where a name is wanted
  consteval AxisName(const char* text) : text_(text) {}

  constexpr std::string_view text() const { return text_; }
  friend constexpr bool operator==(const AxisName&, const AxisName&) = default;

 private:
  std::string_view text_;
};

/// What no split may cut, such as the columns of one head, has no name.
constexpr AxisName kUncut = "";

struct Dimension {
  AxisName name = kUncut;
  Extent length;

  friend bool operator==(const Dimension&, const Dimension&) = default;
};

/// From the outermost to the innermost.
using Dimensions = std::vector<Dimension>;

/// Rows or columns: parts side by side, each a product of dimensions. Queries, keys and values in one matrix
/// are three parts; a part of heads is their number, and the columns of each. Copies share their parts.
class Axis {
 public:
  /// A length of one.
  Axis() : Axis(std::vector<Dimensions>(1), 0) {}
  Axis(AxisName name, Extent length) : Axis(std::vector<Dimensions>{{{name, length}}}, 0) {}
  Axis(AxisName name, std::int64_t length) : Axis(name, fixed(length)) {}

  const std::vector<Dimensions>& parts() const { return *parts_; }
  /// How many outer dimensions all parts have in common: the parts stand side by side within them.
  std::size_t shared() const { return shared_; }
  bool has(AxisName name) const;
  Extent extent() const;
  std::int64_t in(const MicrobatchShape& shape) const { return extent().in(shape); }

  /// `count` elements from `first` on. REQUIRES: they are whole parts.
  Axis slice(std::int64_t first, std::int64_t count) const;
  /// A rank's share: every dimension of this name is shorter by the factor; a fixed one is rounded up.
  Axis divided(AxisName name, std::int64_t ranks) const;
  /// Without the innermost dimension of each part.
  Axis outer() const;
  /// Side by side.
  friend Axis operator|(const Axis& left, const Axis& right);
  /// One `inner` for each element of `outer`, which has one part.
  friend Axis operator*(const Axis& outer, const Axis& inner);
  friend bool operator==(const Axis& a, const Axis& b) {
    return a.shared_ == b.shared_ && (a.parts_ == b.parts_ || a.parts() == b.parts());
  }

 private:
  Axis(std::vector<Dimensions> parts, std::size_t shared)
      : parts_(std::make_shared<const std::vector<Dimensions>>(std::move(parts))), shared_(shared) {}

  std::shared_ptr<const std::vector<Dimensions>> parts_;
  std::size_t shared_ = 0;
};

/// Tokens stand sequence by sequence.
Axis token_axis();
/// Its dimension by which ranks have parts of tokens: of all that stand one behind another, whatever the
/// sequences' borders.
inline constexpr AxisName kTokens = "positions";

/// "kv_heads 2 · queries 4 · 64 | kv_heads 2 · 64".
std::string to_string(const Axis& axis);

}  // namespace strata
