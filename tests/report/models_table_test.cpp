// What a run of several models says while it goes on: a table that is redrawn in place on a terminal, and
// elsewhere enough lines to see that it advances, and no flood.
#include "engine/tools/report/models_table.h"

#include <gmock/gmock.h>

#include <limits>
#include <optional>
#include <sstream>

#include "tests/report/terminal.h"

namespace strata::test {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::SizeIs;
using ::testing::StartsWith;

std::vector<ModelLabel> models_named(const std::vector<std::string>& names, std::int64_t steps) {
  std::vector<ModelLabel> models;
  models.reserve(names.size());
  for (const std::string& name : names)
    models.push_back({.name = name, .steps = steps, .tokens_per_step = 1000});
  return models;
}

/// A table on a made-up clock, and what it writes.
class TableTest : public ::testing::Test {
 protected:
  void make(std::vector<ModelLabel> models, bool terminal) {
    for (std::size_t m = 0; m < models.size(); ++m) steps_.push_back(0);
    table_.emplace(
        std::move(models), "device 24.00 MiB", terminal,
        ModelsTable::Surroundings{.seconds = [this] { return now_; }, .size = [this] { return size_; }});
    ::testing::internal::CaptureStderr();
  }
  /// The model's next step, `seconds` after the step before of any.
  void step(std::size_t model, double seconds, double own_seconds, double loss = 2.5) {
    now_ += seconds;
    StepReport report;
    report.step = steps_[model]++;
    report.loss = loss;
    report.seconds = own_seconds;
    report.begins = report.step == 0;
    table_->of(model).on_step(report);
  }
  std::string written() { return ::testing::internal::GetCapturedStderr(); }
  std::vector<std::string> lines() {
    std::istringstream text(written());
    std::vector<std::string> lines;
    for (std::string line; std::getline(text, line);) lines.push_back(line);
    return lines;
  }
  std::vector<std::string> shown() {
    terminal_.show(written());
    return terminal_.lines();
  }
  ModelsTable& table() { return *table_; }

  double now_ = 100;
  TerminalSize size_;
  Terminal terminal_;

