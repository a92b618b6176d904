#include "engine/tools/report/explain_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <vector>

#include "engine/config/choices.h"
#include "engine/config/run_config.h"
#include "engine/model/model.h"
#include "engine/plan/planner/step_use.h"
#include "engine/tools/report/certificate_report.h"
#include "engine/tools/report/change_words.h"
#include "engine/tools/report/figures.h"
#include "engine/tools/report/plan_report.h"

namespace strata {
namespace {

/// A step is at its bound if it takes at most this many times what a resource needs.
constexpr double kAtBound = 1.05;

/// Whether nothing but longer work keeps the step from being shorter.
bool is_at(double seconds, const StepEstimate& step) {
  return step.seconds <= kAtBound * seconds;
}

class Explanation {
 public:
  Explanation(const AdviceInput& input, const Advice& advice, const std::vector<RankUse>& uses,
              const MachineRates& rates, const std::string& rates_are)
      : input_(input),
        advice_(advice),
        rates_(rates),
        rates_are_(rates_are),
        uses_(uses),
        config_(input.configs.front()) {}

  std::string text() {
    heading("The step");
    say_step();
    for (std::size_t r = 0; r < uses_.size(); ++r) {
      const std::string of_rank = uses_.size() > 1 ? fmt::format(", rank {}", uses_[r].rank) : "";
      heading("What lives where" + of_rank);
      said_reason_.clear();
      say_tiers(r);
      say_parameters(uses_[r]);
      say_optimizer_state(uses_[r]);
      say_gradients(uses_[r]);
      say_activations(r);
      say_workspace(uses_[r]);
      heading("What lanes do" + of_rank);
      say_lanes(uses_[r]);
    }
    say_changes();
    return std::move(text_);
  }

 private:
  void heading(const std::string& words) { text_ += words + '\n'; }
  template <typename... Values>
  void line(fmt::format_string<Values...> format, Values&&... values) {
    text_ += "  " + fmt::format(format, std::forward<Values>(values)...) + '\n';
  }

  void say_step() {
    const StepEstimate& step = advice_.now.step;
    line("{} is planned to take {} for {} tokens: {}.", step_word(), seconds_text(step.seconds),
         advice_.now.tokens, speed_text(advice_.now));
    line("{}.", bound_sentence(advice_.certificate, step.seconds));
    if (rates_.cores_copy && step.work > step.needs.longest())
      line("The cores compute, update and copy one after another, which takes {}.", seconds_text(step.work));
    if (!is_at(std::max(step.work, step.needs.longest()), step))
      line("What is more is waiting: what each lane waits for stands below.");
    say_resources(step.needs);
    if (advice_.roomy && advice_.roomy->step.seconds < (1 - kLeastGain) * step.seconds) {
      const Bytes all = advice_.roomy->peaks[Tier::device];
      line("With memory enough, {} on the device, it would take {}.", format_bytes(all),
           seconds_text(advice_.roomy->step.seconds));
    }
    line("The rates that times follow from are {}.", rates_are_);
  }

  std::string_view step_word() const { return input_.is_several ? "A round of all models" : "A step"; }

  /// Each by itself, if nothing else took time.
  void say_resources(const StepNeeds& needs) {
    std::string text;
    const auto add = [&](std::string_view what, double seconds) {
      if (seconds > 0) text += fmt::format("{}{} {}", text.empty() ? "" : ", ", what, seconds_text(seconds));
    };
    add("computing", needs.compute);
    add("the link to the device", needs.h2d);
    add("the link to the host", needs.d2h);
    add("the host's memory", needs.host_memory);
    add("the drives", needs.nvme);
    line("By itself each resource would take, for what this plan does: {}.", text);
  }

  void say_tiers(std::size_t rank) {
    for (const Tier tier : used_tiers(advice_.now.budgets)) {
      const TierPlan plan = tier_plan(advice_.run->plans[rank], tier);
      if (plan.peak_bytes == 0) continue;
      const std::string_view where = tier == Tier::nvme   ? "The drives hold"
                                     : tier == Tier::host ? "The host holds"
                                                          : "The device holds";
      const std::string left = plan.budget == kUnlimited
                                   ? ""
                                   : fmt::format(" of {}, {} of it unused", format_bytes(plan.budget),
                                                 format_bytes(plan.budget - plan.peak_bytes));
      line("{} {}{}; at the peak {}.", where, format_bytes(plan.peak_bytes), left, kinds_text(plan.by_kind));
    }
  }

  /// "1.20 GiB on the device, 300 MiB on the host"; empty if there is nothing.
  static std::string places(const EnumArray<Tier, Bytes>& bytes) {
    std::string text;
    bytes.for_each([&](Tier tier, Bytes there) {
      if (there == 0) return;
      text += fmt::format("{}{} on {}", text.empty() ? "" : ", ", format_bytes(there),
                          tier == Tier::nvme ? "drives" : fmt::format("the {}", name_of(tier)));
    });
    return text;
  }

