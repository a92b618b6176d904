// The panel that a key adds above the progress of a run: memory of each tier, what lanes are used, and how
// the loss went. Values in, lines out; no threads of its own, one caller at a time.
#pragma once

#include <array>
#include <cstddef>
#include <deque>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "engine/plan/place/plan.h"
#include "engine/run/execute/executor.h"

namespace strata {

/// What the panel knows before the run.
struct PanelPlan {
  struct OfTier {
    Tier tier = Tier::device;
    Bytes planned = 0;
    Bytes budget = kUnlimited;
  };
  std::vector<OfTier> tiers;
  std::vector<Lane> lanes;  ///< that have instructions
  /// The run's figures so far. The thread that asks for a sample calls it.
  std::function<LiveFigures()> live;
  bool is_utf8 = false;  ///< the terminal shows blocks; else ASCII
};

class LivePanel {
 public:
  /// Lanes' use is shown as their mean over this time.
  static constexpr double kUseSeconds = 5;

  explicit LivePanel(PanelPlan plan) : plan_(std::move(plan)) {}

  void note_loss(double loss);
  /// Looks at the run; `seconds` by a clock.
  void sample(double seconds);
  /// None is longer than `columns`.
  std::vector<std::string> lines(std::size_t columns) const;

 private:
  struct Sample {
    double seconds = 0;
    LiveFigures figures;
  };
  std::string memory_line(const PanelPlan::OfTier& tier, std::size_t columns) const;
  void add_lanes(std::vector<std::string>& lines, std::size_t columns) const;
  std::string loss_line(std::size_t columns) const;
  std::string bar(double share, std::size_t width) const;

  PanelPlan plan_;
  std::deque<Sample> samples_;  ///< of the last seconds, the oldest first
  std::deque<double> losses_;
};

/// Whether the environment's locale writes UTF-8.
bool locale_is_utf8();

PanelPlan panel_plan(const Plan& plan, std::function<LiveFigures()> live);

/// What is said once where there is a panel.
inline constexpr const char* kPanelHint = "press p for memory, lanes and the loss";

}  // namespace strata