 private:
  std::vector<std::int64_t> steps_;
  std::optional<ModelsTable> table_;
};

using LinesOfModels = TableTest;
using TableOfModels = TableTest;

TEST_F(LinesOfModels, TellOfAllModelsTogether) {
  make(models_named({"a", "b"}, 3), false);
  for (int i = 0; i < 3; ++i) {
    step(0, 1, 2);
    step(1, 1, 2);
  }
  EXPECT_THAT(lines(),
              ElementsAre("2 models: 0 trained, 2 under way, step 1/6 of all, 500 tokens/s, 4s left",
                          "a: trained, step 3, loss 2.5000", "b: trained, step 3, loss 2.5000",
                          "2 models: 2 trained, 0 under way, step 6/6 of all, 500 tokens/s, 0s left"));
}

TEST_F(LinesOfModels, LeaveNoThirtySecondsWithoutOne) {
  make(models_named({"a", "b"}, 5), false);
  for (int i = 0; i < 5; ++i) {
    step(0, 8, 16);
    step(1, 8, 16);
  }
  EXPECT_THAT(lines(),
              ElementsAre(HasSubstr("step 1/10"), HasSubstr("step 4/10"), HasSubstr("step 7/10"),
                          StartsWith("a: trained"), StartsWith("b: trained"), HasSubstr("step 10/10")));
}

TEST_F(LinesOfModels, FloodNoLog) {
  make(models_named({"a", "b"}, 500), false);
  for (int i = 0; i < 499; ++i) {
    step(0, 0.01, 0.02);
    step(1, 0.01, 0.02);
  }
  EXPECT_THAT(lines(), SizeIs(1));
}

TEST_F(LinesOfModels, SayWhyOneEnded) {
  make(models_named({"a", "b"}, 2), false);
  step(0, 1, 2, std::numeric_limits<double>::quiet_NaN());
  step(1, 1, 2);
  table().end(0, "its loss is not finite");
  step(1, 1, 2);
  EXPECT_THAT(lines(),
              ElementsAre(HasSubstr("2 under way, step 1/4 of all"),
                          "a: ended at step 1/2, loss nan: its loss is not finite", StartsWith("b: trained"),
                          "2 models: 1 trained, 1 ended, 0 under way, step 3/3 of all, 500 tokens/s, "
                          "0s left"));
}

TEST_F(LinesOfModels, AreOneMoreIfTheLastOneEnds) {
  make(models_named({"a"}, 2), false);
  step(0, 1, 1);
  table().end(0, "its disk is full");
  EXPECT_THAT(lines(),
              ElementsAre(HasSubstr("step 1/2"), StartsWith("a: ended"), HasSubstr("1 ended, 0 under")));
}

TEST_F(LinesOfModels, CountStepsBeforeTheRun) {
  make(models_named({"a", "b"}, 4), false);
  table().of(0).on_safe_step(4);
  table().of(1).on_safe_step(2);
  table().of(1).on_start("resuming from out/b/step-2 (step 2)");
  StepReport report;
  report.step = 2;
  report.seconds = 1;
  table().of(1).on_step(report);
  EXPECT_THAT(lines(), ElementsAre("b: resuming from out/b/step-2 (step 2)",
                                   AllOf(StartsWith("2 models: 1 trained, 1 under way, step 7/8"),
                                         HasSubstr("1000 tokens/s, 1s left"))));
}

TEST_F(LinesOfModels, NameTheModel) {
  make(models_named({"a", "b"}, 4), false);
  table().of(1).on_validation({.step = 2, .loss = 3.5});
  table().of(1).on_checkpoint("out at step 2");
  table().of(0).on_warning("the disk is slow");
  StepReport skipped;
  skipped.skipped = true;
  table().of(0).on_step(skipped);
  EXPECT_THAT(lines(), ElementsAre("b: step 2: validation loss 3.5000", "b: saved out at step 2",
                                   "a: warning: the disk is slow",
                                   "a: step 1: gradients that are not finite update nothing",
                                   HasSubstr("step 1/8 of all, - tokens/s")));
}

TEST_F(TableOfModels, HasALineForEachAndOneForTheRun) {
  make(models_named({"lr=1e-4", "b"}, 200), true);
  table().of(1).on_validation({.step = 0, .loss = 5.25});
  step(0, 1, 2);
  step(1, 1, 4);
  table().finish();
  EXPECT_THAT(shown(),
              ElementsAre("b: step 0: validation loss 5.2500",                       //
                          "model       step    loss  validation  tokens/s    left",  //
                          "lr=1e-4    1/200  2.5000           -       500   6m38s",  //
                          "b          1/200  2.5000      5.2500       250  13m16s",  //
                          "2 models: 0 trained, 2 under way, step 2/400 of all, 750 tokens/s, 13m16s left  "
                          "device 24.00 MiB"));
}

TEST_F(TableOfModels, IsRedrawnInPlaceBelowLinesThatStay) {
  make(models_named({"a", "b"}, 100), true);
  for (int i = 0; i < 50; ++i) {
    step(0, 1, 2);
    step(1, 1, 2);
    if (i % 20 == 0) table().of(1).on_checkpoint("out at step " + std::to_string(i + 1));
  }
  EXPECT_THAT(shown(),
              ElementsAre("b: saved out at step 1", "b: saved out at step 21", "b: saved out at step 41",
                          StartsWith("model"), AllOf(StartsWith("a "), HasSubstr(" 50/100 ")),
                          AllOf(StartsWith("b "), HasSubstr(" 50/100 ")),
                          AllOf(StartsWith("2 models:"), EndsWith("device 24.00 MiB"))));
}

TEST_F(TableOfModels, IsDrawnFiveTimesASecond) {
  make(models_named({"a"}, 10000), true);
  for (int i = 0; i < 2000; ++i) step(0, 0.001, 0.001);
  const std::string text = written();
  std::size_t drawings = 0;
  for (std::size_t at = text.find("\033[J"); at != text.npos; at = text.find("\033[J", at + 1)) ++drawings;
  EXPECT_GE(drawings, 9U);
  EXPECT_LE(drawings, 11U);
}

TEST_F(TableOfModels, EndsWithTheLatestOfEach) {
  make(models_named({"a", "b"}, 2), true);
  for (int i = 0; i < 2; ++i) {
    step(0, 0.01, 0.02);
    step(1, 0.01, 0.02);
  }
  table().finish();
  const std::string text = written();
  EXPECT_THAT(text, EndsWith("\n"));
  terminal_.show(text);
  EXPECT_THAT(terminal_.lines(),
              ElementsAre(StartsWith("model"), AllOf(HasSubstr("2/2"), EndsWith("trained")),
                          AllOf(HasSubstr("2/2"), EndsWith("trained")),
                          StartsWith("2 models: 2 trained, 0 under way, step 4/4")));
}

TEST_F(TableOfModels, ShowsWhyOneEnded) {
  make(models_named({"a", "b"}, 9), true);
  step(0, 1, 1);
  table().end(0, "its loss is not finite");
  step(1, 1, 1);
  EXPECT_THAT(shown(),
              ElementsAre("a: ended at step 1/9, loss 2.5000: its loss is not finite", StartsWith("model"),
                          AllOf(StartsWith("a "), EndsWith("ended: its loss is not finite")),
                          StartsWith("b "), HasSubstr("1 ended, 1 under way")));
}

TEST_F(TableOfModels, OfManyShowsThoseUnderWayThatChangedLast) {
  std::vector<std::string> names;
  names.reserve(1000);
  for (int m = 0; m < 1000; ++m) names.push_back("m" + std::to_string(m));
  make(models_named(names, 2), true);
  for (std::size_t m = 0; m < 1000; ++m) step(m, 1, 1000);
  step(999, 1, 1000);  // its last
  step(7, 1, 1000);    // its last
  step(3, 1, 1000);
  std::vector<std::string> lines = shown();
  ASSERT_THAT(lines, SizeIs(ModelsTable::kMostLines + 3));
  EXPECT_THAT(lines[1], StartsWith("m979 "));
  EXPECT_THAT(lines[20], StartsWith("m998 "));
  EXPECT_EQ(lines[21], "… and 980 more");
  EXPECT_THAT(lines[22], StartsWith("1000 models: 3 trained, 997 under way, step 1003/2000 of all"));
}

TEST_F(TableOfModels, FitsALowTerminal) {
  size_.rows = 8;
  make(models_named({"a", "b", "c", "d", "e", "f", "g", "h", "i"}, 2), true);
  step(0, 1, 1);
  EXPECT_THAT(shown(), SizeIs(7));
}

TEST_F(TableOfModels, FitsANarrowTerminal) {
  make(models_named(
           {"optimizer.lr=0.0001,train.seed=12345678901234567890", "modèle à très long nom: ünïcödé ünïcödé",
            "短い名前ではない短い名前ではない短い名前ではない", "b\n\033[2Jc"},
           200),
       true);
  for (const std::size_t columns : {2, 10, 40, 80, 120, 200}) {
    SCOPED_TRACE(columns);
    size_.columns = columns;
    for (std::size_t m = 0; m < 4; ++m) step(m, 1, 4, 1e6);
    const std::string text = written();
    ::testing::internal::CaptureStderr();
    EXPECT_THAT(text, Not(HasSubstr("\033[2J")));
    terminal_.show(text);
    EXPECT_LT(terminal_.width(), columns);
  }
  written();
}

TEST_F(LinesOfModels, TellOfSamplesThatTakeLong) {
  make(models_named({"a", "b"}, 10), /*terminal=*/false);
  for (std::int64_t tokens = 1; tokens <= 7; ++tokens) {
    table().of(0).on_sampling({.step = 4, .tokens = tokens, .samples = 2, .ended = 1});
    now_ += 10;
  }
  table().of(0).on_samples({.step = 4, .seconds = 1, .samples = {{"once", " upon", {7}}}});
  EXPECT_THAT(lines(), ElementsAre("a: step 4: samples, 5 tokens each so far, 1 of 2 ended",
                                   "a: step 4: \"once\" \" upon\""));
}

}  // namespace
}  // namespace strata::test
