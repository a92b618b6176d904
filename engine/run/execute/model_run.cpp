#include "engine/run/execute/model_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/excerpt.h"
#include "base/system_error.h"
#include "base/task_arena.h"
#include "base/topology.h"
#include "collectives/agreement.h"
#include "collectives/same_on_all.h"
#include "engine/config/run_config.h"
#include "engine/model/model.h"
#include "engine/run/checkpoint/initial_weights.h"
#include "engine/run/execute/space_wait.h"

namespace strata {
namespace {

LearningRateSchedule learning_rate_schedule(const RunConfig& config, const ScheduleSection& schedule) {
  const double decay_steps = std::round(schedule.decay_ratio * static_cast<double>(config.train.steps));
  LearningRateSchedule result = {
      .type = schedule.type,
      .peak = config.optimizer.learning_rate,
      .minimum_ratio = schedule.minimum_ratio,
      .warmup = schedule.warmup,
      .steps = config.train.steps,
      .power = schedule.power,
      .cycles = schedule.cycles,
      .decay_steps = std::max(std::int64_t{1}, static_cast<std::int64_t>(decay_steps)),
      .shape = schedule.shape,
      .timescale = timescale_of(schedule)};
  for (const auto& [step, factor] : schedule.points) result.points.push_back({step, factor});
  result.plateau = {.factor = schedule.factor,
                    .patience = schedule.patience,
                    .threshold = schedule.threshold,
                    .cooldown = schedule.cooldown};
  return result;
}

std::vector<LearningRateSchedule> learning_rate_schedules(const RunConfig& config) {
  std::vector<LearningRateSchedule> schedules = {learning_rate_schedule(config, config.schedule)};
  for (const TensorGroup& group : config.optimizer.groups)
    schedules.push_back(learning_rate_schedule(config, group.schedule.value_or(config.schedule)));
  return schedules;
}

OptimizerSettings optimizer_settings(const RunConfig& config, const Model& model) {
  const OptimizerSection& optimizer = config.optimizer;
  return {.policies = model.policies,
          .clip_norm = optimizer.clip_norm,
          .schedules = learning_rate_schedules(config),
          .loss_scale = {.initial = config.train.loss_scale_initial,
                         .growth = config.train.loss_scale_growth,
                         .backoff = config.train.loss_scale_backoff,
                         .interval = config.train.loss_scale_interval},
          .average = {.decay = config.ema.decay, .every = config.ema.every},
          .spike = {.factor = config.spike.factor, .window = config.spike.window},
          .seed = config.train.seed};
}

/// Numbers this rank's microbatches among those of all: they take turns, so that the batch and its order do
/// not depend on how many ranks there are.
LoadMicrobatch of_rank(LoadMicrobatch load, std::int64_t rank, std::int64_t ranks,
                       std::int64_t microbatches) {
  if (ranks == 1) return load;
  return [=, load = std::move(load)](std::int64_t step, std::int64_t microbatch, const MicrobatchData& data) {
    load(step, (microbatch * ranks + rank) % microbatches, data);
  };
}

/// What was dropped, and the rest of where sampling stands.
nlohmann::json take_dropout(nlohmann::json& sampler) {
  if (!sampler.contains("dropout")) return {};
  nlohmann::json dropout = std::move(sampler["dropout"]);
  sampler.erase("dropout");
  return dropout;
}

/// The next multiple of `every` after `step`, or `limit` if that comes first or `every` is 0.
std::int64_t next_multiple(std::int64_t step, std::int64_t every, std::int64_t limit) {
  return every > 0 ? std::min(limit, (step / every + 1) * every) : limit;
}

}  // namespace

std::optional<double> recent_loss(const TrainResult& result) {
  double sum = 0;
  std::int64_t count = 0;
  for (auto step = result.steps.end() - std::min(kStepsOfLoss, std::ssize(result.steps));
       step != result.steps.end(); ++step) {
    if (!step->has_loss) continue;
    sum += step->loss;
    ++count;
  }
  return count == 0 ? std::nullopt : std::optional(sum / static_cast<double>(count));
}

bool updated_nothing(const TrainResult& result) {
  return result.counters.step > 0 && result.counters.skipped == result.counters.step;
}

int host_threads(const RunConfig& config) {
  if (config.train.threads > 0) return static_cast<int>(config.train.threads);
  constexpr int kCoresThatIssue = 2;
  const int of_gpu = config.device.kind == DeviceKind::cuda ? kCoresThatIssue : 0;
  return std::max(usable_cores() - of_gpu, 1);
}

ModelRun::ModelRun(Setup setup, const ModelPlan& plan) : setup_(std::move(setup)), plan_(&plan) {
  setup_.data = behind_passed_over(std::move(setup_.data));
  const CheckpointSection& checkpoint = setup_.config.checkpoint;
  if (!checkpoint.path.empty()) {
    checkpoints_.emplace(checkpoint.path, checkpoint.keep, *setup_.files,
                         setup_.ranks == nullptr ? nullptr : &setup_.ranks->saving());
    checkpoints_->set_companions(setup_.companions);
    if (!setup_.run_file.empty()) checkpoints_->set_run_file(seen_from(checkpoint.path, setup_.run_file));
  }
  place();
}

TrainingData ModelRun::behind_passed_over(TrainingData data) {
  const auto position = [this](std::int64_t step) { return step + counters().passed_over; };
  data.training = [position, load = std::move(data.training)](std::int64_t step, std::int64_t microbatch,
                                                              const MicrobatchData& arrays) {
    load(position(step), microbatch, arrays);
  };
  data.sampler = [position, sampler = std::move(data.sampler)](std::int64_t step) {
    return sampler(position(step));
  };
  if (data.training_terms) {
    data.training_terms = [position, terms = std::move(data.training_terms)](std::int64_t step) {
      return terms(position(step));
    };
  }
  return data;
}

void ModelRun::replan(const ModelPlan& plan) {
  const Counters counters = training_->counters();
  plan_ = &plan;
  place();
  training_->counters() = counters;
}

void ModelRun::place() {
  const Strategy& strategy = plan_->strategy;
  compute_ = unit_compute(setup_.model, strategy.precision, strategy.microbatch);
  on_every_rank(outside(), [&] {
    state_.emplace(*plan_, setup_.model, setup_.memory, setup_.device, rank(), setup_.watchdog_seconds);
  });
  shares_ = shares_of(setup_.model, strategy, rank());
  saver_.reset();
  if (strategy.saves) saver_.emplace(saver());
  Operations::Setup training =
      operations(plan_->training, setup_.data.training, strategy.microbatches * strategy.mesh.data());
  training.loss_terms = setup_.data.training_terms;
  // Samples go on while a model is to be saved, and those of others while one ends that cannot be saved.
  if (setup_.stop_requested)
    training.stop_requested = [this] {
      return setup_.stop_requested() || (setup_.ends_alone && !failure().empty()) ||
             (rank() == 0 && save_is_due());
    };
  training.on_stop_agreed = setup_.on_stop_agreed;
  training_.emplace(std::move(training));
  interludes_.clear();
  for (const auto& [interlude, program] : plan_->interludes)
    interludes_.try_emplace(interlude, interlude_operations(interlude, program));
}

Operations::Setup ModelRun::interlude_operations(Interlude interlude, const PlannedProgram& program) {
  const Strategy& strategy = plan_->strategy;
  if (interlude == Interlude::validation) {
    Operations::Setup setup = operations(program, setup_.data.validation, strategy.validation_microbatches);
    setup.loss_terms = setup_.data.validation_terms;
    return setup;
  }
  const Mesh& mesh = strategy.mesh;
  const Model& model = *setup_.model.sampling;
  samples_.emplace(Samples::Setup{.prompts = setup_.data.prompts,
                                  .shape = strategy.samples,
                                  .vocabulary = model.architecture.vocabulary,
                                  .soft_cap = static_cast<float>(model.architecture.logits_cap),
                                  .data_rank = mesh.data_rank(rank()),
                                  .data_ranks = mesh.data(),
                                  .tensor_rank = mesh.tensor_rank(rank()),
                                  .context = model.context,
                                  .form = model.form,
                                  .stop_requested = setup_.stop_requested});
  Operations::Setup setup = operations(program, {}, mesh.data());
  sampling_compute_ = unit_compute(model, strategy.precision, strategy.samples.of_rank);
  setup.compute = sampling_compute_.get();
  setup.load = [this](std::int64_t, std::int64_t, const MicrobatchData& data) { samples_->fill(data); };
  setup.samples = &*samples_;
  return setup;
}

Operations* ModelRun::interlude(Interlude interlude) {
  const auto found = interludes_.find(interlude);
  return found == interludes_.end() ? nullptr : &found->second;
}

Operations::Setup ModelRun::operations(const PlannedProgram& program, const LoadMicrobatch& load,
                                       std::int64_t microbatches) {
  const Mesh& mesh = plan_->strategy.mesh;
  return {.program = &program.program,
          .compute = compute_.get(),
          .shares = shares_,
          .streams = &setup_.streams,
          .memory = setup_.memory.tiers(),
          .spill = setup_.memory.spill(),
          .load = of_rank(load, mesh.data_rank(rank()), mesh.data(), microbatches),
          .optimizer = optimizer_settings(setup_.config, setup_.model),
          .saver = saver_ ? &*saver_ : nullptr,
          .ranks = setup_.ranks,
          .data_rank = mesh.data_rank(rank()),
          .data_ranks = mesh.data(),
          .context_ranks = mesh.context,
          .counts_losses = mesh.tensor_rank(rank()) == 0,
          .threads = host_threads(setup_.config)};
}

StateSaver::Setup ModelRun::saver() {
  return {.store = &*checkpoints_,
          .model = &setup_.model,
          .program = &plan_->training.program,
          .stream = meter_stream(setup_.device.make_stream(), setup_.streams.meter()),
          .watchdog_seconds = setup_.watchdog_seconds,
          .held = [this](std::size_t unit, Flat flat) { return state_->held(unit, flat); },
          .saved = [this](std::size_t unit, Flat flat) { return state_->saved(unit, flat); },
          .sampler = setup_.data.sampler,
          .chosen = chosen_once(setup_.config, plan_->strategy.computes_in(), setup_.layout),
          .on_saved =
              [this](std::int64_t step) {
                ++result_.saves;
                note_saved(step);
              },
          .on_lack_of_space = [this](const std::string& sentence) { warn_of_lack(sentence); },
          .on_failure = setup_.ends_alone ? [this](const std::string& sentence) {
            const std::lock_guard lock(setup_.listening);
            failure_ = sentence;
          } : std::function<void(const std::string&)>()};
}

std::string ModelRun::failure() {
  const std::lock_guard lock(setup_.listening);
  return failure_;
}

SaveSchedule ModelRun::saves() const {
  if (!saver_) return {};
  return {.every = setup_.config.checkpoint.every, .steps = setup_.config.train.steps};
}

void ModelRun::begin(TrainListener& listener) {
  listener_ = &listener;
  if (checkpoints_) {
    checkpoints_->lock();
    check_checkpoint_writable(setup_.config.checkpoint.path, *setup_.files, outside());
  }
  make_state();
  tried_to_save_ = std::chrono::steady_clock::now();
}

std::int64_t ModelRun::remaining_steps() const {
  return setup_.config.train.steps - step();
}

StepRange ModelRun::next_steps() const {
  const RunConfig& config = setup_.config;
  const auto next = [&](std::int64_t every) { return next_multiple(step(), every, config.train.steps); };
  // What goes on from a checkpoint begins with the weights that it has, and so does the run that saves it.
  const std::int64_t drains_every = plan_->strategy.is_asynchronous() ? config.checkpoint.every : 0;
  std::int64_t until =
      std::min({next(config.train.validate_every), next(config.samples.every), next(drains_every)});
  const auto pause = std::ranges::upper_bound(setup_.pauses, step());
  if (pause != setup_.pauses.end()) until = std::min(until, *pause);
  return {step(), until - step()};
}

void ModelRun::note_step(const StepReport& report) {
  result_.steps.push_back(report);
  skipped_in_a_row_ = report.skipped ? skipped_in_a_row_ + 1 : 0;
  const std::int64_t most_spikes = setup_.config.spike.roll_back;
  if (most_spikes > 0 && report.spikes == most_spikes && !spikes_) spikes_ = report;
  say_slow_paths();
  const std::lock_guard lock(setup_.listening);
  listener_->on_step(report);
}

std::string ModelRun::roll_back() {
  constexpr std::int64_t kMostTimes = 3;  // to one checkpoint
  const StepReport last = *std::exchange(spikes_, std::nullopt);
  const std::int64_t before = last.step + 1 - last.spikes;
  const std::string spikes =
      last.spikes == 1 ? fmt::format("step {} was a spike (train.spike)", last.step + 1)
                       : fmt::format("steps {} to {} were spikes (train.spike)", before + 1, last.step + 1);
  // Not one that a stop saved: a run that is not stopped has none there.
  const auto is_before = [before, every = setup_.config.checkpoint.every](std::int64_t step) {
    return step <= before && (every == 0 || step % every == 0);
  };
  std::optional<LoadedCheckpoint> loaded;
  if (checkpoints_) {
    TaskArena(host_threads(setup_.config)).execute([&] {
      loaded = checkpoints_->go_back(setup_.model, state_->access(), is_before);
      state_->release_scratch();
    });
    say_warnings();
  }
  if (!loaded) {
    warn(spikes + ", and no checkpoint from before them is there to go back to; the run continues");
    return "";
  }
  const std::int64_t since = last.step + 1 - loaded->progress.counters.step;
  const std::int64_t passed_over = counters().passed_over + since;
  take_up(loaded->progress);
  training_->counters().passed_over = passed_over;
  skipped_in_a_row_ = 0;
  times_rolled_back_ = step() == rolled_back_to_ ? times_rolled_back_ + 1 : 1;
  rolled_back_to_ = step();
  if (times_rolled_back_ > kMostTimes)
    return fmt::format("{}, and the run has gone back to {} {} times (train.spike.roll_back)", spikes,
                       loaded->folder.string(), kMostTimes);
  // A checkpoint of a step says what was before its validation, so that is made and counts again.
  while (!result_.validation.empty() && result_.validation.back().step >= step())
    result_.validation.pop_back();
  warn(fmt::format("{}; the run goes back to {} and leaves out the data of the {} steps since then", spikes,
                   loaded->folder.string(), since));
  return "";
}

void ModelRun::note_drain(double seconds) {
  result_.steps.back().drain_seconds = seconds;
}

bool ModelRun::wants(Interlude interlude) const {
  if (!interludes_.contains(interlude)) return false;
  const bool validates = interlude == Interlude::validation;
  const auto is_due = [&](const auto& points, std::int64_t every) {
    if (points.empty()) return true;
    const bool is_wanted = (every > 0 && step() % every == 0) || is_trained() ||
                           (validates && std::ranges::find(setup_.pauses, step()) != setup_.pauses.end());
    return is_wanted && points.back().step != step();
  };
  return validates ? is_due(result_.validation, setup_.config.train.validate_every)
                   : is_due(result_.samples, setup_.config.samples.every);
}

void ModelRun::note_validation() {
  const StepReport& report = interludes_.at(Interlude::validation).report();
  result_.validation.push_back({step(), report.loss, report.has_loss});
  ValidationPoint& point = result_.validation.back();
  point.lowered_rate = lower_rate(point);
  listener_->on_validation(point);
}

/// Validations at other steps, where a run has begun or paused, do not count.
std::optional<double> ModelRun::lower_rate(const ValidationPoint& point) {
  const RunConfig& config = setup_.config;
  if (config.schedule.type != ScheduleType::plateau || !point.has_loss ||
      point.step % config.train.validate_every != 0)
    return std::nullopt;
  const LearningRateSchedule schedule = learning_rate_schedule(config, config.schedule);
  Plateau& plateau = training_->counters().plateau;
  const double before = learning_rate(schedule, point.step, plateau);
  plateau = next_plateau(schedule.plateau, plateau, point.step, point.loss);
  const double after = learning_rate(schedule, point.step, plateau);
  return after < before ? std::optional(after) : std::nullopt;
}

void ModelRun::note_sampling(std::int64_t tokens) {
  listener_->on_sampling({step(), tokens, std::ssize(setup_.data.prompts.prompts), samples_->ended()});
}

void ModelRun::note_samples(double seconds) {
  const bool is_random = step() == 0 && setup_.config.model.path.empty();
  result_.samples.push_back({step(), seconds, samples_->result(), is_random});
  listener_->on_samples(result_.samples.back());
}

void ModelRun::write_checkpoint() {
  checkpoints_->save(setup_.model,
                     progress_of({training_->counters(), state_->loss_scale()}, setup_.data.sampler,
                                 chosen_once(setup_.config, plan_->strategy.computes_in(), setup_.layout)),
                     state_->access());
}

bool ModelRun::save(const std::atomic<bool>& stop, bool waits) {
  if (!checkpoints_ || step() == saved_step_) return true;
  const CheckpointSection& checkpoint = setup_.config.checkpoint;
  const auto save = [this] { write_checkpoint(); };
  const bool was_stopped = stop.load();  // who asks again does not want to wait
  if (waits) {
    save_in_space(save, {.seconds = static_cast<double>(checkpoint.wait_for_space_seconds),
                         .has_space = [&] { return checkpoints_->has_space(); },
                         .is_over = [&] { return !was_stopped && stop.load(); },
                         .on_wait =
                             [&](const std::string& why) {
                               warn(fmt::format("{}; trying again for {} seconds", why,
                                                checkpoint.wait_for_space_seconds));
                             },
                         .ranks = outside()});
  } else {
    try {
      save();
    } catch (const SystemError& error) {
      if (!error.lacks_space()) throw;
      warn(fmt::format("{}; it waits for space while others continue", error.what()));
      return false;
    }
  }
  note_saved(step());
  return true;
}

/// A pipeline that goes on from step to step would drain for it, and what it computes would depend on the
/// time.
bool ModelRun::save_is_due() const {
  const double minutes = setup_.config.checkpoint.every_minutes;
  if (!checkpoints_ || minutes == 0 || plan_->strategy.is_asynchronous()) return false;
  const std::lock_guard lock(setup_.listening);
  const std::chrono::duration<double, std::ratio<60>> since =
      std::chrono::steady_clock::now() - tried_to_save_;
  return since.count() >= minutes;
}

void ModelRun::save_between_steps() {
  const bool has_nothing_new = result_.steps.empty() || step() == saved_step_;
  if (!checkpoints_ || is_trained() || has_nothing_new) return;
  try {
    write_checkpoint();
    note_saved(step());
  } catch (const SystemError& error) {
    if (!error.lacks_space()) throw;
    warn_of_lack(error.what());
  }
}

void ModelRun::warn_of_lack(const std::string& sentence) {
  warn(sentence + "; the run continues, and saves again when it is due");
  const std::lock_guard lock(setup_.listening);
  tried_to_save_ = std::chrono::steady_clock::now();
}

TrainResult& ModelRun::finish() {
  result_.counters = training_->counters();
  result_.interrupted = !is_trained();
  say_slow_paths();
  result_.slow_paths = setup_.device.slow_paths();
  if (checkpoints_) result_.checkpoint = checkpoints_->newest().string();
  result_.state_hash = state_hash(setup_.model, state_->access(), outside());
  return result_;
}

/// Ranks share out what each checkpoint takes.
std::optional<SpaceNeed> ModelRun::space_needed() {
  if (!checkpoints_) return std::nullopt;
  const RunConfig& config = setup_.config;
  const std::int64_t left = config.train.steps - step();
  const std::int64_t every = config.checkpoint.every > 0 ? config.checkpoint.every : config.train.steps;
  std::int64_t saves = step() == saved_step_ ? 0 : 1;
  if (left > 0) saves = (config.train.steps + every - 1) / every - step() / every;
  SpaceNeed need = checkpoints_->space_needed(setup_.model, state_->access(), saves);
  say_warnings();
  return need;
}

void ModelRun::note_saved(std::int64_t step) {
  saved_step_ = step;
  const std::lock_guard lock(setup_.listening);
  tried_to_save_ = std::chrono::steady_clock::now();
  listener_->on_safe_step(step);
  listener_->on_checkpoint(fmt::format("{} at step {}", setup_.config.checkpoint.path, step));
  for (const std::string& warning : checkpoints_->take_warnings()) listener_->on_warning(warning);
}

void ModelRun::warn(const std::string& sentence) {
  const std::lock_guard lock(setup_.listening);
  listener_->on_warning(sentence);
}

void ModelRun::say_slow_paths() {
  const std::vector<std::string> met = setup_.device.slow_paths();
  for (; said_slow_paths_ < met.size(); ++said_slow_paths_) warn(met[said_slow_paths_]);
}

void ModelRun::say_warnings() {
  for (const std::string& warning : checkpoints_->take_warnings()) warn(warning);
}

void ModelRun::make_state() {
  TaskArena(host_threads(setup_.config)).execute([&] {
    state_->write_constants();
    if (!resume()) initialise_weights();
    state_->release_scratch();
  });
}

bool ModelRun::resume() {
  if (!checkpoints_) return false;
  checkpoints_->remove_leftovers();
  if (setup_.model.adapts()) {
    on_every_rank(outside(), [&] { checkpoints_->set_base(base_weights(setup_.config, setup_.model)); });
  }
  if (setup_.fresh) {
    checkpoints_->set_aside_all();
    say_warnings();
    return false;
  }
  const std::optional<LoadedCheckpoint> loaded = checkpoints_->load_newest(setup_.model, state_->access());
  if (!loaded) return false;
  checkpoints_->set_aside_damaged();
  say_warnings();
  const Progress& progress = loaded->progress;
  take_up(progress);
  nlohmann::json saved = progress.sampler, wanted = setup_.data.sampler(progress.counters.step);
  if (take_dropout(saved) != take_dropout(wanted))
    listener_->on_warning(
        "dropout is not that of the checkpoint: the run continues with what the run file asks for");
  warn_of_data(progress, saved == wanted);
  warn_of_schedule(progress.schedule);
  listener_->on_start(
      fmt::format("resuming from {} (step {})", loaded->folder.string(), progress.counters.step));
  return true;
}

void ModelRun::take_up(const Progress& progress) {
  training_->counters() = progress.counters;
  state_->write_loss_scale(progress.loss_scale);
  saved_step_ = progress.counters.step;
  const std::lock_guard lock(setup_.listening);
  listener_->on_safe_step(saved_step_);
}

/// Files may be others under the same settings, and older checkpoints do not say their settings.
void ModelRun::warn_of_data(const Progress& saved, bool is_same_position) {
  std::vector<std::string> warnings = differences(saved.data, data_settings(setup_.config));
  if (warnings.empty() && !is_same_position)
    warnings.emplace_back(
        "the data, the batch or the seed is not that of the checkpoint: the run continues with other "
        "samples");
  for (const std::string& warning : warnings) listener_->on_warning(warning);
}

/// More steps of the same schedule are what a run is resumed for.
void ModelRun::warn_of_schedule(nlohmann::json saved) {
  nlohmann::json wanted = schedule_json(setup_.config);
  if (!saved.is_object()) return;
  for (nlohmann::json* schedule : {&saved, &wanted}) schedule->erase("steps");
  if (saved == wanted) return;
  listener_->on_warning(fmt::format(
      "the learning rate's schedule is not that of the checkpoint: it was {}, and continues as {}",
      json_excerpt(saved), json_excerpt(wanted)));
}

void ModelRun::initialise_weights() {
  const RunConfig& config = setup_.config;
  const Model& model = setup_.model;
  std::optional<InitialWeights> initial;
  std::string samples;
  on_every_rank(outside(), [&] {
    initial.emplace(config, model);
    if (setup_.ranks != nullptr) samples = initial->hash_of_samples();
  });
  require_same(outside(), {{"a hash of weights in model.path and adapter.path", samples}},
               "all ranks of a run begin with the same weights");
  on_every_rank(outside(), [&] {
    for (std::size_t u = 0; u < model.units.size(); ++u) {
      const Unit& unit = model.units[u];
      for (const StateKey key : {StateKey::master, StateKey::frozen}) {
        if (unit.elements_of(flat_of(key)) == 0) continue;
        const FlatRange range = state_->loaded(u, key);
        state_->write(
            u, key, [&](std::span<float> weights) { initial->read(unit, range, weights); },
            [&](const TensorSpec& tensor, std::int64_t first, std::span<float> values) {
              initial->read_tensor(tensor, first, values);
            });
      }
    }
    state_->clear_moments();
  });
  state_->write_loss_scale({.scale = static_cast<float>(config.train.loss_scale_initial)});
  listener_->on_start(initial->description());
}

}  // namespace strata
