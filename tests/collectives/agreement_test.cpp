#include "collectives/agreement.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>

#include "collectives/launcher.h"
#include "engine/base/system_error.h"
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

}  // namespace
}  // namespace strata
