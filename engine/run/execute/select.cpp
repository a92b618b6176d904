#include "engine/run/execute/select.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

namespace strata {

std::vector<std::string> outdone(const Selection& selection, std::int64_t step,
                                 const std::vector<std::optional<double>>& losses, std::size_t failed) {
  constexpr double kWorst = std::numeric_limits<double>::infinity();
  std::vector<std::pair<double, std::size_t>> places;
  for (std::size_t m = 0; m < losses.size(); ++m) {
    if (losses[m]) places.emplace_back(std::isfinite(*losses[m]) ? *losses[m] : kWorst, m);
  }
  std::ranges::sort(places);
  const std::size_t count = places.size() + failed;
  const double part = std::ceil(selection.keep * static_cast<double>(count) - 1e-9);
  const auto kept = static_cast<std::size_t>(std::max(1.0, part));
  std::vector<std::string> endings(losses.size());
  for (std::size_t place = kept; place < places.size(); ++place) {
    const auto& [loss, model] = places[place];
    endings[model] = fmt::format("{} of {} at step {}, by a {} loss of {:.4f}", place + 1, count, step,
                                 selection.by == SelectBy::validation ? "validation" : "training", loss);
  }
  return endings;
}

}  // namespace strata
