#include "engine/plan/merge/turn_sequence.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <set>

namespace strata {
namespace {

using ::testing::ElementsAre;

/// A model whose turns are visits of their own.
TurnsOfModel turns(std::vector<double> seconds, std::int64_t remaining_steps = 1) {
  TurnsOfModel model = {.seconds = std::move(seconds), .visit = {}, .remaining_steps = remaining_steps};
  for (std::size_t t = 0; t < model.seconds.size(); ++t) model.visit.push_back(static_cast<std::int32_t>(t));
  return model;
}

TurnSequence order_named(const std::string& name, const std::vector<TurnsOfModel>& models) {
  for (const TurnSequence& order : turn_sequences(models, RoundEnds::within_steps)) {
    if (order.name == name) return order;
  }
  ADD_FAILURE() << "no order is called " << name;
  return {};
}

std::vector<std::string> names(const std::vector<TurnsOfModel>& models) {
  std::vector<std::string> names;
  for (const TurnSequence& order : turn_sequences(models, RoundEnds::within_steps))
    names.push_back(order.name);
  return names;
}

/// Makes any number of models. Some have no turns.
std::vector<TurnsOfModel> any_models(std::uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<TurnsOfModel> models(1 + random() % 7);
  for (TurnsOfModel& model : models) {
    model.remaining_steps = 1 + random() % 5;
    std::int32_t visit = 0;
    for (std::size_t t = random() % 12; t > 0; --t) {
      model.seconds.push_back(static_cast<double>(random() % 4));
      model.visit.push_back(visit += static_cast<std::int32_t>(random() % 2));
    }
  }
  return models;
}

TEST(TurnSequences, HaveEveryTurnOnceAndVisitsTogether) {
  for (std::uint32_t seed = 0; seed < 200; ++seed) {
    const std::vector<TurnsOfModel> models = any_models(seed);
    for (const TurnSequence& order : turn_sequences(models, RoundEnds::within_steps)) {
      SCOPED_TRACE(order.name);
      std::vector<std::size_t> next(models.size(), 0);
      const bool keeps_visits = !order.name.ends_with("turn by turn");
      std::set<std::pair<std::int32_t, std::int32_t>> seen;  // model and visit
      std::pair<std::int32_t, std::int32_t> latest = {-1, -1};
      for (const std::int32_t m : order.models) {
        const auto model = static_cast<std::size_t>(m);
        ASSERT_LT(next[model], models[model].seconds.size());
        const std::size_t turn = (order.begins[model] + next[model]++) % models[model].seconds.size();
        const std::pair<std::int32_t, std::int32_t> visit = {m, models[model].visit[turn]};
        if (keeps_visits && visit != latest) {
          EXPECT_TRUE(seen.insert(visit).second) << "something came between its turns";
        }
        latest = visit;
      }
      for (std::size_t m = 0; m < models.size(); ++m) EXPECT_EQ(next[m], models[m].seconds.size());
    }
  }
}

TEST(TurnSequences, GiveTheTurnToTheModelThatHasLeftMost) {
  const std::string longest = "longest remaining time first";
  EXPECT_THAT(order_named(longest, {turns({1, 1, 1}), turns({1, 1}, 10)}).models, ElementsAre(1, 1, 0, 0, 0));
  EXPECT_THAT(order_named(longest, {turns({2, 2}), turns({1, 1, 1})}).models, ElementsAre(0, 1, 0, 1, 1));
  EXPECT_THAT(order_named(longest, {turns({1, 1}), turns({1, 1, 1}), turns({4})}).models,
              ElementsAre(2, 1, 0, 1, 0, 1));
}

/// Hydra's rule, turn by turn.
TEST(TurnSequences, GiveItTurnByTurnWhereVisitsHaveOne) {
  for (std::uint32_t seed = 0; seed < 50; ++seed) {
    std::vector<TurnsOfModel> models = any_models(seed);
    for (TurnsOfModel& model : models) model = turns(model.seconds, model.remaining_steps);
    std::vector<double> done(models.size(), 0);
    std::vector<std::size_t> next(models.size(), 0);
    const std::vector<TurnSequence> orders = turn_sequences(models, RoundEnds::within_steps);
    for (const std::int32_t chosen : orders.front().models) {
      const auto left = [&](std::size_t m) {
        return static_cast<double>(models[m].remaining_steps) * models[m].step_seconds() - done[m];
      };
      const auto c = static_cast<std::size_t>(chosen);
      for (std::size_t m = 0; m < models.size(); ++m) {
        if (next[m] < models[m].seconds.size()) {
          EXPECT_LE(left(m), left(c));
        }
      }
      done[c] += models[c].seconds[next[c]++];
    }
  }
}

TEST(TurnSequences, BeginAStepWhereTheStepBeforeWouldHaveEnded) {
  const TurnsOfModel four = turns({1, 1, 1, 1});  // begin at 0, 4 and 8 of rounds of 12
  const std::vector<TurnsOfModel> models = {four, four, four};
  EXPECT_THAT(order_named("step after step", models).models, ElementsAre(0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2));
  const TurnSequence two = order_named("staggered, 2 under way", models);
  EXPECT_THAT(two.models, ElementsAre(0, 2, 0, 2, 0, 1, 0, 1, 1, 2, 1, 2));
  EXPECT_THAT(two.begins, ElementsAre(0, 0, 2));
  const TurnSequence three = order_named("staggered, 3 under way", models);
  EXPECT_THAT(three.models, ElementsAre(0, 1, 2, 0, 1, 2, 0, 1, 2, 0, 1, 2));
  EXPECT_THAT(three.begins, ElementsAre(0, 3, 2));
}

/// A step of twice the length beside two short ones: while it is in its first half, the one before is in its
/// second.
TEST(TurnSequences, GiveEveryPartOfAStepTheTimeOfTheStepThatBeginsWithIt) {
  const TurnsOfModel longer = turns({2, 2, 2, 2}), shorter = turns({1, 1, 1, 1});
  const TurnSequence order =
      order_named("staggered, 2 under way", {longer, shorter});  // begin at 0 and 8 of 12
  EXPECT_THAT(order.models, ElementsAre(0, 1, 0, 1, 0, 1, 0, 1));
  EXPECT_THAT(order.begins, ElementsAre(0, 2));
}

TEST(TurnSequences, LetTurnsOfAVisitStandAloneInSomeOfThem) {
  TurnsOfModel model = turns({1, 1, 1, 1});
  model.visit = {0, 0, 1, 1};
  EXPECT_THAT(order_named("staggered, 2 under way", {model, model}).models,
              ElementsAre(0, 0, 1, 1, 0, 0, 1, 1));
  EXPECT_THAT(order_named("staggered, 2 under way, turn by turn", {model, model}).models,
              ElementsAre(0, 1, 0, 1, 0, 1, 0, 1));
}

TEST(TurnSequences, AreComparedOnceEach) {
  const TurnsOfModel some = turns({1, 1}), none = turns({});
  EXPECT_THAT(names({some}), ElementsAre("longest remaining time first", "step after step"));
  EXPECT_THAT(names({none, some, none}), ElementsAre("longest remaining time first", "step after step"));
  EXPECT_THAT(names({some, some, none}),
              ElementsAre("longest remaining time first", "step after step", "staggered, 2 under way"));
  EXPECT_THAT(names(std::vector<TurnsOfModel>(9, some)),
              ElementsAre("longest remaining time first", "step after step", "staggered, 2 under way",
                          "staggered, 3 under way", "staggered, 4 under way", "staggered, 9 under way"));
}

TEST(TurnSequences, ListOnlyModelsThatHaveTurns) {
  const TurnsOfModel some = turns({1, 2}), none = turns({});
  for (const TurnSequence& order : turn_sequences({none, some, none, some}, RoundEnds::within_steps)) {
    EXPECT_EQ(std::set<std::int32_t>(order.models.begin(), order.models.end()),
              (std::set<std::int32_t>{1, 3}));
  }
}

}  // namespace
}  // namespace strata
