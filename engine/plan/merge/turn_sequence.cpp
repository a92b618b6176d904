#include "engine/plan/merge/turn_sequence.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <set>
#include <tuple>
#include <utility>

namespace strata {
namespace {

TurnSequence longest_remaining_first(const std::vector<TurnsOfModel>& models) {
  TurnSequence order{"longest remaining time first", {}, std::vector<std::size_t>(models.size(), 0)};
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

/// A step begins when the step before it in the list of models would have ended alone. A step is done in
/// `under_way` parts, and each part takes as long as the step that begins with it. So at every moment models
/// do all parts of a step, one each.
TurnSequence staggered(const std::vector<TurnsOfModel>& models, std::size_t under_way, bool keeps_visits,
                       RoundEnds ends) {
  std::vector<std::size_t> taking_part;
  std::vector<double> starts;
  double round = 0;
  for (std::size_t m = 0; m < models.size(); ++m) {
    if (models[m].seconds.empty()) continue;
    taking_part.push_back(m);
    starts.push_back(round);
    round += models[m].step_seconds();
  }
  const std::size_t count = taking_part.size();
  const auto start_of = [&](std::size_t s) {
    const std::size_t rounds = s / count;
    return static_cast<double>(rounds) * round + starts[s % count];
  };
  TurnSequence order{
      .name = under_way == 1 ? "step after step" : fmt::format("staggered, {} under way", under_way),
      .models = {},
      .begins = std::vector<std::size_t>(models.size(), 0)};
  if (!keeps_visits) order.name += ", turn by turn";
  std::vector<std::tuple<double, std::size_t, std::size_t>>
      turns;  // when, place among those taking part, number among its own in the round
  for (std::size_t s = 0; s < count; ++s) {
    const TurnsOfModel& model = models[taking_part[s]];
    const double part = std::max(model.step_seconds(), 1e-30) / static_cast<double>(under_way);
    const auto time_of = [&](double done) {
      const std::size_t parts = std::min(static_cast<std::size_t>(done / part), under_way - 1);
      const double begin = start_of(s + parts), length = start_of(s + parts + 1) - begin;
      return begin + (done / part - static_cast<double>(parts)) * length;
    };
    std::size_t& begin = order.begins[taking_part[s]];
    double done = 0, when = 0;
    std::vector<double> times;
    times.reserve(model.seconds.size());
    for (std::size_t t = 0; t < model.seconds.size(); ++t) {
      if (!keeps_visits || t == 0 || model.visit[t] != model.visit[t - 1]) when = time_of(done);
      done += model.seconds[t];
      if (ends == RoundEnds::within_steps && begin == 0 && t > 0 && when >= round) begin = t;
      times.push_back(when);
    }
    for (std::size_t t = 0; t < times.size(); ++t) {
      const std::size_t turn = (begin + t) % times.size();
      const bool is_of_step_before = begin > 0 && turn >= begin;
      turns.emplace_back(is_of_step_before ? times[turn] - round : times[turn], s, t);
    }
  }
  std::ranges::sort(turns);
  order.models.reserve(turns.size());
  for (const auto& [when, s, turn] : turns) order.models.push_back(static_cast<std::int32_t>(taking_part[s]));
  return order;
}

bool has_visits_of_several_turns(const std::vector<TurnsOfModel>& models) {
  return std::ranges::any_of(models, [](const TurnsOfModel& model) {
    return std::ranges::adjacent_find(model.visit) != model.visit.end();
  });
}

}  // namespace

double TurnsOfModel::step_seconds() const {
  return std::accumulate(seconds.begin(), seconds.end(), 0.0);
}

std::vector<TurnSequence> turn_sequences(const std::vector<TurnsOfModel>& models, RoundEnds ends) {
  const auto count = static_cast<std::size_t>(
      std::ranges::count_if(models, [](const TurnsOfModel& model) { return !model.seconds.empty(); }));
  std::vector<TurnSequence> orders = {longest_remaining_first(models)};
  std::set<std::size_t> under_way = {count};
  for (const std::size_t some : {1, 2, 3, 4}) under_way.insert(std::min(some, count));
  for (const std::size_t number : under_way) {
    orders.push_back(staggered(models, number, true, ends));
    if (number > 1 && has_visits_of_several_turns(models))
      orders.push_back(staggered(models, number, false, ends));
  }
  return orders;
}

}  // namespace strata
