#include "engine/model/graph/axis.h"

#include <fmt/format.h>

#include <algorithm>
#include <span>
#include <stdexcept>
#include <utility>

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
  return std::ranges::any_of(parts(), [&](const Dimensions& part) {
    return std::ranges::find(part, name, &Dimension::name) != part.end();
  });
}

Extent Axis::extent() const {
  if (parts().size() == 1) return product(parts().front());
  std::int64_t side_by_side = 0;
  for (const Dimensions& part : parts()) {
    const Extent extent = product(std::span(part).subspan(shared_));
    if (extent.per != Extent::Per::microbatch)
      throw std::logic_error("parts side by side have fixed lengths only");
    side_by_side = checked_sum(side_by_side, extent.count);
  }
  return product(product(std::span(parts().front()).first(shared_)), fixed(side_by_side));
}

Axis Axis::slice(std::int64_t first, std::int64_t count) const {
  std::vector<Dimensions> within;
  std::int64_t begin = 0;
  for (const Dimensions& part : parts()) {
    const std::int64_t length = product(part).count;
    if (shared_ == 0 && first <= begin && begin + length <= first + count) within.push_back(part);
    begin += length;
  }
  Axis slice(std::move(within), 0);
  if (slice.parts().empty() || slice.extent() != fixed(count))
    throw std::logic_error(fmt::format("{} elements from {} on are no whole parts of the axis {}", count,
                                       first, to_string(*this)));
  return slice;
}

Axis Axis::divided(AxisName name, std::int64_t ranks) const {
  std::vector<Dimensions> shorter = parts();
  for (Dimensions& dimensions : shorter) {
    for (Dimension& dimension : dimensions) {
      if (dimension.name != name) continue;
      if (dimension.length.per == Extent::Per::microbatch) {
        dimension.length.count = (dimension.length.count + ranks - 1) / ranks;
      } else {
        dimension.length.parts *= ranks;
      }
    }
  }
  return {std::move(shorter), shared_};
}

Axis Axis::outer() const {
  std::vector<Dimensions> outer = parts();
  for (Dimensions& part : outer) part.pop_back();
  return {std::move(outer), shared_};
}

Axis operator|(const Axis& left, const Axis& right) {
  if (left.shared_ + right.shared_ > 0) throw std::logic_error("repeated parts cannot have a neighbour");
  std::vector<Dimensions> both = left.parts();
  both.insert(both.end(), right.parts().begin(), right.parts().end());
  return {std::move(both), 0};
}

Axis operator*(const Axis& outer, const Axis& inner) {
  if (outer.parts().size() != 1) throw std::logic_error("parts side by side cannot be repeated each");
  const Dimensions& dimensions = outer.parts().front();
  std::vector<Dimensions> composed = inner.parts();
  for (Dimensions& part : composed) part.insert(part.begin(), dimensions.begin(), dimensions.end());
  return {std::move(composed), inner.parts().size() > 1 ? inner.shared_ + dimensions.size() : 0};
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
