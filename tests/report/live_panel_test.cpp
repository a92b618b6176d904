// The panel above a run's progress: its figures, and that it fits the terminal.
#include "engine/tools/report/live_panel.h"

#include <gmock/gmock.h>

#include <cmath>

#include "engine/tools/report/progress_text.h"

namespace strata::test {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;
using ::testing::StartsWith;

class Panels : public ::testing::Test {
 protected:
  LivePanel make(bool is_utf8 = false) {
    return LivePanel({.tiers = {{Tier::device, 12 * MiB, 16 * MiB}, {Tier::host, 64 * MiB, kUnlimited}},
                      .lanes = {Lane::h2d, Lane::compute},
                      .live = [this] { return figures_; },
                      .is_utf8 = is_utf8});
  }
  double& busy(Lane lane) { return figures_.busy_seconds[lane]; }
  Bytes& peak(Tier tier) { return figures_.peak_bytes[tier]; }

  LiveFigures figures_;
};

TEST_F(Panels, ShowMemoryBesidePlanAndBudget) {
  LivePanel panel = make();
  peak(Tier::device) = 8 * MiB;
  peak(Tier::host) = 64 * MiB;
  panel.sample(0);
  const std::vector<std::string> lines = panel.lines(100);
  EXPECT_EQ(lines[0],
            "device   ###############............... 8.00 MiB used, 12.00 MiB planned of 16.00 MiB");
  EXPECT_EQ(lines[1], "host     ############################## 64.00 MiB used, 64.00 MiB planned");
}

TEST_F(Panels, ShowTheUseOfLanesInTheLastSeconds) {
  LivePanel panel = make();
  for (int second = 0; second <= 20; ++second) {
    busy(Lane::h2d) += 0.25;
    busy(Lane::compute) += second > 10 ? 1 : 0;
    panel.sample(second);
  }
  EXPECT_EQ(panel.lines(100)[2], "h2d      ##......  25 %  compute  ######## 100 %");
  EXPECT_THAT(panel.lines(40), ElementsAre(StartsWith("device"), StartsWith("host"),
                                           "h2d      ##......  25 %", "compute  ######## 100 %"));
}

TEST_F(Panels, ShowTheLossFromItsLowestToItsHighest) {
  LivePanel panel = make(true);
  for (const double loss : {4.0, 3.0, std::nan(""), 2.0, 0.5}) panel.note_loss(loss);
  EXPECT_EQ(panel.lines(100).back(), "loss     █▆ ▄▁ 0.5 to 4");
  LivePanel plain = make();
  for (const double loss : {4.0, 0.5}) plain.note_loss(loss);
  EXPECT_EQ(plain.lines(100).back(), "loss     #_ 0.5 to 4");
  LivePanel same = make();
  for (int i = 0; i < 3; ++i) same.note_loss(2);
  EXPECT_EQ(same.lines(100).back(), "loss     ___ 2 to 2");
}

TEST_F(Panels, FitAnyTerminal) {
  for (const bool is_utf8 : {false, true}) {
    LivePanel panel = make(is_utf8);
    panel.sample(0);
    panel.sample(1);
    for (int i = 0; i < 1000; ++i) panel.note_loss(1000 + i);
    for (const std::size_t columns : {1U, 5U, 20U, 39U, 40U, 80U, 200U}) {
      for (const std::string& line : panel.lines(columns)) {
        EXPECT_LE(columns_of(line), columns) << line;
        EXPECT_EQ(line.find('\n'), std::string::npos);
        if (!is_utf8) {
          EXPECT_LE(line.size(), columns);
          for (const char c : line) EXPECT_GE(c, ' ');
        }
      }
    }
  }
}

}  // namespace
}  // namespace strata::test
