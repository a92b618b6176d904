#include "tests/execute/support.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <fstream>
#include <map>
#include <mutex>
#include <stdexcept>
#include <thread>
#include <utility>

#include "base/error.h"
#include "engine/config/run_config.h"
#include "engine/model/kept_state.h"
#include "engine/model/model.h"
#include "engine/model/run_model.h"
#include "engine/model/split_context.h"
#include "engine/plan/lower/lower.h"
#include "engine/plan/place/stage_plans.h"
#include "engine/run/execute/plan_check.h"
#include "engine/run/generate/prompts.h"
#include "engine/run/tune/planning_rates.h"
#include "engine/run/tune/request_of_run.h"
#include "tests/support/queued_device.h"

namespace strata::test {

RunConfig tiny_run(const std::filesystem::path& folder) {
  const std::filesystem::path corpus = folder / "corpus.txt";
  std::ofstream file(corpus);
  for (int i = 0; i < 400; ++i) file << "line " << i * i << " of a small text, " << i % 7 << " words long\n";
  file.close();
  RunConfig config;
  config.model.architecture = "llama";
  config.model.config = {{"num_hidden_layers", 3},     {"hidden_size", 32},       {"num_attention_heads", 4},
                         {"num_key_value_heads", 2},   {"intermediate_size", 48}, {"vocab_size", 128},
                         {"tie_word_embeddings", true}};
  config.data.path = {corpus.string()};
  config.data.sequence_length = 24;
  config.train.steps = 4;
  config.train.batch = 6;
  config.train.microbatch = 2;
  config.train.precision = DType::bf16;
  config.optimizer.learning_rate = 1e-2;
  config.memory.host = kUnlimited;
  return config;
}

namespace {

Architecture architecture_of(const RunConfig& config) {
  return architecture_of_run(model_config_of_run_file(config), config);
}

}  // namespace

Model model_of(const RunConfig& config) {
  return model_of_run(architecture_of(config), config);
}

Model model_of_rank(const RunConfig& config, std::int64_t rank) {
  return strata::model_of_rank(architecture_of(config), config, rank);
}

TrainingData data_of(const RunConfig& config, const Model& model, const BatchLoader& loader) {
  TrainingData data = training_data(loader, model.context, {.short_length = model.form.short_length});
  data.prompts = read_sample_prompts(config, samples_of(config).longest, model.architecture.vocabulary);
  return data;
}

std::vector<Plan> make_plans(const RunConfig& config, const Model& model, Bytes piece_bytes,
                             SearchEffort effort) {
  PlanRequest request = plan_request(config, model);
  if (request.memory.nvme) request.strategy.piece_bytes = piece_bytes;
  request.effort = effort;
  return strata::make_plans(request, model, planning_rates(config));
}

Plan make_plan(const RunConfig& config, const Model& model, Bytes piece_bytes, SearchEffort effort) {
  return std::move(make_plans(config, model, piece_bytes, effort).front());
}

/// What ranks of a run have alike, made once for all that have the same part of each layer and sequence:
/// making passes and planning take most of the time of a tiny run.
class PartsOfRanks {
 public:
  struct Part {
    Model model;
    std::vector<Plan> plans;
  };

  const Part& of(std::int64_t rank, const RunConfig& config, const RunOptions& options) {
    const std::lock_guard lock(mutex_);
    const std::int64_t of_layers = rank % config.parallel.tensor;
    const std::int64_t of_sequences = context_part(config, rank).rank;
    std::unique_ptr<Part>& part = parts_[{of_layers, of_sequences}];
    if (part == nullptr) {
      auto made = std::make_unique<Part>(Part{model_of_rank(config, rank), {}});
      made->plans = make_plans(config, made->model, options.piece_bytes, options.effort);
      part = std::move(made);
    }
    return *part;
  }

