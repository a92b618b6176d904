#include "collectives/agreement.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>

#include "base/system_error.h"
#include "collectives/launcher.h"
#include "collectives/same_on_all.h"
#include "tests/base/expect_error.h"
#include "tests/collectives/run_ranks.h"

namespace strata {
namespace {

using test::errors_of_ranks;
using test::run_ranks;
using ::testing::Each;

TEST(Agreement, EveryRankGetsTheTextOfTheFirst) {
  run_ranks(3, [](Communicator& ranks) {
    for (const std::string& text : {std::string("step-00000002"), std::string(), std::string(100'000, 'x')}) {
      EXPECT_EQ(text_of_first_rank(&ranks, [&] { return ranks.rank() == 0 ? text : "not asked"; }), text);
    }
  });
}

TEST(Agreement, OnlyTheFirstRankPerformsAnActionOfItsOwn) {
  run_ranks(4, [](Communicator& ranks) {
    int performed = 0;
    on_first_rank(&ranks, [&] { ++performed; });
    EXPECT_EQ(performed, ranks.rank() == 0 ? 1 : 0);
  });
}

TEST(Agreement, EveryRankGetsTheTextsOfAllHoweverLong) {
  run_ranks(3, [](Communicator& ranks) {
    const auto texts = texts_of_ranks(&ranks, [&] { return std::string(100UL * ranks.rank(), 'a'); });
    EXPECT_EQ(texts, (std::vector<std::string>{"", std::string(100, 'a'), std::string(200, 'a')}));
  });
}

TEST(Agreement, WhatFailsOnOneRankFailsOnAllAsTheSameErrorThatNamesItAndItsHost) {
  const auto failing_on = [](int rank, const auto& error) {
    return [rank, error](Communicator& ranks) {
      on_every_rank(&ranks, [&] {
        if (ranks.rank() == rank) throw error;
      });
    };
  };
  EXPECT_THAT(errors_of_ranks<ConfigError>(3, failing_on(0, ConfigError("wrong"))),
              Each(name_as_rank(0) + ": wrong"));
  EXPECT_THAT(errors_of_ranks<IoError>(3, failing_on(1, IoError("full"))), Each(name_as_rank(1) + ": full"));
  EXPECT_THAT(errors_of_ranks<Error>(3, failing_on(2, DeviceError("broken"))),
              Each(name_as_rank(2) + ": broken"));
  EXPECT_THAT(errors_of_ranks<std::runtime_error>(3, failing_on(2, std::runtime_error("odd"))),
              Each(name_as_rank(2) + ": odd"));
}

TEST(Agreement, DamageAndTheSystemsReasonsArriveAsWhatTheyAre) {
  const auto fail = [](const auto& error) {
    return [error](Communicator& ranks) {
      on_every_rank(&ranks, [&] {
        if (ranks.rank() == 1) throw error;
      });
    };
  };
  EXPECT_THAT(errors_of_ranks<DamageError>(2, fail(DamageError("torn"))), Each(name_as_rank(1) + ": torn"));
  EXPECT_THAT(errors_of_ranks<SystemError>(2, fail(SystemError("full", ENOSPC))),
              Each(name_as_rank(1) + ": full"));
  run_ranks(2, [&](Communicator& ranks) {
    try {
      fail(SystemError("full", ENOSPC))(ranks);
    } catch (const SystemError& error) {
      EXPECT_EQ(error.code, ENOSPC);
    }
  });
}

TEST(Agreement, OfSeveralThatFailAllNameTheFirst) {
  EXPECT_THAT(errors_of_ranks<IoError>(4,
                                       [](Communicator& ranks) {
                                         on_every_rank(&ranks, [&] {
                                           if (ranks.rank() >= 2) throw IoError(std::to_string(ranks.rank()));
                                         });
                                       }),
              Each(name_as_rank(2) + ": 2"));
}

TEST(Agreement, AfterAFailureTheRanksGoOnTogether) {
  run_ranks(2, [](Communicator& ranks) {
    EXPECT_THROW(on_first_rank(&ranks, [] { throw IoError("once"); }), IoError);
    EXPECT_EQ(text_of_first_rank(&ranks, [] { return std::string("again"); }), "again");
  });
}

TEST(Agreement, ARankAloneThrowsItsOwnError) {
  const auto fail = [] { throw DeviceError("broken"); };
  test::expect_error<DeviceError>([&] { on_first_rank(nullptr, fail); }, {"broken"});
  run_ranks(1, [&](Communicator& ranks) { EXPECT_THROW(on_every_rank(&ranks, fail), DeviceError); });
}

// Invariant (SameOnAll.*): Processes are one run.
TEST(SameOnAll, SaysNothingWhereAllHaveTheSame) {
  run_ranks(3, [](Communicator& ranks) {
    require_same(&ranks, {{"train.seed", "3"}, {"model.path", ""}}, "start them alike");
    require_same(&ranks, {}, "start them alike");
  });
  require_same(nullptr, {{"train.seed", "3"}}, "start them alike");
}

TEST(SameOnAll, EveryRankHearsWhatDiffersAndWhere) {
  const auto compare = [](const std::function<Facts(int)>& facts_of) {
    return errors_of_ranks<ConfigError>(
        4, [&](Communicator& ranks) { require_same(&ranks, facts_of(ranks.rank()), "start them alike"); });
  };
  EXPECT_THAT(compare([](int rank) {
                return Facts{{"train.steps", "6"}, {"train.seed", rank == 2 ? "5" : "3"}};
              }),
              Each("train.seed: 5 on " + name_as_rank(2) + ", and 3 on " + name_as_rank(0) +
                   "; rank 2 differs from rank 0: start them alike"));
  EXPECT_THAT(compare([](int rank) {
                return Facts{{"--fresh", rank == 0 ? "given" : ""}, {"train.seed", rank == 0 ? "5" : "3"}};
              }),
              Each("--fresh: not given on " + name_as_rank(1) + ", and given on " + name_as_rank(0) +
                   "; ranks 1, 2, 3 differ from rank 0: start them alike"));
  EXPECT_THAT(compare([](int rank) {
                return rank == 3 ? Facts{{"a new key", "1"}} : Facts{};
              }),
              Each("a new key: 1 on " + name_as_rank(3) + ", and not given on " + name_as_rank(0) +
                   "; rank 3 differs from rank 0: start them alike"));
}

TEST(SameOnAll, OfManyThatDifferAFewAreNamed) {
  const auto facts_of = [](int rank) { return Facts{{"train.seed", rank == 0 ? "5" : "3"}}; };
  EXPECT_THAT(errors_of_ranks<ConfigError>(
                  12, [&](Communicator& ranks) { require_same(&ranks, facts_of(ranks.rank()), "so"); }),
              Each(::testing::HasSubstr("ranks 1, 2, 3, 4, 5, 6, 7, 8 and 3 others differ from rank 0")));
}

}  // namespace
}  // namespace strata
