#include "engine/tools/cli/training.h"

#include <fmt/format.h>

#include <algorithm>
#include <csignal>
#include <iostream>
#include <memory>
#include <set>
#include <utility>

#include "base/error.h"
#include "collectives/agreement.h"
#include "collectives/launcher.h"
#include "engine/config/model_names.h"
#include "engine/config/run_config.h"
#include "engine/plan/lower/strategy.h"
#include "engine/tools/cli/own_name.h"
#include "engine/tools/cli/say.h"
#include "engine/tools/cli/setup.h"
#include "engine/tools/cli/texts_line.h"
#include "engine/tools/profile/profile_folder.h"
#include "engine/tools/report/terminal_keys.h"

namespace strata {
namespace {

std::atomic<bool> stop_requested = false;
static_assert(std::atomic<bool>::is_always_lock_free, "a signal handler may only touch lock-free atomics");

void request_stop(int signal) {
  stop_requested = true;
  restore_terminal();  // the next signal ends the process at once
  std::signal(signal, SIG_DFL);
}

}  // namespace

const std::atomic<bool>& stop_on_signals() {
  for (const int signal : {SIGINT, SIGTERM, SIGUSR1}) std::signal(signal, request_stop);
  const bool is_ignored = std::signal(SIGHUP, request_stop) == SIG_IGN;
  if (is_ignored) std::signal(SIGHUP, SIG_IGN);  // nohup's run goes on without its terminal
  return stop_requested;
}

std::string same_command(const TrainCommand& command, const Job& job) {
  std::string line = command.line(command.profiled_steps == 0 ? "train" : "profile");
  if (command.profiled_steps > 0)
    line += fmt::format(" --out {} --steps {}", shell_word(command.profile), command.profiled_steps);
  return launch_words(job.size()) + line;
}

std::string saves_text(const CheckpointSection& checkpoint) {
  if (checkpoint.path.empty())
    return "saves    nothing: checkpoint.path is none, so the model is lost at the end";
  std::string text = fmt::format("saves    to {}, at the end", checkpoint.path);
  if (checkpoint.every > 0) text += fmt::format(", every {} steps", checkpoint.every);
  if (checkpoint.every_minutes > 0) text += fmt::format(", every {} minutes", checkpoint.every_minutes);
  return text;
}

HangAdvice::HangAdvice(Job& job, const TrainCommand& command) : job_(job), command_(command) {
  set("nothing was saved in this run; see to it and begin again");
}

void HangAdvice::on_safe_step(std::int64_t step) {
  set(fmt::format("step {} is saved; see to it and resume", step));
}

void HangAdvice::set(const std::string& what) {
  job_.set_advice(fmt::format("; {} with: {}, with more train.watchdog if it is only slow", what,
                              same_command(command_, job_)));
}

RunNotes notes_on_terminal() {
  return {.on_warning = [](const std::string& sentence) { tell("warning: " + sentence + "\n"); },
          // Models that share their texts hear the line of each.
          .on_texts =
              [said = std::make_shared<std::set<std::string>>()](const std::string& line) {
                if (said->insert(line).second) tell("texts    " + line + "\n");
              },
          .follow_texts = []() -> RunNotes::Follower {
            return [line = std::make_shared<TextsLine>()](const TokenizeProgress& progress) {
              line->show(progress);
            };
          }};
}

std::string trace_of_rank(const std::string& path, int rank) {
  return rank == 0 ? path : file_of_model(path, fmt::format("rank-{}", rank));
}

std::unique_ptr<StepTrace> open_trace(const RunConfig& config, Job& job, std::vector<std::string> models) {
  std::unique_ptr<StepTrace> trace;
  if (config.report.trace_path.empty()) return trace;
  on_every_rank(job.world(), [&] {
    trace = std::make_unique<StepTrace>(StepTrace::Setup{
        .path = trace_of_rank(config.report.trace_path, job.rank()),
        .steps = config.report.trace_steps,
        .rank = job.rank(),
        .models = std::move(models),
        .on_warning = [](const std::string& sentence) { tell("warning: " + sentence + "\n"); }});
  });
  return trace;
}

void say_what_was_read(const std::vector<PreparedModel>& models, const std::vector<std::string>& names,
                       Opening& opening) {
  const std::string first = models.front().facts.describe();
  if (std::ranges::all_of(models,
                          [&](const PreparedModel& model) { return model.facts.describe() == first; })) {
    opening.say("data     " + first);
    return;
  }
  constexpr std::size_t kMostNamed = 3;
  if (models.size() > kMostNamed) opening.say("data     each model has its own, which --verbose shows");
  for (std::size_t m = 0; m < models.size(); ++m)
    opening.add(fmt::format("{}: data {}", names[m], models[m].facts.describe()),
                models.size() <= kMostNamed);
}

void say_where_memory_goes(const RunConfig& config, const HostShare& host, Opening& opening) {
  opening.detail("RAM      " + host.describe());
  if (const std::string doubt = warn_of_budgets(config, host); !doubt.empty())
    std::cerr << "warning: " << doubt << '\n';
}

void say_machine(const Trainer& trainer, Opening& opening) {
  if (const std::string drives = trainer.describe_nvme(); !drives.empty())
    opening.detail("drives   " + drives);
  if (const std::string products = trainer.products().describe(); !products.empty())
    opening.detail("products " + products);
}

void check_reports(const TrainCommand& command, Job& job) {
  on_first_rank(job.world(), [&] {
    check_json_path("--json", command.json);
    if (!command.profile.empty()) check_profile_folder(command.profile);
  });
}

void say_nothing_to_profile(const TrainCommand& command) {
  std::cerr << fmt::format(
      "strata: --profile: no step was trained, so {} stays as it is; raise train.steps, or add --fresh\n",
      command.profile);
}

}  // namespace strata
