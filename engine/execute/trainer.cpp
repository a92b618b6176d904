#include "engine/execute/trainer.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/hash.h"
#include "base/task_arena.h"
#include "base/topology.h"
#include "collectives/agreement.h"
#include "collectives/same_on_all.h"
#include "engine/checkpoint/hf_folder.h"
#include "engine/execute/space_wait.h"
#include "engine/model/initialize.h"
#include "engine/plan/lower/run_scratch.h"

namespace strata {
namespace {

ScheduleType schedule_type(ScheduleKind kind) {
  switch (kind) {
    case ScheduleKind::constant:
      return ScheduleType::constant;
    case ScheduleKind::linear:
      return ScheduleType::linear;
    case ScheduleKind::cosine:
      return ScheduleType::cosine;
  }
  return ScheduleType::constant;
}

OptimizerSettings optimizer_settings(const RunConfig& config, const Model& model) {
  const RunConfig::OptimizerSection& optimizer = config.optimizer;
  return {.beta1 = optimizer.betas[0],
          .beta2 = optimizer.betas[1],
          .epsilon = optimizer.epsilon,
          .momentum = optimizer.momentum,
          .clip_norm = optimizer.clip_norm,
          .policies = model.policies,
          .schedule = {.type = schedule_type(optimizer.schedule),
                       .peak = optimizer.learning_rate,
                       .minimum_ratio = optimizer.minimum_ratio,
                       .warmup = optimizer.warmup,
                       .steps = config.train.steps},
          .loss_scale = {.initial = config.train.loss_scale_initial,
                         .growth = config.train.loss_scale_growth,
                         .backoff = config.train.loss_scale_backoff,
                         .interval = config.train.loss_scale_interval},
          .seed = config.train.seed};
}

StoreOptions store_options(const RunConfig& config, const Trainer::Options& options) {
  constexpr std::array kEngines = {StoreEngine::automatic, StoreEngine::io_uring, StoreEngine::threads};
  return {.folders = config.memory.nvme_path,
          .rank = options.world == nullptr ? RankOfRun{}
                                           : RankOfRun{options.world->rank(), options.world->size()},
          .engine = kEngines[static_cast<std::size_t>(config.memory.nvme_engine)],
          .verify = config.memory.nvme_verify,
          .limit = {.read = config.memory.nvme_read_per_second, .write = config.memory.nvme_write_per_second},
          .faults = options.faults};
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

/// Hashes some weights of each unit: finds folders that hold other weights of the same shapes.
std::string hash_of_samples(const HfFolder& folder, const Model& model) {
  constexpr std::int64_t kSamples = 256;
  StreamingHash hash;
  for (const Unit& unit : model.units) {
    for (const Flat flat : {Flat::trained, Flat::frozen}) {
      const std::int64_t all = unit.elements_of(flat), count = std::min(kSamples, all);
      std::vector<float> weights(static_cast<std::size_t>(count));
      for (const std::int64_t first : {std::int64_t{0}, (all - count) / 2}) {
        folder.read_range(unit, {.first = first, .count = count, .flat = flat}, weights);
        hash.update(std::as_bytes(std::span(weights)));
      }
    }
  }
  return hex(hash.digest());
}

/// fill(first, piece) for pieces of `values`, by the threads of the arena that the caller runs in.
template <typename Fill>
void fill_in_pieces(std::span<float> values, const Fill& fill) {
  constexpr std::int64_t kPiece = 256 * 1024;
  for_ranges(std::ssize(values), kPiece, [&](std::int64_t first, std::int64_t last, int) {
    fill(first, values.subspan(static_cast<std::size_t>(first), static_cast<std::size_t>(last - first)));
  });
}

/// The next multiple of `every` after `step`, or `limit` if that comes first or `every` is 0.
std::int64_t next_multiple(std::int64_t step, std::int64_t every, std::int64_t limit) {
  return every > 0 ? std::min(limit, (step / every + 1) * every) : limit;
}

}  // namespace

int host_threads(const RunConfig& config) {
  return config.train.threads > 0 ? static_cast<int>(config.train.threads) : usable_cores();
}

Trainer::Trainer(const RunConfig& config, const Model& model, const Plan& plan, Device& device,
                 TrainingData data, Options options)
    : config_(config),
      model_(model),
      plan_(plan),
      data_(std::move(data)),
      options_(std::move(options)),
      streams_(device, bool(options_.make_device_group)),
      compute_(unit_compute(model, plan.strategy.precision, plan.strategy.microbatch)) {
  on_every_rank(options_.world, [&] {
    state_.emplace(plan, model, device, store_options(config, options_), options_.watchdog_seconds);
  });
  const ScratchBytes scratch = scratch_of_run(device.scratch_rules(), model_, plan_.strategy);
  streams_.of(Lane::compute).kernels().reserve_scratch(scratch);
  result_.scratch.planned = device.scratch_rules().parts(scratch);
  streams_.meter().watch(Tier::device, state_->memory().device, plan.arena_bytes(Tier::device));
  streams_.meter().watch(Tier::host, state_->memory().host, plan.arena_bytes(Tier::host));
  if (options_.world != nullptr) {
    ranks_.emplace(*options_.world, plan_, options_.make_device_group, &streams_);
  }
  shares_ = shares_of(model, plan_.strategy.mesh, rank());
  if (!config_.checkpoint.path.empty())
    checkpoints_.emplace(config_.checkpoint.path, config_.checkpoint.keep, *options_.files,
                         ranks_ ? &ranks_->saving() : nullptr);
  if (plan_.strategy.saves) {
    saver_.emplace(StateSaver::Setup{
        .store = &*checkpoints_,
        .model = &model_,
        .program = &plan_.training.program,
        .stream = meter_stream(device.make_stream(), streams_.meter()),
        .watchdog_seconds = options_.watchdog_seconds,
        .held = [this](std::size_t unit, Flat flat) { return state_->held(unit, flat); },
        .saved = [this](std::size_t unit, Flat flat) { return state_->saved(unit, flat); },
        .sampler = data_.sampler,
        .precision = plan_.strategy.precision,
        .on_saved =
            [this](std::int64_t step) {
              ++result_.saves;
              note_saved(step, *listener_);
            },
        .on_lack_of_space =
            [this](const std::string& sentence) {
              warn(sentence + "; the run goes on, and saves again when it is due", *listener_);
            }});
  }
  const Strategy& strategy = plan_.strategy;
  const std::int64_t data_ranks = strategy.mesh.data(), data_rank = strategy.mesh.data_rank(rank());
  const auto setup = [&](const PlannedProgram& program, const LoadMicrobatch& load,
                         std::int64_t microbatches) {
    return Operations::Setup{.program = &program.program,
                             .compute = compute_.get(),
                             .shares = shares_,
                             .streams = &streams_,
                             .memory = state_->memory(),
                             .spill = state_->spill(),
                             .load = of_rank(load, data_rank, data_ranks, microbatches),
                             .optimizer = optimizer_settings(config_, model_),
                             .saver = saver_ ? &*saver_ : nullptr,
                             .ranks = ranks_ ? &*ranks_ : nullptr,
                             .data_rank = data_rank,
                             .data_ranks = data_ranks,
                             .context_ranks = strategy.mesh.context,
                             .counts_losses = strategy.mesh.tensor_rank(rank()) == 0,
                             .threads = host_threads(config_)};
  };
  Operations::Setup training = setup(plan_.training, data_.training, strategy.microbatches * data_ranks);
  if (ranks_) {
    training.stop_requested = [this] { return stop_->load(); };
    training.on_stop_agreed = [this](std::int64_t step) { agree_to_stop(step); };
  }
  training_operations_.emplace(std::move(training));
  Executor::Options executor{.mode = config_.plan.lanes,
                             .watchdog_seconds = options_.watchdog_seconds,
                             .flops_per_second = config_.device.flops_per_second};
  if (config_.device.sent_per_second)
    executor.sent_per_second = static_cast<double>(*config_.device.sent_per_second);
  executor.on_failure = [this](const std::exception& error) {
    if (options_.on_failure) options_.on_failure(error);
    if (ranks_) options_.world->abort(error.what());
  };
  if (ranks_) {
    executor.ranks_failure = [this] { return ranks_->failure(); };
    executor.watchdog_seconds *= 2;  // so that a rank that does not come is named by one that waits for it
  }
  if (plan_.validation) {
    validation_operations_.emplace(
        setup(*plan_.validation, data_.validation, strategy.validation_microbatches));
    validation_.emplace(*plan_.validation, *validation_operations_, streams_, executor);
  }
  if (options_.observer) {
    executor.observer = [this](const Instruction& instruction) { options_.observer(instruction, *this); };
  }
  if (saver_) executor.saves = {.every = config_.checkpoint.every, .steps = config_.train.steps};
  training_.emplace(plan_.training, *training_operations_, streams_, executor);
}

/// Other lanes may be in the next step already, and in an asynchronous pipeline in the one behind it: all
/// ranks finish that.
void Trainer::agree_to_stop(std::int64_t step) {
  stop_agreed_ = true;
  training_->end_after(step + (plan_.strategy.is_asynchronous() ? 2 : 1));
}

TrainResult Trainer::train(const std::atomic<bool>& stop, TrainListener& listener) {
  listener_ = &listener;
  stop_ = &stop;
  if (checkpoints_) {
    checkpoints_->lock();
    check_checkpoint_writable(config_.checkpoint.path, *options_.files, outside());
  }
  make_state(listener);
  check_space(listener);
  const Counters& counters = training_operations_->counters();
  validate(listener);
  // What goes on from a checkpoint begins with the weights that it has, and so does the run that saves it.
  const std::int64_t drains_every = plan_.strategy.is_asynchronous() ? config_.checkpoint.every : 0;
  while (counters.step < config_.train.steps && !stopped()) {
    const auto next = [&](std::int64_t every) {
      return next_multiple(counters.step, every, config_.train.steps);
    };
    run_steps(std::min(next(config_.train.validate_every), next(drains_every)), listener);
    validate(listener);
  }
  save(listener);  // also if a stop came before the first step
  result_.interrupted = counters.step < config_.train.steps;
  result_.counters = counters;
  result_.measured = training_->measurements();
  if (validation_) {
    MeterCount count = validation_->measurements().count;
    count.traffic = {};  // that of training steps is reported
    result_.measured.count.add(count);
  }
  result_.scratch.measured_bytes = streams_.of(Lane::compute).kernels().scratch_bytes();
  result_.state_hash = state_hash(model_, state_->access(), outside());
  return result_;
}

void Trainer::run_steps(std::int64_t until, TrainListener& listener) {
  const std::int64_t first = training_operations_->counters().step;
  const Executor::RunResult run =
      training_->run(first, until - first, executor_stop(), [&](const StepReport& report) {
        result_.steps.push_back(report);
        const std::lock_guard lock(listening_);
        listener.on_step(report);
      });
  if (run.completed_steps == 0) return;
  result_.steps.back().drain_seconds = run.tail_seconds;  // its updates had nothing to run under
}

void Trainer::validate(TrainListener& listener) {
  const std::int64_t step = training_operations_->counters().step;
  const bool already = !result_.validation.empty() && result_.validation.back().step == step;
  if (!validation_ || stopped() || already) return;
  validation_->run(step, 1, executor_stop(), {});
  if (stopped()) return;
  result_.validation.push_back({step, validation_operations_->report().loss});
  listener.on_validation(result_.validation.back());
}

void Trainer::save(TrainListener& listener) {
  const Counters& counters = training_operations_->counters();
  if (!checkpoints_ || counters.step == saved_step_) return;
  const bool was_stopped = stop_->load();  // who asks again does not want to wait
  save_in_space(
      [&] {
        checkpoints_->save(
            model_, progress_of({counters, state_->loss_scale()}, data_.sampler, plan_.strategy.precision),
            state_->access());
      },
      {.seconds = static_cast<double>(config_.checkpoint.wait_for_space_seconds),
       .has_space = [&] { return checkpoints_->has_space(); },
       .is_over = [&] { return !was_stopped && stop_->load(); },
       .on_wait =
           [&](const std::string& why) {
             warn(fmt::format("{}; trying again for {} seconds", why,
                              config_.checkpoint.wait_for_space_seconds),
                  listener);
           },
       .ranks = outside()});
  note_saved(counters.step, listener);
}

/// The spill files of all ranks have their space by now, and ranks share out what each checkpoint takes.
void Trainer::check_space(TrainListener& listener) {
  if (!checkpoints_) return;
  const std::int64_t step = training_operations_->counters().step;
  const std::int64_t left = config_.train.steps - step;
  const std::int64_t every = config_.checkpoint.every > 0 ? config_.checkpoint.every : config_.train.steps;
  std::int64_t saves = step == saved_step_ ? 0 : 1;
  if (left > 0) saves = (config_.train.steps + every - 1) / every - step / every;
  checkpoints_->check_space(model_, state_->access(), saves);
  say_warnings(listener);
}

void Trainer::note_saved(std::int64_t step, TrainListener& listener) {
  saved_step_ = step;
  const std::lock_guard lock(listening_);
  listener.on_safe_step(step);
  listener.on_checkpoint(fmt::format("{} at step {}", config_.checkpoint.path, step));
  for (const std::string& warning : checkpoints_->take_warnings()) listener.on_warning(warning);
}

void Trainer::warn(const std::string& sentence, TrainListener& listener) {
  const std::lock_guard lock(listening_);
  listener.on_warning(sentence);
}

void Trainer::say_warnings(TrainListener& listener) {
  for (const std::string& warning : checkpoints_->take_warnings()) warn(warning, listener);
}

void Trainer::make_state(TrainListener& listener) {
  TaskArena(host_threads(config_)).execute([&] {
    state_->write_constants();
    if (!resume(listener)) initialise_weights(listener);
    state_->release_scratch();
  });
}

bool Trainer::resume(TrainListener& listener) {
  if (!checkpoints_) return false;
  checkpoints_->remove_leftovers();
  if (options_.fresh) return false;
  const std::optional<LoadedCheckpoint> loaded = checkpoints_->load_newest(model_, state_->access());
  if (!loaded) return false;
  checkpoints_->set_aside_damaged();
  say_warnings(listener);
  const Progress& progress = loaded->progress;
  training_operations_->counters() = {progress.step, progress.applied_updates, progress.skipped_steps};
  state_->write_loss_scale(progress.loss_scale);
  saved_step_ = progress.step;
  listener.on_safe_step(saved_step_);
  if (progress.sampler != data_.sampler(progress.step)) {
    listener.on_warning(
        "the data, the batch or the seed is not that of the checkpoint: the run goes on with other samples");
  }
  listener.on_start(fmt::format("going on from {} (step {})", loaded->folder.string(), progress.step));
  return true;
}

void Trainer::initialise_weights(TrainListener& listener) {
  std::optional<HfFolder> folder;
  std::string samples;
  on_every_rank(outside(), [&] {
    if (config_.model.path.empty()) return;
    folder.emplace(config_.model.path, model_);
    if (ranks_) samples = hash_of_samples(*folder, model_);
  });
  require_same(outside(), {{"a hash of weights in model.path", samples}},
               "all ranks of a run begin with the same weights");
  on_every_rank(outside(), [&] {
    for (std::size_t u = 0; u < model_.units.size(); ++u) {
      const Unit& unit = model_.units[u];
      for (const StateKind kind : {StateKind::master, StateKind::frozen}) {
        if (unit.elements_of(flat_of(kind)) == 0) continue;
        const FlatRange range = state_->loaded(u, kind);
        state_->write(u, kind, [&](std::span<float> weights) {
          fill_in_pieces(weights, [&](std::int64_t first, std::span<float> piece) {
            const FlatRange part = {range.first + first, std::ssize(piece), range.flat};
            if (folder) {
              folder->read_range(unit, part, piece);
            } else {
              initialize_unit(model_.architecture, unit, config_.train.seed, part, piece);
            }
          });
        });
      }
    }
    state_->clear_moments();
  });
  state_->write_loss_scale({.scale = static_cast<float>(config_.train.loss_scale_initial)});
  listener.on_start(config_.model.path.empty() ? fmt::format("random weights, seed {}", config_.train.seed)
                                               : "weights from " + config_.model.path);
}

}  // namespace strata