  /// "each step 1.20 GiB travel to the device and 300 MiB back"
  static std::string travels(const KindUse& use) {
    std::string text;
    const auto add = [&](Link link, std::string_view where) {
      if (use.moved[link] > 0)
        text += fmt::format("{}{} {}", text.empty() ? "" : ", ", format_bytes(use.moved[link]), where);
    };
    add(Link::h2d, "to the device");
    add(Link::d2h, "to the host");
    add(Link::nvme_read, "from drives");
    add(Link::nvme_write, "to drives");
    return text.empty() ? "none of it travels" : "each step moves " + text;
  }

  /// Why something is not on the device, or not on the host.
  std::string reason(const KindUse& use, TierChoice placed, std::string_view key) const {
    const Bytes host = use.stays[Tier::host], drives = use.stays[Tier::nvme];
    if (host + drives == 0) {
      return placed == TierChoice::device ? fmt::format("as memory.placement.{} says", key)
                                          : "since the device has room for all of it";
    }
    if (placed != TierChoice::automatic)
      return fmt::format("as memory.placement.{} {} says", key, word_of(placed));
    const TierBudgets& budgets = advice_.now.budgets;
    const Bytes device = budgets[Tier::device];
    if (advice_.roomy && advice_.roomy->peaks[Tier::device] <= device)
      return "since no step was found that is shorter with it on the device";
    std::string why =
        fmt::format("since the device's {} have no room for more of it beside what passes need and save",
                    format_bytes(device));
    if (drives > 0) why += fmt::format(", nor the host's {}", format_bytes(budgets[Tier::host]));
    return why;
  }

  void say_kept(std::string_view what, const KindUse& use, TierChoice placed, std::string_view key) {
    const std::string where = places(use.stays);
    if (where.empty()) return;
    const std::string why = reason(use, placed, key);
    line("{}: {}, {}; {}.", what, where, why == said_reason_ ? "for the same reason" : why, travels(use));
    said_reason_ = why;
  }

  void say_parameters(const RankUse& use) {
    say_kept("Parameters", use.kinds[BufferKind::parameter], config_.memory.parameters, "parameters");
  }
  void say_optimizer_state(const RankUse& use) {
    say_kept("The optimizer's state", use.kinds[BufferKind::optimizer_state], config_.memory.optimizer_state,
             "optimizer_state");
  }

  void say_gradients(const RankUse& use) {
    const KindUse& gradients = use.kinds[BufferKind::gradient];
    const std::string where = places(gradients.at_peak);
    if (where.empty()) return;
    std::string_view why;
    if (gradients.moved[Link::d2h] > 0) why = ", since what lives beyond the device is updated there";
    if (gradients.moved[Link::h2d] > 0)
      why = ", since the device has no room for sums that later microbatches add to";
    line("Gradients: {} at the peak; {}{}.", where, travels(gradients), why);
  }

  void say_saved(std::size_t rank) {
    SavedUnits saved;
    const Plan& plan = advice_.run->plans[rank];
    for (std::size_t m = 0; m < plan.models.size(); ++m) {
      if (!plan.models[m]) continue;
      const SavedUnits of_model = count_saved(*plan.models[m], *input_.models[m]);
      saved.none += of_model.none;
      saved.some += of_model.some;
      saved.all += of_model.all;
    }
    std::string list;
    const auto add = [&](std::int64_t units, std::string_view what) {
      if (units > 0) list += fmt::format("{}{} {}", list.empty() ? "" : ", ", units, what);
    };
    add(saved.all, "save all that their backward passes need");
    add(saved.some, "save some of it and compute the rest again");
    add(saved.none, "save nothing and compute it again");
    if (!list.empty())
      line("Of {} units that can save activations, {}.", saved.none + saved.some + saved.all, list);
  }

  void say_activations(std::size_t rank) {
    const KindUse& activations = uses_[rank].kinds[BufferKind::activation];
    const std::string where = places(activations.at_peak);
    if (!where.empty()) {
      const bool leave = activations.moved[Link::d2h] > 0;
      line("Activations: {} at the peak; {}{}.", where, travels(activations),
           leave ? ", since the device holds no more of them until their backward passes" : "");
    }
    say_saved(rank);
  }

  void say_workspace(const RankUse& use) {
    const Bytes workspace = use.kinds[BufferKind::workspace].at_peak[Tier::device];
    if (workspace > 0)
      line("Workspace: {} on the device, where passes compute in it.", format_bytes(workspace));
  }

