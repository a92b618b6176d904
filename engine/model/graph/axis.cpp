#include "engine/model/graph/axis.h"

#include <fmt/format.h>

#include <algorithm>
#include <span>
#include <stdexcept>

namespace strata {
namespace {

Extent product(Extent a, Extent b) {
  using Per = Extent::Per;
  const bool is_fixed = a.per == Per::microbatch || b.per == Per::microbatch;
  if (!is_fixed && (a.per == b.per || a.per == Per::token || b.per == Per::token))
    throw std::logic_error("an axis has two lengths of one kind from the microbatch");
  return {checked_product(a.count, b.count),
          is_fixed ? (a.per == Per::microbatch ? b.per : a.per) : Per::token,
          checked_product(a.parts, b.parts)};
}

Extent product(std::span<const Dimension> dimensions) {
  Extent extent;
  for (const Dimension& dimension : dimensions) extent = product(extent, dimension.length);
  return extent;
}

}  // namespace

bool Axis::has(AxisName name) const {
  return std::ranges::any_of(parts_, [&](const Dimensions& part) {
    return std::ranges::find(part, name, &Dimension::name) != part.end();
  });
}

Extent Axis::extent() const {
  if (parts_.size() == 1) return product(parts_.front());
  std::int64_t side_by_side = 0;
  for (const Dimensions& part : parts_) {
    const Extent extent = product(std::span(part).subspan(shared_));
    if (extent.per != Extent::Per::microbatch)
      throw std::logic_error("parts side by side have fixed lengths only");
    side_by_side = checked_sum(side_by_side, extent.count);
  }
  return product(product(std::span(parts_.front()).first(shared_)), fixed(side_by_side));
}

Axis Axis::slice(std::int64_t first, std::int64_t count) const {
  Axis slice;
  slice.parts_.clear();
  std::int64_t begin = 0;
  for (const Dimensions& part : parts_) {
    const std::int64_t length = product(part).count;
    if (shared_ == 0 && first <= begin && begin + length <= first + count) slice.parts_.push_back(part);
    begin += length;
  }
  if (slice.parts_.empty() || slice.extent() != fixed(count))
    throw std::logic_error(fmt::format("{} elements from {} on are no whole parts of the axis {}", count,
                                       first, to_string(*this)));
  return slice;
}

Axis Axis::divided(AxisName name, std::int64_t ranks) const {
  Axis part = *this;
  for (Dimensions& dimensions : part.parts_) {
    for (Dimension& dimension : dimensions) {
      if (dimension.name != name) continue;
      if (dimension.length.per == Extent::Per::microbatch) {
        dimension.length.count = (dimension.length.count + ranks - 1) / ranks;
      } else {
        dimension.length.parts *= ranks;
      }
    }
  }
  return part;
}

Axis Axis::outer() const {
  Axis outer = *this;
  for (Dimensions& part : outer.parts_) part.pop_back();
  return outer;
}

Axis operator|(const Axis& left, const Axis& right) {
  if (left.shared_ + right.shared_ > 0) throw std::logic_error("repeated parts cannot have a neighbour");
  Axis both = left;
  both.parts_.insert(both.parts_.end(), right.parts_.begin(), right.parts_.end());
  return both;
}

Axis operator*(const Axis& outer, const Axis& inner) {
  if (outer.parts_.size() != 1) throw std::logic_error("parts side by side cannot be repeated each");
  const Dimensions& dimensions = outer.parts_.front();
  Axis composed = inner;
  for (Dimensions& part : composed.parts_) part.insert(part.begin(), dimensions.begin(), dimensions.end());
  composed.shared_ = inner.parts_.size() > 1 ? inner.shared_ + dimensions.size() : 0;
  return composed;
}

Axis token_axis() {
  return Axis("sequences", per_sequence(1)) * Axis(kTokens, per_position(1));
}

std::string to_string(const Axis& axis) {
  std::string text;
  for (const Dimensions& part : axis.parts()) {
    if (!text.empty()) text += " | ";
    std::string product;
    for (const Dimension& dimension : part) {
      if (!product.empty()) product += " · ";
      product += dimension.name.text();
      if (dimension.length.count == 1 && dimension.length.per != Extent::Per::microbatch) continue;
      product += fmt::format("{}{}", dimension.name == kUncut ? "" : " ", dimension.length.count);
    }
    text += product.empty() ? "1" : product;
  }
  return text;
}

}  // namespace strata
