// Training with some frozen tensors. These keep their values, and the others get the bits that they get
// beside trained ones. This holds on any tier, in any order, on any number of ranks, and through checkpoints
// and exports.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "base/error.h"
#include "engine/config/run_config.h"
#include "engine/model/initialize.h"
#include "engine/model/model.h"
#include "engine/run/checkpoint/hf_folder.h"
#include "tests/execute/support.h"

namespace strata {
namespace {

namespace fs = std::filesystem;
using test::expect_the_plan_was_exact;
using test::has_same_bits;
using test::left_by;
using test::model_of;
using test::resident_bytes;
using test::run;
using test::run_ranks;
using test::RunOptions;
using test::RunOutcome;
using test::smallest_bytes;
using test::smallest_host_bytes;
using test::TemporaryFolder;
using test::Tensors;
using test::tiny_run;
using ::testing::HasSubstr;

using Patterns = std::vector<std::string>;

/// Below all that is trained, in between, and a norm; every product is whole.
const Patterns kWholeProducts = {"model.embed_tokens.*", "model.layers.0.*", "*.1.mlp.*",
                                 "*.2.self_attn.o_proj.*", "model.norm.*"};
/// Beside parts of products.
const Patterns kParts = {"model.layers.0.*", "*.1.self_attn.k_proj.*", "*.2.mlp.gate_proj.*",
                         "*.2.input_layernorm.*"};

/// A gradient that passes units which train nothing; and none that leaves the last one.
const Patterns kAllButTables = {"model.layers.*", "model.norm.*"};
const Patterns kAllButTheHead = {"model.layers.*", "model.embed_tokens.*"};

template <typename T>
std::vector<float> initial(const RunConfig& config, const TensorSpec& tensor) {
  std::vector<float> values(static_cast<std::size_t>(tensor.elements));
  initialize_tensor(model_of(config).architecture, tensor, config.train.seed, 0, values);
  for (float& value : values) value = static_cast<float>(T(value));
  return values;
}

/// What a whole run makes of its tensors in a step without clipping is what one makes of them that trains
/// only some.
void expect_the_bits_of_a_run_that_trains_all(RunConfig config, const Patterns& freeze) {
  config.train.steps = 1;
  config.optimizer.clip_norm = 0;
  const std::vector<StateKey> kinds = {StateKey::master, key_of(Moment::exp_avg), key_of(Moment::exp_avg_sq)};
  const Tensors all = left_by(config, kinds);
  config.train.freeze = freeze;
  const Tensors some = left_by(config, kinds);
  EXPECT_GT(some.size(), 0U);
  EXPECT_LT(some.size(), all.size());
  for (const auto& [name, values] : some) EXPECT_TRUE(has_same_bits(values, all.at(name))) << name;
}

// Invariant of state and checkpoints (Freezing.*): Freezing changes nothing else. Frozen tensors keep their
// bits. A step without clipping gives trained tensors the bits that they get if all tensors are trained.
TEST(Freezing, GivesTrainedTensorsTheBitsOfARunThatTrainsAll) {
  const TemporaryFolder folder;
  for (const DType precision : {DType::fp32, DType::bf16, DType::fp16}) {
    for (const bool tied : {true, false}) {
      RunConfig config = tiny_run(folder.path());
      config.model.config["tie_word_embeddings"] = tied;
      config.train.precision = precision;
      expect_the_bits_of_a_run_that_trains_all(config, kWholeProducts);
      expect_the_bits_of_a_run_that_trains_all(config, kAllButTables);
      if (!tied) expect_the_bits_of_a_run_that_trains_all(config, kAllButTheHead);
    }
  }
}

/// Learned positions beside a frozen table, a table beside frozen positions, and norms with a bias or
/// without.
TEST(Freezing, GivesTheBitsOfARunThatTrainsAllInGpt2) {
  const TemporaryFolder folder;
  RunConfig config = tiny_run(folder.path());
  config.model.architecture = "gpt2";
  config.model.config = {
      {"n_layer", 2}, {"n_embd", 32}, {"n_head", 4}, {"n_positions", 24}, {"vocab_size", 128}};
  expect_the_bits_of_a_run_that_trains_all(config,
                                           {"transformer.wte.*", "*.h.0.ln_1.weight", "*.h.1.ln_1.bias"});
  expect_the_bits_of_a_run_that_trains_all(config, {"transformer.wpe.*", "*.ln_2.*", "*.c_attn.bias"});
  expect_the_bits_of_a_run_that_trains_all(config,
                                           {"transformer.w?e.*", "*.h.0.attn.*", "*.mlp.c_fc.weight"});
}

/// Norms of heads, whose input nobody wants a gradient of; and without them.
TEST(Freezing, GivesTheBitsOfARunThatTrainsAllInQwen3) {
  const TemporaryFolder folder;
  RunConfig config = tiny_run(folder.path());
  config.model.architecture = "qwen3";
  config.model.config["head_dim"] = 8;
  expect_the_bits_of_a_run_that_trains_all(
      config, {"model.embed_tokens.*", "*.0.input_layernorm.*", "*.[qkv]_proj.*"});
  expect_the_bits_of_a_run_that_trains_all(config, {"*.q_norm.*", "*.1.self_attn.k_norm.*"});
}

TEST(Freezing, GivesTheBitsOfARunThatTrainsAllInMixtral) {
  const TemporaryFolder folder;
  RunConfig config = tiny_run(folder.path());
  config.model.architecture = "mixtral";
  config.model.config["num_local_experts"] = 4;
  config.model.config["num_experts_per_tok"] = 2;
  expect_the_bits_of_a_run_that_trains_all(config, {"*.1.*.experts.*", "*.2.*.gate.weight"});
  expect_the_bits_of_a_run_that_trains_all(
      config, {"model.embed_tokens.*", "*.0.*norm*", "*.0.self_attn.*", "*.0.*.experts.*.w[13].*"});
  expect_the_bits_of_a_run_that_trains_all(
      config, {"model.embed_tokens.*", "*.0.*norm*", "*.0.self_attn.*", "*.0.*.experts.*"});
}

/// Each layer adds to the auxiliary loss of routing, whatever of it is trained.
TEST(Freezing, GivesTheBitsOfARunThatTrainsAllWithTheLossOfRouting) {
  const TemporaryFolder folder;
  const Patterns all_but_routers = {"model.embed_tokens.*", "*norm*", "*.self_attn.*", "*.experts.*",
                                    "lm_head.*"};
  for (const DType precision : {DType::fp32, DType::bf16, DType::fp16}) {
    RunConfig config = tiny_run(folder.path());
    config.train.precision = precision;
    config.model.architecture = "mixtral";
    config.model.config["num_local_experts"] = 4;
    config.model.config["num_experts_per_tok"] = 2;
    config.model.config["output_router_logits"] = true;
    config.model.config["router_aux_loss_coef"] = 0.5;
    config.model.config["tie_word_embeddings"] = false;
    for (const Recompute recompute : {Recompute::full, Recompute::none}) {
      config.train.recompute = recompute;
      expect_the_bits_of_a_run_that_trains_all(config, {"*.gate.weight"});
      expect_the_bits_of_a_run_that_trains_all(config, {"*.1.*.gate.weight", "model.embed_tokens.*"});
      expect_the_bits_of_a_run_that_trains_all(config, {"*.experts.*"});
      expect_the_bits_of_a_run_that_trains_all(config, all_but_routers);
      expect_the_bits_of_a_run_that_trains_all(config, {"model.embed_tokens.*", "model.layers.[01].*",
                                                        "*.2.self_attn.*", "*.2.input_layernorm.*"});
    }
  }
}

TEST(Freezing, LeavesFrozenTensorsAsTheyWere) {
  const TemporaryFolder folder;
  RunConfig config = tiny_run(folder.path());
  config.train.freeze = kParts;
  for (const DType precision : {DType::fp32, DType::bf16, DType::fp16}) {
    config.train.precision = precision;
    const Tensors left = left_by(config, {StateKey::frozen, StateKey::master});
    for (const Unit& unit : model_of(config).units) {
      for (const TensorSpec& tensor : unit.tensors) {
        const bool is_frozen = tensor.flat == Flat::frozen;
        const std::vector<float>& values = left.at(tensor.hf_name + (is_frozen ? " frozen" : " master"));
        const std::vector<float> before = precision == DType::fp32   ? initial<float>(config, tensor)
                                          : precision == DType::bf16 ? initial<bfloat16>(config, tensor)
                                                                     : initial<float16>(config, tensor);
        EXPECT_EQ(has_same_bits(values, before), is_frozen) << tensor.hf_name;
      }
    }
  }
}

/// The norm that clips is that of trained tensors: a bound that only all gradients together exceed does not
/// bind.
TEST(Freezing, CountsTrainedTensorsInTheNorm) {
  const TemporaryFolder folder;
  RunConfig config = tiny_run(folder.path());
  config.train.precision = DType::fp32;
  config.train.steps = 1;
  const double all = run(config).result.steps[0].grad_norm;
  config.train.freeze = kWholeProducts;
  const double some = run(config).result.steps[0].grad_norm;
  EXPECT_LT(some, 0.95 * all);
  EXPECT_GT(some, 0);
}

struct FrozenRun {
  DType precision;
  Recompute recompute;
  double clip_norm;
  MasterFormat master = MasterFormat::fp32;
};

class FrozenPlacement : public ::testing::TestWithParam<std::tuple<FrozenRun, Order>> {};

// Invariant (FrozenPlacement.*): Freezing changes nothing else.
TEST_P(FrozenPlacement, ChangesNoBitAndThePlanIsExact) {
  const TemporaryFolder folder;
  const auto& [key, order] = GetParam();
  for (const Patterns& freeze : {kWholeProducts, kParts}) {
    RunConfig config = tiny_run(folder.path());
    config.train.freeze = freeze;
    config.train.precision = key.precision;
    config.train.recompute = key.recompute;
    config.train.validate_every = 2;
    config.optimizer.clip_norm = key.clip_norm;
    config.optimizer.master = key.master;
    config.plan.lanes = LaneMode::serial;
    config.plan.order = Order::layer_major;
    const std::string expected = run(config, {.device_threads = 1}).result.state_hash;
    config.plan.order = order;
    config.plan.lanes = LaneMode::overlapped;
    const Bytes resident = resident_bytes(config), smallest = smallest_bytes(config);
    for (const Bytes budget : {kUnlimited, resident / 2, smallest}) {
      config.memory.device = std::max(budget, smallest);
      const RunOutcome outcome = run(config);
      EXPECT_EQ(outcome.result.state_hash, expected) << "budget " << budget;
      expect_the_plan_was_exact(outcome);
    }
    for (const TierChoice parameters : {TierChoice::device, TierChoice::host}) {
      config.memory.device = resident;
      config.memory.parameters = parameters;
      const RunOutcome outcome = run(config);
      EXPECT_EQ(outcome.result.state_hash, expected) << "parameters pinned";
      expect_the_plan_was_exact(outcome);
    }
    config.memory.parameters = TierChoice::automatic;
    config.memory.device = smallest_bytes(config);
    fs::create_directory(folder.path() / "drive");
    config.memory.nvme_path = {(folder.path() / "drive").string()};
    for (const TierChoice parameters : {TierChoice::automatic, TierChoice::nvme}) {
      config.memory.parameters = parameters;
      config.memory.host = smallest_host_bytes(config);
      for (const Bytes more : {Bytes{0}, 64 * KiB}) {
        config.memory.host = *config.memory.host + more;
        const RunOutcome outcome = run(config);
        EXPECT_EQ(outcome.result.state_hash, expected) << "on drives";
        EXPECT_GT(outcome.plan.arena_bytes(Tier::nvme), 0);
        expect_the_plan_was_exact(outcome);
      }
    }
    fs::remove_all(folder.path() / "drive");
  }
}

INSTANTIATE_TEST_SUITE_P(
    PrecisionsAndOrders, FrozenPlacement,
    ::testing::Combine(::testing::Values(FrozenRun{DType::bf16, Recompute::full, 1},
                                         FrozenRun{DType::bf16, Recompute::automatic, 0, MasterFormat::split},
                                         FrozenRun{DType::bf16, Recompute::none, 1, MasterFormat::none},
                                         FrozenRun{DType::fp32, Recompute::none, 1},
                                         FrozenRun{DType::fp16, Recompute::automatic, 1}),
                       ::testing::Values(Order::layer_major, Order::microbatch_major)));

TEST(Freezing, GivesTheSameBitsWhateverIsSaved) {
  const TemporaryFolder folder;
  for (const Patterns& freeze : {kWholeProducts, kParts, kAllButTables, kAllButTheHead}) {
    RunConfig config = tiny_run(folder.path());
    config.model.config["tie_word_embeddings"] = false;
    config.train.freeze = freeze;
    config.train.recompute = Recompute::full;
    const std::string full = run(config).result.state_hash;
    config.train.recompute = Recompute::none;
    EXPECT_EQ(run(config).result.state_hash, full);
  }
}

/// Stages of a layout give the same bits, and follow the run of one rank.
TEST(Freezing, TrainsOnRanksOfAnyStage) {
  const TemporaryFolder folder;
  for (const Patterns& freeze : {kWholeProducts, kParts}) {
    for (const DType precision : {DType::fp32, DType::bf16}) {
      RunConfig config = tiny_run(folder.path());
      config.train.freeze = freeze;
      config.train.precision = precision;
      config.train.batch = 8;
      const RunOutcome alone = run(config);
      std::set<std::string> hashes;
      for (const int stage : {1, 2, 3}) {
        config.parallel.zero_stage = stage;
        for (const bool is_small : {false, true}) {
          config.parallel.data = 2;
          config.memory.device = is_small ? smallest_bytes(config) : kUnlimited;
          for (const RunOutcome& outcome : run_ranks(config, 2)) {
            hashes.insert(outcome.result.state_hash);
            expect_the_plan_was_exact(outcome);
            for (std::size_t s = 0; s < outcome.result.steps.size(); ++s)
              EXPECT_NEAR(outcome.result.steps[s].loss, alone.result.steps[s].loss,
                          precision == DType::fp32 ? 1e-4 : 5e-2);
          }
        }
        config.memory.device = kUnlimited;
      }
      EXPECT_EQ(hashes.size(), 1U);
    }
  }
}

TEST(Freezing, TrainsOnReplicasOfShards) {
  const TemporaryFolder folder;
  RunConfig config = tiny_run(folder.path());
  config.train.freeze = kParts;
  config.train.batch = 8;
  config.parallel.replicate = 2;
  for (const int stage : {1, 3}) {
    config.parallel.zero_stage = stage;
    const std::vector<RunOutcome> outcomes = run_ranks(config, 4);
    for (const RunOutcome& outcome : outcomes) {
      EXPECT_EQ(outcome.result.state_hash, outcomes[0].result.state_hash);
      expect_the_plan_was_exact(outcome);
    }
  }
}

RunConfig frozen_saving_run(const TemporaryFolder& folder) {
  RunConfig config = tiny_run(folder.path());
  config.train.freeze = kParts;
  config.checkpoint.path = (folder.path() / "out").string();
  config.train.steps = 4;
  return config;
}

/// Where the state lives while steps save.
enum class SavedFrom { device, host, pinned, drive };

TEST(Freezing, GoesOnFromACheckpointToTheSameBits) {
  const TemporaryFolder folder;
  for (const DType precision : {DType::bf16, DType::fp16, DType::fp32}) {
    for (const SavedFrom place : {SavedFrom::device, SavedFrom::host, SavedFrom::pinned, SavedFrom::drive}) {
      for (const std::int64_t every : {0, 2}) {
        RunConfig config = frozen_saving_run(folder);
        config.train.precision = precision;
        const std::string expected = run(config, {.fresh = true}).result.state_hash;
        fs::remove_all(config.checkpoint.path);
        if (place == SavedFrom::host) config.memory.device = smallest_bytes(config);
        if (place == SavedFrom::pinned) {
          config.memory.optimizer_state = TierChoice::host;
          config.memory.parameters = TierChoice::device;
        }
        if (place == SavedFrom::drive) {
          config.memory.device = smallest_bytes(config);
          fs::create_directories(folder.path() / "drive");
          config.memory.nvme_path = {(folder.path() / "drive").string()};
          config.memory.parameters = config.memory.optimizer_state = TierChoice::nvme;
        }
        config.checkpoint.every = every;
        config.train.steps = 2;
        const RunOutcome half = run(config);
        if (every > 0) expect_the_plan_was_exact(half);
        config.train.steps = 4;
        EXPECT_EQ(run(config).result.state_hash, expected) << static_cast<int>(place) << " every " << every;
        fs::remove_all(config.checkpoint.path);
      }
    }
  }
}

TEST(Freezing, ReshardsFromRanksToOne) {
  const TemporaryFolder folder;
  for (const int stage : {0, 1, 3}) {
    for (const std::int64_t replicate : {1, 2}) {
      RunConfig config = frozen_saving_run(folder);
      config.train.batch = 8;
      config.parallel.zero_stage = stage;
      config.parallel.replicate = stage == 0 ? 1 : replicate;
      config.checkpoint.every = replicate - 1;
      const std::string saved = run_ranks(config, static_cast<int>(2 * replicate))[0].result.state_hash;
      config.parallel = {};
      EXPECT_EQ(run(config).result.state_hash, saved) << "loaded, and no step left";
      fs::remove_all(config.checkpoint.path);
    }
  }
}

TEST(Freezing, RefusesACheckpointOfAnotherFreeze) {
  const TemporaryFolder folder;
  RunConfig config = frozen_saving_run(folder);
  const std::string left = run(config).result.state_hash;
  config.train.freeze.emplace_back("model.layers.0.mlp.*");  // which is frozen already
  EXPECT_EQ(run(config).result.state_hash, left);
  const auto refusal = [&](const Patterns& freeze) -> std::string {
    config.train.freeze = freeze;
    try {
      run(config);
    } catch (const ConfigError& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_THAT(refusal({}), HasSubstr("is of a run with another train.freeze, in which "
                                     "model.layers.0.input_layernorm.weight was frozen; use train.freeze: "
                                     "[model.layers.0.*, "));
  EXPECT_THAT(refusal({"model.layers.0.*", "model.embed_tokens.*"}),
              HasSubstr("model.embed_tokens.weight was trained"));
}

TEST(Freezing, ExportsEveryTensor) {
  const TemporaryFolder folder;
  RunConfig config = frozen_saving_run(folder);
  run(config);
  const Model model = model_of(config);
  CheckpointStore store(config.checkpoint.path, 2);
  std::optional<OpenCheckpoint> open = store.open_newest(model);
  ASSERT_TRUE(open);
  save_hf_folder(folder.path() / "exported", model,
                 [&](std::size_t unit, FlatRange range, std::span<float> out) {
                   open->state.read(unit, weights_in(range.flat), range, out);
                 },
                 {.config = to_hf_config(model.architecture)});
  config.train.freeze.clear();
  const Model whole_model = model_of(config);
  const HfFolder exported(folder.path() / "exported", whole_model);
  config.train.freeze = kParts;
  for (const Unit& unit : model.units) {
    for (const TensorSpec& tensor : unit.tensors) {
      std::vector<float> values(static_cast<std::size_t>(tensor.elements));
      exported.read_tensor(tensor.hf_name, 0, values);
      EXPECT_EQ(has_same_bits(values, initial<bfloat16>(config, tensor)), tensor.flat == Flat::frozen)
          << tensor.hf_name;
    }
  }
}

}  // namespace
}  // namespace strata
