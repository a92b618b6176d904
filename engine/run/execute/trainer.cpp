#include "engine/run/execute/trainer.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <utility>

#include "base/error.h"
#include "base/nth.h"
#include "collectives/agreement.h"
#include "engine/config/run_config.h"
#include "engine/model/model.h"
#include "engine/plan/lower/run_scratch.h"
#include "engine/run/execute/shared_frozen.h"

namespace strata {
namespace {

StoreOptions store_options(const RunConfig& config, const Trainer::Options& options) {
  constexpr std::array kEngines = {StoreEngine::automatic, StoreEngine::io_uring, StoreEngine::threads};
  return {.folders = config.memory.nvme_path,
          .rank = options.world == nullptr ? RankOfRun{}
                                           : RankOfRun{options.world->rank(), options.world->size()},
          .engine = nth(kEngines, config.memory.nvme_engine),
          .verify = config.memory.nvme_verify,
          .limit = {.read = config.memory.nvme_read_per_second, .write = config.memory.nvme_write_per_second},
          .faults = options.faults};
}

/// What a run drops is a part of where its sampling stands.
TrainingData with_dropout(TrainingData data, const Model& model) {
  nlohmann::json dropout;
  const auto add = [&](const char* where, double probability) {
    if (probability > 0) dropout[where] = probability;
  };
  add("embeddings", model.architecture.embedding_dropout);
  add("branches", model.architecture.residual_dropout);
  add("adapters", model.adapter.dropout);
  if (dropout.is_null()) return data;
  data.sampler = [sampler = std::move(data.sampler), dropout](std::int64_t step) {
    nlohmann::json position = sampler(step);
    position["dropout"] = dropout;
    return position;
  };
  return data;
}

bool is_any_due(const std::vector<StepRange>& steps) {
  return std::ranges::any_of(steps, [](const StepRange& range) { return range.count > 0; });
}

}  // namespace

Trainer::Trainer(std::vector<ModelSetup> models, const Plan& plan, Device& device, Options options)
    : run_(models.front().config),
      options_(std::move(options)),
      streams_(device, bool(options_.make_device_group)) {
  std::vector<ProductsOf> products;
  for (std::size_t m = 0; m < models.size(); ++m) {
    const Strategy& strategy = plan.models[m]->strategy;
    products.push_back({models[m].model, strategy.precision, strategy.microbatch});
    if (has(strategy, Interlude::sampling))
      products.push_back({*models[m].model.sampling, strategy.precision, strategy.samples.of_rank});
  }
  products_ = choose_products(device, run_.device.product_table, products, options_.world);
  EnumArray<Tier, Bytes> bytes;
  for (const Tier tier : kTiers) bytes[tier] = plan.arena_bytes(tier);
  on_every_rank(options_.world, [&] { memory_.emplace(bytes, device, store_options(run_, options_)); });
  streams_.meter().watch(Tier::device, memory_->tiers().device, plan.arena_bytes(Tier::device));
  streams_.meter().watch(Tier::host, memory_->tiers().host, plan.arena_bytes(Tier::host));
  if (options_.world != nullptr) {
    ranks_.emplace(*options_.world, plan.training().program.groups, plan.channels, options_.make_device_group,
                   &streams_);
  }
  ScratchBytes scratch;
  for (std::size_t m = 0; m < models.size(); ++m) {
    const ModelPlan& own = *plan.models[m];
    scratch.raise(scratch_of_run(device.scratch_rules(), models[m].model, own.strategy));
    ModelRun::Setup setup = {
        .config = models[m].config,
        .model = models[m].model,
        .data = with_dropout(std::move(models[m].data), models[m].model),
        .fresh = options_.fresh,
        .run_file = options_.run_file,
        .layout = options_.layout,
        .watchdog_seconds = options_.watchdog_seconds,
        .files = options_.files,
        .companions = m < options_.companions.size() ? options_.companions[m] : nullptr,
        .device = device,
        .streams = streams_,
        .memory = *memory_,
        .ranks = ranks_ ? &*ranks_ : nullptr,
        .listening = listening_,
        .pauses = options_.several ? options_.several->rung_steps : SeveralModels::Steps(),
        .ends_alone = options_.several.has_value()};
    if (ranks_) {
      setup.stop_requested = [this] { return stop_->load(); };
      setup.on_stop_agreed = [this, m](std::int64_t step) { end_soon(m, step); };
    }
    models_.push_back(std::make_unique<ModelRun>(std::move(setup), own));
  }
  results_.resize(models_.size());
  endings_.resize(models_.size());
  counted_steps_.resize(models_.size());
  counted_saves_.resize(models_.size());
  streams_.of(Lane::compute).kernels().reserve_scratch(scratch);
  scratch_.planned = device.scratch_rules().parts(scratch);
  PlanExecutors::Setup setup{.config = run_,
                             .streams = streams_,
                             .ranks = ranks_ ? &*ranks_ : nullptr,
                             .watchdog_seconds = options_.watchdog_seconds,
                             .recording = options_.recording};
  setup.on_failure = [this](const std::exception& error) {
    if (options_.on_failure) options_.on_failure(error);
    if (ranks_) options_.world->abort(error.what());
  };
  if (options_.observer) setup.observer = [this](const Instruction& done) { options_.observer(done, *this); };
  executors_.emplace(std::move(setup));
  executors_->set(plan, models_);
}

/// Steps end, and why is looked at then. Other lanes may be in the next round already, and in an asynchronous
/// pipeline, whose model is alone, in the one behind it: all ranks finish that.
void Trainer::end_soon(std::size_t model, std::int64_t step) {
  if (models_[model]->plan().strategy.is_asynchronous()) return executors_->end_after(model, step + 2);
  executors_->end_soon(model, step);
}

TrainResult Trainer::train(const std::atomic<bool>& stop, TrainListener& listener) {
  return std::move(train(stop, std::vector<TrainListener*>{&listener}).front());
}

std::vector<TrainResult> Trainer::train(const std::atomic<bool>& stop,
                                        const std::vector<TrainListener*>& listeners) {
  stop_ = &stop;
  begin_models(listeners);
  check_space();
  if (options_.several && options_.several->on_begin) options_.several->on_begin();
  for (;;) {
    agree();
    run_interludes();
    if (options_.several && !stopped() && end_models()) replan();
    if (is_over()) break;
    save_what_is_due();
    run_steps();
  }
  // Also models without a trained step, if a stop came before the first one.
  for (std::size_t m = 0; m < models_.size(); ++m) {
    if (is_under_way(m)) try_to_end(m, false);
  }
  count_planned();
  measured_ = executors_->measured();
  scratch_.measured_bytes = streams_.of(Lane::compute).kernels().scratch_bytes();
  std::vector<TrainResult> results;
  results.reserve(models_.size());
  for (std::optional<TrainResult>& result : results_) {
    results.push_back(std::move(*result));
    results.back().measured = measured_;
    results.back().scratch = scratch_;
    results.back().products = products_;
  }
  return results;
}

void Trainer::begin_models(const std::vector<TrainListener*>& listeners) {
  SharedFrozen shared(models_);
  for (std::size_t m = 0; m < models_.size(); ++m) {
    models_[m]->begin(*listeners[m]);
    if (shared.may_be_shared())
      on_every_rank(ranks_ ? &ranks_->outside() : nullptr, [&] { shared.check(m); });
  }
}

/// For checkpoints of all models. The spill files of all ranks have their space by now.
void Trainer::check_space() {
  std::vector<SpaceNeed> needs;
  std::vector<ModelRun*> saving;
  for (const std::unique_ptr<ModelRun>& model : models_) {
    std::optional<SpaceNeed> need = model->space_needed();
    if (!need) continue;
    needs.push_back(std::move(*need));
    saving.push_back(model.get());
  }
  on_first_rank(ranks_ ? &ranks_->outside() : nullptr, [&] {
    for (const SpaceWarning& warning : strata::check_space(needs))
      saving[warning.need]->warn(warning.sentence);
  });
}

bool Trainer::is_done() const {
  for (std::size_t m = 0; m < models_.size(); ++m) {
    if (is_under_way(m) && !models_[m]->is_trained()) return false;
  }
  return true;
}

/// A model that is alone ends the run with itself.
bool Trainer::is_over() const {
  return stopped() || is_done() || (!options_.several && !endings_.front().why.empty());
}

void Trainer::run_steps() {
  std::vector<StepRange> steps;
  steps.reserve(models_.size());
  std::int64_t rounds = INT64_MAX;  // until something is to be done for one of the models
  for (std::size_t m = 0; m < models_.size(); ++m) {
    steps.push_back(is_under_way(m) && !waits_at_rung(m) ? models_[m]->next_steps() : StepRange());
    if (steps[m].count > 0) rounds = std::min(rounds, steps[m].count);
  }
  for (StepRange& range : steps) range.count = std::min(range.count, rounds);
  const Executor::RunResult run =
      executors_->train(steps, executor_stop(),
                        [this](std::size_t model, const StepReport& report) { note_step(model, report); });
  for (std::size_t m = 0; m < models_.size(); ++m) {
    // Updates of the latest had nothing to run under.
    if (run.completed_steps[m] > 0) models_[m]->note_drain(run.tail_seconds);
    if (models_[m]->is_to_roll_back() && endings_[m].why.empty())
      endings_[m] = {.why = models_[m]->roll_back(), .is_saved = true};
  }
}

/// On the lane cpu. All ranks know a step's loss, and none is more than a round ahead.
void Trainer::note_step(std::size_t model, const StepReport& report) {
  models_[model]->note_step(report);
  note_ending(model, report);
  const bool pauses =
      models_[model]->is_to_roll_back() || (!ranks_ && (has_failed(model) || models_[model]->save_is_due()));
  if (pauses || !endings_[model].why.empty()) end_soon(model, report.step);
}

void Trainer::note_ending(std::size_t model, const StepReport& report) {
  Ending& ending = endings_[model];
  if (!ending.why.empty()) return;
  const std::int64_t skipped = models_[model]->skipped_in_a_row();
  if (options_.several && report.has_loss && !std::isfinite(report.loss)) {
    ending.why = fmt::format("its loss is not finite at step {}", report.step + 1);
  } else if (skipped >= models_[model]->config().train.max_skipped_steps) {
    ending = {.why = fmt::format(
                  "{} steps in a row updated nothing, the last of them step {} with a loss of {} and {} "
                  "(train.max_skipped_steps)",
                  skipped, report.step + 1, report.loss, why_skipped(report)),
              .is_saved = true};
  }
}

bool Trainer::has_failed(std::size_t model) const {
  return options_.several && !models_[model]->failure().empty();
}

/// Whether some rank was asked to stop, which models are due to be saved, and which cannot go on since a rank
/// cannot save them.
void Trainer::agree() {
  Communicator* ranks = ranks_ ? &ranks_->outside() : nullptr;
  if (ranks_) {
    const std::vector<std::string> stops = texts_of_ranks(ranks, [&] { return stop_->load() ? "stop" : ""; });
    stop_agreed_ = std::ranges::any_of(stops, [](const std::string& text) { return !text.empty(); });
  }
  const std::string due = text_of_first_rank(ranks, [&] {
    std::string marks;
    for (const auto& model : models_) marks += model->save_is_due() ? '1' : '0';
    return marks;
  });
  due_to_save_.clear();
  for (const char mark : due) due_to_save_.push_back(mark == '1');
  for (std::size_t m = 0; m < models_.size(); ++m) {
    if (!is_under_way(m)) continue;
    for (const std::string& failure : texts_of_ranks(ranks, [&] { return models_[m]->failure(); }))
      if (endings_[m].why.empty()) endings_[m] = {.why = failure, .is_failure = !failure.empty()};
  }
}

void Trainer::save_what_is_due() {
  for (std::size_t m = 0; m < models_.size(); ++m) {
    if (!due_to_save_[m] || !is_under_way(m)) continue;
    try {
      models_[m]->save_between_steps();
    } catch (const IoError& error) {
      if (!options_.several) throw;
      if (endings_[m].why.empty())
        endings_[m] = {.why = fmt::format("it could not be saved: {}", error.what()), .is_failure = true};
    }
  }
}

bool Trainer::waits_at_rung(std::size_t model) const {
  return options_.several && rung_ < options_.several->rung_steps.size() &&
         models_[model]->counters().step >= options_.several->rung_steps[rung_];
}

/// Once all that are under way are at the rung.
void Trainer::choose() {
  bool are_there = rung_ < options_.several->rung_steps.size();
  for (std::size_t m = 0; m < models_.size(); ++m)
    are_there &= !is_under_way(m) || !endings_[m].why.empty() || waits_at_rung(m);
  if (!are_there) return;
  std::vector<const TrainResult*> results;
  results.reserve(models_.size());
  for (std::size_t m = 0; m < models_.size(); ++m) {
    const bool takes_part = is_under_way(m) && endings_[m].why.empty();
    results.push_back(takes_part ? &models_[m]->result() : nullptr);
  }
  const std::vector<std::string> endings =
      options_.several->choose(options_.several->rung_steps[rung_], results);
  for (std::size_t m = 0; m < models_.size(); ++m) {
    if (!endings[m].empty()) endings_[m] = {.why = endings[m], .is_saved = true};
  }
  ++rung_;
}

/// Whether some did.
bool Trainer::end_models() {
  choose();
  const auto ends = [&](std::size_t m) {
    return is_under_way(m) && (models_[m]->is_trained() || !endings_[m].why.empty());
  };
  bool has_ended = false;
  for (std::size_t m = 0; m < models_.size(); ++m)
    if (ends(m)) has_ended |= try_to_end(m, !is_done());
  return has_ended;
}

/// False if its state cannot be saved now and may be later, while others go on. What fails otherwise ends it
/// alone, if it is not alone.
bool Trainer::try_to_end(std::size_t m, bool others_go_on) {
  ModelRun& model = *models_[m];
  Ending ending = endings_[m];
  // What diverged would take the place of what did not.
  if (ending.why.empty() || ending.is_saved) {
    try {
      if (!model.save(*stop_, !others_go_on)) return false;
    } catch (const IoError& error) {
      if (!options_.several && ending.why.empty()) throw;
      const std::string before = ending.why.empty() ? "" : ending.why + "; ";
      ending = {.why = fmt::format("{}it could not be saved: {}", before, error.what()), .is_failure = true};
    }
  }
  results_[m] = std::move(model.finish());
  results_[m]->ended = ending.why;
  results_[m]->has_failed = ending.is_failure;
  if (options_.several && options_.several->on_end) options_.several->on_end(m, *results_[m]);
  return true;
}

void Trainer::replan() {
  if (is_done() || !options_.several->replan) return;
  std::vector<std::int64_t> remaining;
  remaining.reserve(models_.size());
  for (std::size_t m = 0; m < models_.size(); ++m) {
    const bool has_all_its_steps = is_under_way(m) && models_[m]->is_trained();
    if (has_all_its_steps) return;  // its state is still to be saved
    remaining.push_back(is_under_way(m) ? models_[m]->remaining_steps() : 0);
  }
  count_planned();
  const Plan* const plan = options_.several->replan(remaining);
  if (plan == nullptr) return;
  for (std::size_t m = 0; m < models_.size(); ++m) {
    if (is_under_way(m)) models_[m]->replan(*plan->models[m]);
  }
  executors_->set(*plan, models_);
}

/// What the plan says of the steps since the call before.
void Trainer::count_planned() {
  for (std::size_t m = 0; m < models_.size(); ++m) {
    const TrainResult& result = results_[m] ? *results_[m] : models_[m]->result();
    const std::int64_t all_steps = std::ssize(result.steps);
    const auto first = result.steps.begin() + std::exchange(counted_steps_[m], all_steps);
    const std::int64_t steps = result.steps.end() - first;
    const auto starts =
        std::count_if(first, result.steps.end(), [](const StepReport& step) { return step.begins; });
    const std::int64_t saves = result.saves - std::exchange(counted_saves_[m], result.saves);
    if (steps == 0 && saves == 0) continue;  // it may have ended under a plan that is gone
    const PlannedProgram& program = models_[m]->plan().training;
    for (const Link link : kLinks)
      planned_[link] += steps * program.moved(link) + saves * program.moved_by_save(link) +
                        starts * program.moved_by_start(link);
  }
}

void Trainer::run_interludes() {
  if (!stopped()) validate();
  if (!stopped()) take_samples();
}

std::vector<StepRange> Trainer::due(Interlude interlude) const {
  std::vector<StepRange> steps;
  steps.reserve(models_.size());
  for (std::size_t m = 0; m < models_.size(); ++m) {
    const bool is_due = is_under_way(m) && models_[m]->wants(interlude);
    steps.push_back({models_[m]->counters().step, is_due ? 1 : 0});
  }
  return steps;
}

void Trainer::validate() {
  const std::vector<StepRange> steps = due(Interlude::validation);
  if (!is_any_due(steps)) return;
  executors_->run(Interlude::validation, steps, executor_stop());
  if (stopped()) return;
  for (std::size_t m = 0; m < models_.size(); ++m) {
    if (steps[m].count > 0) models_[m]->note_validation();
  }
}

/// A round for each token, until no sample goes on.
void Trainer::take_samples() {
  const std::vector<StepRange> steps = due(Interlude::sampling);
  std::vector<StepRange> left = steps;
  const auto begin = std::chrono::steady_clock::now();
  for (std::size_t m = 0; m < models_.size(); ++m) {
    if (steps[m].count > 0) models_[m]->samples().begin();
  }
  for (std::int64_t tokens = 1; is_any_due(left); ++tokens) {
    executors_->run(Interlude::sampling, left, executor_stop());
    for (std::size_t m = 0; m < models_.size(); ++m) {
      if (left[m].count == 0) continue;
      models_[m]->note_sampling(tokens);
      const Samples& samples = models_[m]->samples();
      if (ranks_ && samples.is_stopped()) stop_agreed_ = true;
      if (samples.is_done()) left[m].count = 0;
    }
    if (stopped()) return;
  }
  const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - begin;
  for (std::size_t m = 0; m < models_.size(); ++m) {
    if (steps[m].count > 0) models_[m]->note_samples(taken.count());
  }
}

}  // namespace strata
