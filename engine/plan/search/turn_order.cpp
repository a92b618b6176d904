#include "engine/plan/search/turn_order.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <set>
#include <tuple>
#include <utility>

namespace strata {
namespace {

TurnOrder longest_remaining_first(const std::vector<TurnsOfModel>& models) {
  TurnOrder order{"longest remaining time first", {}};
  std::vector<std::size_t> next(models.size(), 0);
  std::vector<double> left;
  left.reserve(models.size());
  for (const TurnsOfModel& model : models)
    left.push_back(static_cast<double>(model.remaining_steps) * model.step_seconds());
  for (;;) {
    std::size_t longest = models.size();
    for (std::size_t m = 0; m < models.size(); ++m) {
      if (next[m] == models[m].seconds.size()) continue;
      if (longest == models.size() || left[m] > left[longest]) longest = m;
    }
    if (longest == models.size()) return order;
    const TurnsOfModel& model = models[longest];
    std::size_t& turn = next[longest];
    const std::int32_t visit = model.visit[turn];
    for (; turn < model.seconds.size() && model.visit[turn] == visit; ++turn) {
      order.models.push_back(static_cast<std::int32_t>(longest));
      left[longest] -= model.seconds[turn];
    }
  }
}

/// Each step takes as long as `under_way` steps one after another, and begins when the one before it in the
/// list of models would have ended alone.
TurnOrder staggered(const std::vector<TurnsOfModel>& models, std::size_t under_way) {
  std::vector<std::size_t> taking_part;
  std::vector<double> begins;
  double all = 0;
  for (std::size_t m = 0; m < models.size(); ++m) {
    if (models[m].seconds.empty()) continue;
    taking_part.push_back(m);
    begins.push_back(all);
    all += models[m].step_seconds();
  }
  const std::size_t count = taking_part.size();
  const auto begin_of = [&](std::size_t s) {
    const std::size_t rounds = s / count;
    return static_cast<double>(rounds) * all + begins[s % count];
  };
  std::vector<std::tuple<double, std::size_t, std::size_t>>
      turns;  // when, place among those taking part, turn
  for (std::size_t s = 0; s < count; ++s) {
    const TurnsOfModel& model = models[taking_part[s]];
    const double step = std::max(model.step_seconds(), 1e-30), length = begin_of(s + under_way) - begins[s];
    double done = 0, when = 0;
    for (std::size_t t = 0; t < model.seconds.size(); ++t) {
      if (t == 0 || model.visit[t] != model.visit[t - 1]) when = begins[s] + done / step * length;
      done += model.seconds[t];
      turns.emplace_back(when, s, t);
    }
  }
  std::ranges::sort(turns);
  TurnOrder order{under_way == 1 ? "step after step" : fmt::format("staggered, {} under way", under_way), {}};
  order.models.reserve(turns.size());
  for (const auto& [when, s, turn] : turns) order.models.push_back(static_cast<std::int32_t>(taking_part[s]));
  return order;
}

}  // namespace

double TurnsOfModel::step_seconds() const {
  return std::accumulate(seconds.begin(), seconds.end(), 0.0);
}

std::vector<TurnOrder> turn_orders(const std::vector<TurnsOfModel>& models) {
  const auto count = static_cast<std::size_t>(
      std::ranges::count_if(models, [](const TurnsOfModel& model) { return !model.seconds.empty(); }));
  std::vector<TurnOrder> orders = {longest_remaining_first(models)};
  std::set<std::size_t> under_way = {count};
  for (const std::size_t some : {1, 2, 4}) under_way.insert(std::min(some, count));
  for (const std::size_t number : under_way) orders.push_back(staggered(models, number));
  return orders;
}

}  // namespace strata
