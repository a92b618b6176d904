// The state that a run begins with is made by all threads, and is that of one.
#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "base/hash.h"
#include "base/random.h"
#include "engine/config/run_config.h"
#include "engine/model/model.h"
#include "engine/run/checkpoint/hf_folder.h"
#include "tests/execute/gradients.h"
#include "tests/execute/support.h"

namespace strata {
namespace {

using test::model_of;
using test::run;
using test::TemporaryFolder;
using test::tiny_run;

/// A run whose embedding no thread makes in one piece.
RunConfig run_of_several_pieces(const std::filesystem::path& folder) {
  RunConfig config = tiny_run(folder);
  config.model.config["vocab_size"] = 40'000;
  config.train.batch = 2;
  config.train.steps = 1;
  return config;
}

/// The masters of a unit, a number at a time.
std::vector<float> masters(const Model& model, const Unit& unit, std::uint64_t seed) {
  std::vector<float> flat(static_cast<std::size_t>(unit.elements), 0.0F);
  for (const TensorSpec& tensor : unit.tensors) {
    const CounterRandom random(seed, hash_text(tensor.hf_name));
    for (std::int64_t i = 0; i < tensor.elements; ++i) {
      flat[static_cast<std::size_t>(tensor.offset + i)] =
          tensor.init == Init::ones ? 1.0F
                                    : static_cast<float>(model.architecture.initializer_range) *
                                          random.normal(static_cast<std::uint64_t>(i));
    }
  }
  return flat;
}

std::string hash_of_begin(const Model& model, std::uint64_t seed) {
  std::vector<std::map<StateKey, std::vector<float>>> state;
  for (const Unit& unit : model.units) {
    const std::vector<float> zeros(static_cast<std::size_t>(unit.elements), 0.0F);
    state.push_back({{StateKey::master, masters(model, unit, seed)},
                     {key_of(Moment::exp_avg), zeros},
                     {key_of(Moment::exp_avg_sq), zeros}});
  }
  return state_hash(model, access_in_memory(model, [&](std::size_t unit, StateKey key) {
                      return std::span(state[unit][key]);
                    }));
}

/// Writes a Hugging Face folder with the random weights that the run begins with.
std::string folder_of_begin(const std::filesystem::path& folder, const RunConfig& config) {
  const Model model = model_of(config);
  save_hf_folder(folder, model,
                 [&](std::size_t unit, FlatRange range, std::span<float> out) {
                   const std::vector<float> flat = masters(model, model.units[unit], config.train.seed);
                   std::copy_n(flat.begin() + range.first, range.count, out.begin());
                 },
                 {.config = to_hf_config(model.architecture), .dtype = DType::fp32});
  return folder.string();
}

/// The state of a run that is stopped before its first step.
std::string begun(const RunConfig& config) {
  const std::atomic<bool> stop = true;
  const TrainResult result = run(config, {.stop = &stop}).result;
  EXPECT_TRUE(result.steps.empty());
  return result.state_hash;
}

// Invariant of numbers (InitialState.*): A run begins with the same bits. Initial state has the bits of
// scalar code on one thread, for any number of threads and any instruction set.
TEST(InitialState, HasTheBitsOfOneThreadForAnyNumberOfThreads) {
  const TemporaryFolder folder;
  RunConfig config = run_of_several_pieces(folder.path());
  const std::string expected = hash_of_begin(model_of(config), config.train.seed);
  for (const DType precision : {DType::fp32, DType::bf16}) {
    config.train.precision = precision;
    std::string after_a_step;
    for (const std::int64_t threads : {1, 2, 5}) {
      config.train.threads = threads;
      EXPECT_EQ(begun(config), expected) << threads;
      const std::string hash = run(config).result.state_hash;
      EXPECT_EQ(hash, after_a_step.empty() ? hash : after_a_step) << threads;
      after_a_step = hash;
    }
  }
}

TEST(InitialState, InFewerBytesIsThatOfOneThreadToo) {
  const TemporaryFolder folder;
  RunConfig config = run_of_several_pieces(folder.path());
  config.optimizer.master = MasterFormat::split;
  config.optimizer.moments = MomentFormat::bf16;
  for (const std::int64_t threads : {1, 5}) {
    config.train.threads = threads;
    EXPECT_EQ(begun(config), hash_of_begin(model_of(config), config.train.seed)) << threads;
  }
}

TEST(InitialState, FromAFolderHasItsWeightsForAnyNumberOfThreads) {
  const TemporaryFolder folder;
  RunConfig config = run_of_several_pieces(folder.path());
  const std::string expected = hash_of_begin(model_of(config), config.train.seed);
  config.model.path = folder_of_begin(folder.path() / "model", config);
  for (const std::int64_t threads : {1, 5}) {
    config.train.threads = threads;
    EXPECT_EQ(begun(config), expected) << threads;
  }
}

/// Ranks find that their folders are the same, whatever part of a tensor each has.
TEST(InitialState, FromAFolderIsThatOfOneRankOnRanksOfEveryKind) {
  const TemporaryFolder folder;
  RunConfig config = tiny_run(folder.path());
  config.train.steps = 2;
  config.train.batch = 8;
  config.train.precision = DType::fp32;
  config.optimizer.learning_rate = 1e-3;
  config.model.path = folder_of_begin(folder.path() / "model", config);
  test::expect_one_run_on_two_ranks(config);
}

}  // namespace
}  // namespace strata