  void say_lanes(const RankUse& use) {
    for (const LaneUse& lane : use.lanes) {
      std::string waits;
      for (std::size_t i = 0; i < std::min<std::size_t>(2, lane.waited.size()); ++i) {
        const auto& [operation, seconds] = lane.waited[i];
        waits += fmt::format("{}{} for {}", waits.empty() ? ": " : ", ", seconds_text(seconds),
                             name_of(operation));
      }
      line("{} works {} and waits {}{}.", name_of(lane.lane), seconds_text(lane.busy),
           seconds_text(lane.idle), waits);
    }
    if (rates_.cores_copy) line("Lanes share the cores: what runs beside other work takes longer.");
  }

  void say_changes() {
    heading("What would help most");
    if (!advice_.changes.empty()) {
      for (std::size_t c = 0; c < advice_.changes.size(); ++c)
        text_ += change_text(advice_.changes[c], &advice_.now, c + 1);
      line("Each was planned as it stands here, alone; {} changes were.", advice_.planned);
      return;
    }
    const StepEstimate& step = advice_.now.step;
    std::string why;
    const Certificate& bound = advice_.certificate;
    if (is_at(bound.seconds, step)) {
      why = fmt::format("The step is at its bound, {}", words_of(bound.binding));
    } else if (rates_.cores_copy && is_at(step.work, step)) {
      why = "The cores are busy throughout the step";
    } else {
      why = fmt::format("The step takes {:.2f} times its bound, {}", step.seconds / bound.seconds,
                        words_of(bound.binding));
    }
    line("Nothing: of {} changes that were planned none saves {:.0f} % of a token's time. {}.",
         advice_.planned, 100 * kLeastGain, why);
  }

  const AdviceInput& input_;
  const Advice& advice_;
  const MachineRates& rates_;
  const std::string& rates_are_;
  const std::vector<RankUse>& uses_;
  const RunConfig& config_;
  std::string text_, said_reason_;
};

std::string refusal_text(const Advice& advice) {
  std::string text = "This run does not fit\n  " + advice.refusal + "\nWhat would make it fit\n";
  for (std::size_t c = 0; c < advice.changes.size(); ++c)
    text += change_text(advice.changes[c], nullptr, c + 1);
  if (advice.changes.empty())
    return text + fmt::format("  None of the {} changes that were planned.\n", advice.planned);
  return text +
         fmt::format("  Each was planned as it stands here, alone; {} changes were.\n", advice.planned);
}

nlohmann::json use_json(const RankUse& use) {
  nlohmann::json lives = nlohmann::json::object(), lanes = nlohmann::json::object();
  for (const BufferKind kind : kBufferKinds) {
    const KindUse& of_kind = use.kinds[kind];
    lives[std::string(name_of(kind))] = {
        {"stays_bytes", by_tier([&](Tier tier) { return of_kind.stays[tier]; })},
        {"peak_bytes", by_tier([&](Tier tier) { return of_kind.at_peak[tier]; })},
        {"moved_bytes", by_link([&](Link link) { return of_kind.moved[link]; })}};
  }
  for (const LaneUse& lane : use.lanes) {
    nlohmann::json waited = nlohmann::json::object();
    for (const auto& [operation, seconds] : lane.waited) waited[std::string(name_of(operation))] = seconds;
    lanes[std::string(name_of(lane.lane))] = {
        {"busy_seconds", lane.busy}, {"idle_seconds", lane.idle}, {"waited_for", waited}};
  }
  return {{"rank", use.rank}, {"lives", lives}, {"lanes", lanes}};
}

}  // namespace

std::string explain_text(const AdviceInput& input, const Advice& advice, const std::vector<RankUse>& uses,
                         const MachineRates& rates, const std::string& rates_are) {
  if (!advice.run) return refusal_text(advice);
  return Explanation(input, advice, uses, rates, rates_are).text();
}

nlohmann::json explain_json(const Advice& advice, const std::vector<RankUse>& uses,
                            const MachineRates& rates) {
  nlohmann::json changes = nlohmann::json::array();
  for (const Prediction& change : advice.changes) changes.push_back(prediction_json(change));
  nlohmann::json json = {{"fits", advice.run.has_value()},
                         {"rates", rates_json(rates)},
                         {"changes", changes},
                         {"planned_changes", advice.planned}};
  if (!advice.run) {
    json["refusal"] = advice.refusal;
    return json;
  }
  json["now"] = prediction_json(advice.now);
  json["now"].erase("settings");
  json["now"].erase("effect");
  json["now"]["timeline_seconds"] = advice.now.step.timeline;
  json["now"]["work_seconds"] = advice.now.step.work;
  json.update(needs_json(advice.now.step.needs));
  json["certificate"] = certificate_json(advice.certificate, advice.now.step.seconds);
  for (const RankUse& use : uses) json["ranks"].push_back(use_json(use));
  return json;
}

}  // namespace strata
