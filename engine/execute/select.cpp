#include "engine/execute/select.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

namespace strata {

std::vector<std::string> outdone(const Selection& selection, std::int64_t step,
                                 const std::vector<std::optional<double>>& losses) {
  constexpr double kWorst = std::numeric_limits<double>::infinity();
  std::vector<std::pair<double, std::size_t>> places;
  for (std::size_t m = 0; m < losses.size(); ++m) {
    if (losses[m]) places.emplace_back(std::isfinite(*losses[m]) ? *losses[m] : kWorst, m);
  }
  std::ranges::sort(places);
  const auto count = static_cast<double>(places.size());
  const auto kept = static_cast<std::size_t>(std::max(1.0, std::ceil(selection.keep * count - 1e-9)));
  std::vector<std::string> endings(losses.size());
  for (std::size_t place = kept; place < places.size(); ++place) {
    const auto& [loss, model] = places[place];
    endings[model] =
        fmt::format("{} of {} at step {}, by a {} loss of {:.4f}", place + 1, places.size(), step,
                    selection.by == SelectBy::validation ? "validation" : "training", loss);
  }
  return endings;
}

}  // namespace strata
