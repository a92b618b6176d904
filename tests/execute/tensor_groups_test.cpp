// optimizer.groups in whole runs: each tensor is updated as its policy says, with the same bits wherever its
// state lives, in whatever pieces it is updated, on any number of ranks.
#include <gtest/gtest.h>

#include <set>

#include "engine/config/run_config.h"
#include "engine/model/kept_state.h"
#include "engine/model/model.h"
#include "optim/update_rule.h"
#include "tests/execute/support.h"
#include "tests/support/drive.h"
#include "tests/support/queued_device.h"
#include "tests/support/rule_in_run_file.h"

namespace strata {
namespace {

using test::expect_the_plan_was_exact;
using test::has_same_bits;
using test::left_by;
using test::model_of;
using test::resident_bytes;
using test::run;
using test::run_ranks;
using test::RunOutcome;
using test::smallest_bytes;
using test::smallest_host_bytes;
using test::TemporaryFolder;
using test::Tensors;
using test::tiny_run;

/// A table, a layer, parts of fused products, and norms: policies begin and end inside products and pieces.
const std::vector<TensorGroup> kGroups = {
    {.tensors = {"model.embed_tokens.*"}, .learning_rate_factor = 0.25},
    {.tensors = {"model.layers.0.*"}, .learning_rate_factor = 2, .weight_decay = 0.5},
    {.tensors = {"*.1.self_attn.k_proj.*", "*.up_proj.*"}, .weight_decay = 0.75},
    {.tensors = {"*norm*"}, .learning_rate_factor = 0.5, .weight_decay = 0.125},
    {.tensors = {"*.o_proj.*"},
     .schedule = ScheduleSection{.type = ScheduleType::piecewise, .points = {{0, 0.375}}}},
    {.tensors = {"*.1.self_attn.o_proj.*"}, .learning_rate_factor = 2}};

RunConfig run_with_groups(const TemporaryFolder& folder) {
  RunConfig config = tiny_run(folder.path());
  config.optimizer.groups = kGroups;
  return config;
}

/// One step of `config` gives a tensor the bits that it gets where all tensors have its policy.
void expect_each_tensor_as_alone(RunConfig config, const std::vector<std::string>& names) {
  config.train.steps = 1;
  const Model model = model_of(config);
  const std::vector<StateKey> kinds = keys_of(model, Flat::trained);
  const Tensors actual = left_by(config, kinds);
  std::set<std::string> seen;
  for (std::size_t p = 0; p < model.policies.size(); ++p) {
    RunConfig uniform = config;
    uniform.optimizer.groups.clear();
    uniform.optimizer.decay = Decay::all;
    uniform.optimizer.learning_rate *= model.policies[p].learning_rate_factor;
    if (const std::size_t group = model.policies[p].schedule; group > 0)
      uniform.schedule = *config.optimizer.groups[group - 1].schedule;
    uniform.optimizer.weight_decay = model.policies[p].weight_decay;
    const Tensors expected = left_by(uniform, kinds);
    for (const Unit& unit : model.units) {
      for (const TensorSpec& tensor : unit.tensors) {
        if (tensor.policy != p || tensor.flat == Flat::frozen) continue;
        seen.insert(tensor.hf_name);
        for (const StateKey key : kinds) {
          if (!keeps(model, tensor, key)) continue;
          const std::string name = tensor.hf_name + " " + std::string(name_of(key));
          EXPECT_TRUE(has_same_bits(actual.at(name), expected.at(name))) << name;
        }
      }
    }
  }
  for (const std::string& name : names) EXPECT_TRUE(seen.contains(name)) << name;
}

// Invariant of state and checkpoints (TensorGroups*.*): Groups change only what they name. Each tensor gets
// the bits that it gets where all tensors have its policy. Placements, pieces and stages change no bit. Only
// the scalars of a step differ in the program.
TEST(TensorGroups, UpdateEachTensorAsItsPolicySays) {
  const TemporaryFolder folder;
  for (const DType precision : {DType::fp32, DType::bf16, DType::fp16}) {
    for (const bool on_device : {true, false}) {
      RunConfig config = run_with_groups(folder);
      config.train.precision = precision;
      config.memory.device = on_device ? kUnlimited : smallest_bytes(config);
      expect_each_tensor_as_alone(config, {"model.embed_tokens.weight", "model.layers.2.mlp.up_proj.weight",
                                           "model.layers.2.mlp.gate_proj.weight", "model.norm.weight",
                                           "model.layers.1.self_attn.o_proj.weight"});
    }
  }
}

TEST(TensorGroups, UpdateEachTensorAsItsPolicySaysByEveryRule) {
  const TemporaryFolder folder;
  for (const UpdateRule rule : kUpdateRules) {
    RunConfig config = run_with_groups(folder);
    test::set_rule(config.optimizer, rule);
    expect_each_tensor_as_alone(config, {"model.embed_tokens.weight", "model.layers.2.mlp.up_proj.weight",
                                         "model.layers.2.mlp.gate_proj.weight", "model.norm.weight",
                                         "model.layers.1.self_attn.o_proj.weight"});
  }
}

TEST(TensorGroups, ThatSayWhatTheSectionSaysChangeNoBitAndNoPlan) {
  const TemporaryFolder folder;
  RunConfig config = tiny_run(folder.path());
  const RunOutcome without = run(config);
  config.optimizer.groups = {{.tensors = {"*_proj.*"}, .learning_rate_factor = 1, .weight_decay = 0.1},
                             {.tensors = {"*norm*"}, .weight_decay = 0}};
  const RunOutcome with = run(config);
  EXPECT_EQ(with.result.state_hash, without.result.state_hash);
  EXPECT_EQ(print(with.plan.training().program), print(without.plan.training().program));
}

TEST(TensorGroups, JoinEqualNeighboursAndFollowShards) {
  const TemporaryFolder folder;
  RunConfig config = tiny_run(folder.path());
  const Model plain = model_of(config);
  const Unit& block = plain.units[1];
  const auto is_joined = [&](const UnitShare& share) {
    for (std::size_t p = 1; p < share.parts.size(); ++p) {
      const UpdatedPart &a = share.parts[p - 1], &b = share.parts[p];
      if (a.end() == b.at && a.policy == b.policy) return false;
    }
    return true;
  };
  // Matrices of a product, and with the sizes of this model of neighbouring ones, too, lie in one stretch.
  const UnitShare whole = shares_of(plain, Strategy(), 0)[1];
  EXPECT_TRUE(is_joined(whole));
  EXPECT_LT(whole.parts.size(), block.tensors.size());
  const Model model = model_of(run_with_groups(folder));
  for (const std::int64_t ranks : {1, 2, 3}) {
    for (std::size_t u = 0; u < model.units.size(); ++u) {
      std::vector<std::size_t> policies(static_cast<std::size_t>(model.units[u].elements),
                                        model.policies.size());
      for (std::int64_t rank = 0; rank < ranks; ++rank) {
        Strategy strategy;
        strategy.mesh.shard = ranks;
        const UnitShare share = shares_of(model, strategy, rank)[u];
        EXPECT_TRUE(is_joined(share));
        for (const UpdatedPart& part : share.parts) {
          for (std::int64_t i = part.at; i < part.end(); ++i)
            policies[static_cast<std::size_t>(share.first + i)] = part.policy;
        }
      }
      for (const TensorSpec& tensor : model.units[u].tensors) {
        for (std::int64_t i = tensor.offset; i < tensor.offset + tensor.elements; ++i)
          ASSERT_EQ(policies[static_cast<std::size_t>(i)], tensor.policy) << tensor.hf_name;
      }
    }
  }
}

struct GroupArithmetic {
  DType precision;
  double clip_norm = 1;
  MasterFormat master = MasterFormat::fp32;
  MomentFormat moments = MomentFormat::fp32;
};

class TensorGroupsOf : public ::testing::TestWithParam<GroupArithmetic> {
 protected:
  RunConfig config() const {
    RunConfig config = run_with_groups(folder_);
    config.train.precision = GetParam().precision;
    config.optimizer.clip_norm = GetParam().clip_norm;
    config.optimizer.master = GetParam().master;
    config.optimizer.moments = GetParam().moments;
    return config;
  }
  TemporaryFolder folder_;
};

TEST_P(TensorGroupsOf, HaveTheSameBitsAtEveryPlacementAndThePlanIsExact) {
  RunConfig config = this->config();
  config.plan.lanes = LaneMode::serial;
  const std::string expected = run(config, {.device_threads = 1}).result.state_hash;
  RunConfig without = config;
  without.optimizer.groups.clear();
  EXPECT_NE(run(without).result.state_hash, expected);
  config.plan.lanes = LaneMode::overlapped;
  for (const Order order : {Order::layer_major, Order::microbatch_major}) {
    config.plan.order = order;
    const Bytes resident = resident_bytes(config), smallest = smallest_bytes(config);
    for (const Bytes budget : {kUnlimited, std::max(resident / 2, smallest), smallest}) {
      config.memory.device = budget;
      const RunOutcome outcome = run(config);
      EXPECT_EQ(outcome.result.state_hash, expected) << "budget " << budget;
      expect_the_plan_was_exact(outcome);
      test::QueuedDevice background({.threads = 2, .link = {}});
      EXPECT_EQ(run(config, {.device = &background}).result.state_hash, expected) << "budget " << budget;
    }
    config.memory.device = kUnlimited;
  }
}

/// A piece begins and ends anywhere in a tensor.
TEST_P(TensorGroupsOf, HaveTheSameBitsInPiecesOfAnySize) {
  if (const std::string reason = test::why_no_drive(folder_.path()); !reason.empty()) GTEST_SKIP() << reason;
  RunConfig config = this->config();
  const std::string expected = run(config).result.state_hash;
  config.memory.device = smallest_bytes(config);
  config.memory.nvme_path = {folder_.path().string()};
  config.memory.optimizer_state = TierChoice::nvme;
  for (const Bytes piece : {4 * KiB, 8 * KiB, 20 * KiB}) {
    config.memory.host = kUnlimited;
    const Bytes smallest = smallest_host_bytes(config, piece);
    for (const Bytes host : {smallest, 4 * smallest}) {
      config.memory.host = host;
      const RunOutcome outcome = run(config, {.piece_bytes = piece});
      EXPECT_EQ(outcome.result.state_hash, expected) << piece << " on " << host;
      EXPECT_GT(outcome.plan.training().moved(Link::nvme_read), 0);
      expect_the_plan_was_exact(outcome);
    }
  }
}

TEST_P(TensorGroupsOf, HaveTheSameBitsInEveryStageOnRanks) {
  RunConfig config = this->config();
  config.train.batch = 8;
  const RunOutcome alone = run(config);
  std::set<std::string> hashes;
  for (const int stage : {0, 1, 2, 3}) {
    config.parallel.zero_stage = stage;
    config.parallel.data = 2;
    for (const Bytes budget : {kUnlimited, smallest_bytes(config)}) {
      config.memory.device = budget;
      for (const RunOutcome& outcome : run_ranks(config, 2)) {
        hashes.insert(outcome.result.state_hash);
        expect_the_plan_was_exact(outcome);
        const double tolerance = GetParam().precision == DType::fp32 ? 1e-4 : 5e-2;
        for (std::size_t s = 0; s < alone.result.steps.size(); ++s)
          EXPECT_NEAR(outcome.result.steps[s].loss, alone.result.steps[s].loss, tolerance);
      }
    }
    config.memory.device = kUnlimited;
  }
  EXPECT_EQ(hashes.size(), 1U);
}

INSTANTIATE_TEST_SUITE_P(Arithmetics, TensorGroupsOf,
                         ::testing::Values(GroupArithmetic{DType::bf16}, GroupArithmetic{DType::fp32, 0},
                                           GroupArithmetic{DType::bf16, 0, MasterFormat::split,
                                                           MomentFormat::coded},
                                           GroupArithmetic{DType::fp16}));

/// Groups are no part of the state.
TEST(TensorGroups, AreNotPartOfACheckpoint) {
  const TemporaryFolder folder;
  RunConfig config = run_with_groups(folder);
  const std::string expected = run(config).result.state_hash;
  config.checkpoint.path = (folder.path() / "out").string();
  config.train.steps = 2;
  run(config);
  RunConfig other = config;
  other.optimizer.groups.clear();
  const std::string left = run(other).result.state_hash;
  EXPECT_EQ(left, run(config).result.state_hash) << "loaded, and no step left";
  config.train.steps = 4;
  EXPECT_EQ(run(config).result.state_hash, expected);
}

TEST(TensorGroups, UpdateWhatIsTrainedBesideFrozenTensors) {
  const TemporaryFolder folder;
  RunConfig config = run_with_groups(folder);
  config.train.freeze = {"*.1.self_attn.q_proj.*", "*.down_proj.*", "*.2.input_layernorm.*"};
  expect_each_tensor_as_alone(config, {"model.layers.1.self_attn.k_proj.weight"});
}

}  // namespace
}  // namespace strata
