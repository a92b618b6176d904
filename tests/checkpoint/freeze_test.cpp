// Checkpoints of models with some frozen tensors: these stand once, in files of their own.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>

#include "engine/model/build_model.h"
#include "engine/run/checkpoint/checkpoint.h"
#include "tests/base/expect_error.h"
#include "tests/base/temporary_folder.h"
#include "tests/checkpoint/ranks.h"

namespace strata {
namespace {

using test::access_of_rank;
using test::expect_error;
using test::FaultyFileSystem;
using test::names_in;
using test::quick;
using test::State;
using test::TemporaryFolder;

Progress at_step(std::int64_t step) {
  Progress progress;
  progress.counters.step = step;
  return progress;
}

class FrozenCheckpoint : public ::testing::Test {
 protected:
  static Model model(const std::vector<std::string>& freeze) {
    return build_model(test::tiny_llama().architecture, {.freeze = freeze});
  }
  void save(const Model& model, State& state) {
    CheckpointStore(folder_.path(), 2, quick()).save(model, at_step(1), state.access());
  }
  std::optional<LoadedCheckpoint> load(const Model& model, State& state) {
    return CheckpointStore(folder_.path(), 2, quick()).load_newest(model, state.access());
  }

  TemporaryFolder folder_;
  Model model_ = model({"*.mlp.*", "model.embed_tokens.*", "*.q_proj.*"});
  State state_{model_, 1};
};

TEST_F(FrozenCheckpoint, HasEachTensorWhereItBelongsAndGivesItBack) {
  save(model_, state_);
  const auto folder = folder_.path() / "step-00000001";
  EXPECT_EQ(names_in(folder),
            (std::set<std::string>{"exp_avg.safetensors", "exp_avg_sq.safetensors", "frozen.safetensors",
                                   "manifest.json", "master.safetensors"}));
  for (const Unit& unit : model_.units) {
    for (const TensorSpec& tensor : unit.tensors) {
      for (const StateKey key : keys_of(model_)) {
        const SafetensorsReader file(folder / (std::string(name_of(key)) + ".safetensors"));
        EXPECT_EQ(file.tensors().contains(tensor.hf_name), tensor.flat == flat_of(key)) << tensor.hf_name;
      }
    }
  }
  State loaded(model_, 0);
  loaded.fill(7);
  ASSERT_TRUE(load(model_, loaded));
  EXPECT_EQ(loaded, state_);
  EXPECT_EQ(state_hash(model_, loaded.access()), state_hash(model_, state_.access()));
}

TEST_F(FrozenCheckpoint, IsOfVersion4AndOthersAreNot) {
  const auto text = [&] { return read_file(folder_.path() / "step-00000001" / "manifest.json"); };
  save(model_, state_);
  EXPECT_THAT(text(), ::testing::HasSubstr("\"version\": 4"));
  std::filesystem::remove_all(folder_.path() / "step-00000001");
  const Model whole = model({});
  State all(whole, 1);
  save(whole, all);
  EXPECT_THAT(text(), ::testing::HasSubstr("\"version\": 3"));
  EXPECT_THAT(text(), ::testing::Not(::testing::HasSubstr("freeze")));
}

TEST_F(FrozenCheckpoint, BelongsToRunsThatFreezeTheSame) {
  save(model_, state_);
  const Model other = model({"*.mlp.*"});
  State loaded(other, 0);
  expect_error<ConfigError>([&] { load(other, loaded); },
                            {"another train.freeze", "model.embed_tokens.weight was frozen", "--fresh"});
  const Model same = model({"*.mlp.*_proj.*", "*embed*", "*.self_attn.q_proj.weight"});
  State again(same, 0);
  ASSERT_TRUE(load(same, again));
  EXPECT_EQ(again, state_);
}

TEST_F(FrozenCheckpoint, HashCountsWhatIsFrozen) {
  State changed = state_;
  changed.flat(0, StateKey::frozen)[3] += 1;
  EXPECT_NE(state_hash(model_, changed.access()), state_hash(model_, state_.access()));
}

TEST_F(FrozenCheckpoint, GoesFromAnyNumberOfRanksToAnyOther) {
  for (const int ranks : {1, 2, 3}) {
    test::run_ranks(ranks, [&](Communicator& world) {
      FaultyFileSystem files;
      CheckpointStore store(folder_.path(), 2, files, &world);
      store.save(model_, at_step(ranks), access_of_rank(state_, model_, world.rank(), ranks));
      EXPECT_EQ(state_hash(model_, access_of_rank(state_, model_, world.rank(), ranks), &world),
                state_hash(model_, state_.access()));
    });
    for (const int others : {1, 2}) {
      test::run_ranks(others, [&](Communicator& world) {
        FaultyFileSystem files;
        State loaded(model_, 0);
        CheckpointStore store(folder_.path(), 2, files, &world);
        const StateAccess access = access_of_rank(loaded, model_, world.rank(), others);
        ASSERT_TRUE(store.load_newest(model_, access));
        for (std::size_t unit = 0; unit < model_.units.size(); ++unit) {
          const FlatRange range = access.loaded(unit, StateKey::frozen);
          EXPECT_TRUE(std::ranges::equal(test::part_of(loaded.flat(unit, StateKey::frozen), range),
                                         test::part_of(state_.flat(unit, StateKey::frozen), range)));
        }
      });
    }
  }
}

TEST_F(FrozenCheckpoint, DamagedInAFrozenTensorIsFound) {
  save(model_, state_);
  test::flip_bit(folder_.path() / "step-00000001" / "frozen.safetensors", 400);
  State loaded(model_, 0);
  expect_error<ConfigError>([&] { load(model_, loaded); }, {"frozen.safetensors"});
}

}  // namespace
}  // namespace strata