 private:
  std::mutex mutex_;
  std::map<std::pair<std::int64_t, std::int64_t>, std::unique_ptr<Part>> parts_;
};

RunOutcome run(const RunConfig& config, const RunOptions& options) {
  const std::int64_t rank = options.world == nullptr ? 0 : options.world->rank();
  PartsOfRanks own;
  const auto& [model, plans] = (options.parts != nullptr ? *options.parts : own).of(rank, config, options);
  const BatchLoader data(config, model.architecture.vocabulary);
  const std::int64_t stage = plans.front().only().strategy.mesh.stage(rank);
  RunOutcome outcome{.plan = plans[static_cast<std::size_t>(stage)], .result = {}};
  if (options.change_plan) options.change_plan(outcome.plan);
  const std::unique_ptr<Device> device =
      options.device == nullptr ? make_cpu_device({.threads = options.device_threads, .link = options.link})
                                : nullptr;
  Trainer trainer({{config, model, data_of(config, model, data)}}, outcome.plan,
                  options.device != nullptr ? *options.device : *device,
                  {.fresh = options.fresh,
                   .watchdog_seconds = options.watchdog_seconds,
                   .faults = options.faults,
                   .files = options.files,
                   .world = options.world,
                   .make_device_group = options.make_device_group,
                   .on_failure = options.on_failure,
                   .observer = options.observer,
                   .recording = options.recording});
  const std::atomic<bool> never = false;
  TrainListener silent;
  outcome.result = trainer.train(options.stop != nullptr ? *options.stop : never,
                                 options.listener != nullptr ? *options.listener : silent);
  return outcome;
}

void on_ranks(int ranks, const std::function<void(int rank, Communicator& world)>& run,
              const ThreadCommunicatorOptions& communicators) {
  const auto worlds = make_thread_communicators(ranks, communicators);
  std::exception_ptr first_error;
  std::mutex mutex;
  std::vector<std::thread> threads;
  threads.reserve(worlds.size());
  for (int rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] {
      Communicator& world = *worlds[static_cast<std::size_t>(rank)];
      try {
        run(rank, world);
      } catch (const std::exception& error) {
        const std::lock_guard lock(mutex);
        if (!first_error) first_error = std::current_exception();
        world.abort(error.what());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  if (first_error) std::rethrow_exception(first_error);
}

std::vector<RunConfig> shared_by_two_ranks(const RunConfig& alone) {
  RunConfig data = alone, tensor = alone, sequence = alone, pipeline = alone, context = alone;
  data.parallel.data = 2;
  tensor.parallel.tensor = 2;
  sequence.parallel.tensor = 2;
  sequence.parallel.sequence = true;
  pipeline.parallel.pipeline = 2;
  context.parallel.context = 2;
  return {data, tensor, sequence, pipeline, context};
}

std::string layout_of(const RunConfig& config) {
  return fmt::format("data {}, tensor {}, pipeline {}, context {}", config.parallel.data,
                     config.parallel.tensor, config.parallel.pipeline, config.parallel.context);
}

std::vector<RunOutcome> run_ranks(RunConfig config, int ranks,
                                  const std::function<RunOptions(int rank)>& options,
                                  const ThreadCommunicatorOptions& communicators) {
  config.parallel.data = ranks / config.ranks_of_data_rank();
  std::vector<RunOutcome> outcomes(static_cast<std::size_t>(ranks));
  PartsOfRanks parts;
  on_ranks(
      ranks,
      [&](int rank, Communicator& world) {
        RunOptions own = options(rank);
        own.world = &world;
        own.parts = &parts;
        outcomes[static_cast<std::size_t>(rank)] = run(config, own);
      },
      communicators);
  return outcomes;
}

Tensors left_by(const RunConfig& config, const std::vector<StateKey>& kinds, Device* device) {
  const Model model = model_of(config);
  const BatchLoader data(config, model.architecture.vocabulary);
  const Plan plan = make_plan(config, model);
  const std::unique_ptr<Device> own =
      device == nullptr ? make_cpu_device({.threads = 2, .link = {}}) : nullptr;
  Trainer trainer(
      {{config, model, training_data(data, model.context, {.short_length = model.form.short_length})}}, plan,
      own ? *own : *device, {});
  TrainListener silent;
  trainer.train(std::atomic<bool>(false), silent);
  Tensors tensors;
  for (std::size_t u = 0; u < model.units.size(); ++u) {
    for (const StateKey key : kinds) {
      const Unit& unit = model.units[u];
      const FlatRange kept = kept_part(model, unit, key, whole(unit, flat_of(key)));
      if (kept.count == 0) continue;
      const std::span<const float> values = trainer.state().read(u, key);
      for (const TensorSpec& tensor : unit.tensors) {
        if (tensor.flat != flat_of(key) || !keeps(model, tensor, key)) continue;
        const std::span<const float> part = slice(values, tensor.offset - kept.first, tensor.elements);
        tensors[tensor.hf_name + " " + std::string(name_of(key))].assign(part.begin(), part.end());
      }
    }
  }
  return tensors;
}

std::map<std::string, double> relative_differences(const Tensors& expected, const Tensors& found) {
  std::map<std::string, double> differences;
  for (const auto& [name, values] : expected) {
    double difference = 0, size = 0;
    for (std::size_t i = 0; i < values.size(); ++i) {
      const double a = values[i], b = found.at(name)[i];
      difference += (a - b) * (a - b);
      size += a * a;
    }
    differences[name] = difference == 0 ? 0 : std::sqrt(difference / size);
  }
  return differences;
}

bool has_same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

void expect_the_plan_was_exact(const RunOutcome& outcome) {
  const MeterCount& count = outcome.result.measured.count;
  for (const Tier tier : kTiers) {
    EXPECT_EQ(count.peak_bytes[tier], outcome.plan.arena_bytes(tier)) << name_of(tier);
  }
  for (const Link link : kLinks)
    EXPECT_EQ(count.traffic[link], planned_bytes(outcome.plan, outcome.result, link)) << name_of(link);
  EXPECT_EQ(count.outside_bytes, 0);
  EXPECT_THAT(differences_from_plan(outcome.plan, outcome.result), ::testing::IsEmpty());
}

Bytes resident_bytes(RunConfig config) {
  config.memory.device = kUnlimited;
  return make_plan(config, model_of_rank(config, 0)).arena_bytes(Tier::device);
}

Bytes named_budget(const RunConfig& config, Bytes piece_bytes) {
  try {
    make_plan(config, model_of_rank(config, 0), piece_bytes);
  } catch (const ConfigError& error) {
    const std::string text = error.what();
    return std::stoll(text.substr(text.find('(') + 1));
  }
  throw std::logic_error("the budgets were accepted");
}

Bytes smallest_bytes(RunConfig config) {
  config.memory.device = 1;
  return named_budget(config);
}

Bytes smallest_host_bytes(RunConfig config, Bytes piece_bytes) {
  config.memory.host = 1;
  return named_budget(config, piece_bytes);
}

}  // namespace strata::test
