// The record of a run of several models.
#include "engine/run/execute/run_record.h"

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <limits>

#include "engine/model/model.h"
#include "tests/base/expect_error.h"
#include "tests/base/faulty_file_system.h"
#include "tests/base/temporary_folder.h"

namespace strata {
namespace {

using test::expect_error;
using test::TemporaryFolder;

RunRecord some_record() {
  RunRecord record;
  record.models["lr=1e-2"] = {.steps = 6,
                              .step = 6,
                              .ended = "",
                              .state_hash = "0123",
                              .loss = 4.8,
                              .validation_loss = 5.1,
                              .skipped = 1,
                              .saves = 2};
  record.models["lr=1e-3"] = {.steps = 6, .step = 3, .ended = "2 of 2 at step 3", .state_hash = "4567"};
  record.best = "lr=1e-2";
  record.rungs[3]["lr=1e-3"] = "2 of 2 at step 3";
  record.rungs[5] = {};
  record.losses[3] = {{"lr=1e-2", 4.5}, {"lr=1e-3", 5.25}};
  record.losses[6] = {{"lr=1e-2", 4}};
  return record;
}

TEST(RunRecord, IsReadAsItWasWritten) {
  EXPECT_EQ(parse_run_record(to_text(some_record()), "here"), some_record());
  EXPECT_EQ(parse_run_record(to_text(RunRecord()), "here"), RunRecord());
}

TEST(RunRecord, KeepsALossThatIsNotANumber) {
  RunRecord record;
  record.models["a"].loss = std::numeric_limits<double>::infinity();
  record.losses[1]["a"] = std::numeric_limits<double>::quiet_NaN();
  const RunRecord read = parse_run_record(to_text(record), "here");
  EXPECT_TRUE(std::isnan(read.models.at("a").loss.value()));
  EXPECT_TRUE(std::isnan(read.losses.at(1).at("a")));
}

TEST(RunRecord, OfAResultGivesItBack) {
  TrainResult result;
  result.steps = {{.step = 4, .loss = 3}, {.step = 5, .loss = 2}};
  result.counters = {6, 5, 1};
  result.validation = {{6, 7.5}};
  result.saves = 3;
  result.state_hash = "89ab";
  const RecordedModel model = recorded(result, 6);
  EXPECT_EQ(model.loss, 2.5);
  EXPECT_EQ(recorded(result_of(model), 6), model);
  result.steps.clear();
  EXPECT_EQ(recorded(result, 6).loss, std::nullopt) << "all its steps are from a checkpoint";
  EXPECT_TRUE(result_of(recorded(result, 6)).steps.empty());
}

TEST(RunRecord, ThatIsDamagedIsRefusedWithTheWayOut) {
  const std::string whole = to_text(some_record());
  const auto replaced = [&](const std::string& from, const std::string& to) {
    std::string text = whole;
    const std::size_t at = text.find(from);
    EXPECT_NE(at, text.npos) << from;
    return text.replace(at, from.size(), to);
  };
  for (const std::string& text :
       {std::string(), whole.substr(0, whole.size() / 2), std::string("[]"), std::string("{}"),
        std::string(64, '\0'), replaced("\"step\": 6", "\"step\": 1e300"),
        replaced("\"step\": 6", "\"step\": -1"), replaced("\"step\": 6", "\"step\": \"6\""),
        replaced("\"step\": 6", "\"step\": 18446744073709551615"),
        replaced("\"ended\": \"\"", "\"ended\": 1"), replaced("\"rungs\": [", "\"rungs\": [7,"),
        replaced("strata run", "strata checkpoint"), replaced("\"loss\": 4.8", "\"loss\": {}")}) {
    SCOPED_TRACE(text);
    expect_error<ConfigError>([&] { parse_run_record(text, "out/run.json"); },
                              {"out/run.json: is no record of a run (", "--fresh", "take the file away"});
  }
  expect_error<ConfigError>([&] { parse_run_record(replaced("\"version\": 1", "\"version\": 2"), "out"); },
                            {"its version is 2 and this program's 1", "--fresh"});
}

TEST(RunRecord, IsTheOneBeforeOrTheNewOneWheneverTheMachineStops) {
  for (int fail_at = 0;; ++fail_at) {
    const TemporaryFolder folder;
    store_run_record({}, folder.path());
    test::FaultyFileSystem files(fail_at, test::Fault::power_loss);
    bool has_failed = false;
    try {
      store_run_record(some_record(), folder.path(), files);
    } catch (const IoError&) {
      has_failed = true;
    }
    files.lose_unsynced();
    const RunRecord record = load_run_record(folder.path());
    EXPECT_TRUE(record == some_record() || (has_failed && record == RunRecord())) << fail_at;
    if (!has_failed) break;
    ASSERT_LT(fail_at, 100);
  }
}

TEST(RunRecord, IsReplacedAtOnce) {
  const TemporaryFolder folder;
  const auto path = folder.path() / "out";
  EXPECT_EQ(load_run_record(path), RunRecord());
  store_run_record({}, path);
  std::ofstream(path / "run.json.tmp") << "left by a crash";
  store_run_record(some_record(), path);
  EXPECT_EQ(load_run_record(path), some_record());
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(path), {}), 1);
}

}  // namespace
}  // namespace strata
