#include "engine/tools/report/live_panel.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <cstdlib>
#include <string_view>

#include "engine/model/model.h"
#include "engine/tools/report/figures.h"
#include "engine/tools/report/progress_text.h"

namespace strata {
namespace {

constexpr std::array<std::string_view, 8> kBlocks = {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"},
                                          kLetters = {"_", ".", ":", "-", "=", "+", "*", "#"};
constexpr std::size_t kMostLosses = 512;
constexpr std::size_t kNameWidth = 9;

/// Cut where it does not fit, with nothing that only UTF-8 has.
std::string cut(std::string line, std::size_t columns) {
  while (columns_of(line) > columns) {
    while (!line.empty() && (static_cast<unsigned char>(line.back()) & 0xC0U) == 0x80U) line.pop_back();
    line.pop_back();
  }
  return line;
}

}  // namespace

bool locale_is_utf8() {
  for (const char* name : {"LC_ALL", "LC_CTYPE", "LANG"}) {
    const char* value = std::getenv(name);  // NOLINT(concurrency-mt-unsafe): nobody sets it
    if (value == nullptr || *value == '\0') continue;
    std::string text = value;
    std::ranges::transform(text, text.begin(), [](unsigned char c) { return std::tolower(c); });
    return text.find("utf-8") != std::string::npos || text.find("utf8") != std::string::npos;
  }
  return false;
}

PanelPlan panel_plan(const Plan& plan, std::function<LiveFigures()> live) {
  PanelPlan panel = {.tiers = {}, .lanes = {}, .live = std::move(live), .is_utf8 = locale_is_utf8()};
  for (const Tier tier : used_tiers(plan.budgets))
    panel.tiers.push_back({tier, plan.arena_bytes(tier), plan.budgets[tier]});
  for (const Lane lane : kLanes)
    if (!plan.training().dependencies.lanes[lane].empty()) panel.lanes.push_back(lane);
  return panel;
}

void LivePanel::note_loss(double loss) {
  losses_.push_back(loss);
  if (losses_.size() > kMostLosses) losses_.pop_front();
}

void LivePanel::sample(double seconds) {
  samples_.push_back({seconds, plan_.live()});
  while (samples_.size() > 2 && seconds - samples_[1].seconds >= kUseSeconds) samples_.pop_front();
}

std::string LivePanel::bar(double share, std::size_t width) const {
  const auto filled =
      static_cast<std::size_t>(std::lround(std::clamp(share, 0.0, 1.0) * static_cast<double>(width)));
  std::string text;
  for (std::size_t i = 0; i < width; ++i)
    text += i < filled ? (plan_.is_utf8 ? "█" : "#") : (plan_.is_utf8 ? "░" : ".");
  return text;
}

/// The bar is of the budget, or of what is planned if that is all there is to say.
std::string LivePanel::memory_line(const PanelPlan::OfTier& tier, std::size_t columns) const {
  const Bytes highest = samples_.empty() ? 0 : samples_.back().figures.peak_bytes[tier.tier];
  const bool is_limited = tier.budget != kUnlimited;
  const Bytes whole = is_limited ? tier.budget : tier.planned;
  std::string text = fmt::format("{} used, {} planned", format_bytes(highest), format_bytes(tier.planned));
  if (is_limited) text += fmt::format(" of {}", format_bytes(tier.budget));
  constexpr std::size_t kMostBar = 30, kLeastBar = 6;
  const std::size_t taken = kNameWidth + 1 + text.size();
  const std::size_t room = columns > taken ? std::min(columns - taken, kMostBar) : 0;
  const double share = whole > 0 ? static_cast<double>(highest) / static_cast<double>(whole) : 0;
  return fmt::format("{:<{}}{}{}", name_of(tier.tier), kNameWidth,
                     room >= kLeastBar ? bar(share, room) + " " : "", text);
}

/// As many beside one another as there is room for.
void LivePanel::add_lanes(std::vector<std::string>& lines, std::size_t columns) const {
  constexpr std::size_t kBar = 8, kCell = kNameWidth + kBar + 7;
  const std::size_t beside = std::max<std::size_t>(1, columns / kCell);
  std::size_t number = 0;
  for (const Lane lane : plan_.lanes) {
    double share = 0;
    if (samples_.size() > 1) {
      const double busy =
          samples_.back().figures.busy_seconds[lane] - samples_.front().figures.busy_seconds[lane];
      share = std::clamp(busy / (samples_.back().seconds - samples_.front().seconds), 0.0, 1.0);
    }
    if (number++ % beside == 0) lines.emplace_back();
    lines.back() +=
        fmt::format("{:<{}}{}{:>4.0f} %  ", name_of(lane), kNameWidth, bar(share, kBar), 100 * share);
  }
}

/// From the lowest to the highest of those shown; those that are not finite are gaps.
std::string LivePanel::loss_line(std::size_t columns) const {
  constexpr std::size_t kNumbers = 18, kMostWidth = 60;
  const std::size_t room = columns > kNameWidth + kNumbers ? columns - kNameWidth - kNumbers : 0;
  const std::size_t width = std::min({room, kMostWidth, losses_.size()});
  double lowest = INFINITY, highest = -INFINITY;
  const auto begin = losses_.end() - static_cast<std::ptrdiff_t>(width);
  for (auto loss = begin; loss != losses_.end(); ++loss) {
    if (!std::isfinite(*loss)) continue;
    lowest = std::min(lowest, *loss);
    highest = std::max(highest, *loss);
  }
  std::string text = fmt::format("{:<{}}", "loss", kNameWidth);
  for (auto loss = begin; loss != losses_.end(); ++loss) {
    const double share = highest > lowest ? (*loss - lowest) / (highest - lowest) : 0;
    const auto level =
        static_cast<std::size_t>(std::lround((std::isfinite(share) ? share : 0) * (kBlocks.size() - 1)));
    text += !std::isfinite(*loss) ? " " : (plan_.is_utf8 ? kBlocks : kLetters)[level];
  }
  if (width > 0 && lowest <= highest) text += fmt::format(" {:.4g} to {:.4g}", lowest, highest);
  return text;
}

std::vector<std::string> LivePanel::lines(std::size_t columns) const {
  std::vector<std::string> lines;
  for (const PanelPlan::OfTier& tier : plan_.tiers) lines.push_back(memory_line(tier, columns));
  add_lanes(lines, columns);
  if (!losses_.empty()) lines.push_back(loss_line(columns));
  for (std::string& line : lines) {
    line.erase(line.find_last_not_of(' ') + 1);
    line = cut(std::move(line), columns);
  }
  return lines;
}

}  // namespace strata
