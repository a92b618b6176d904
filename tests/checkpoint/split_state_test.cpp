// Checkpoints of ranks that have stretches of tensors' rows and columns, as tensor parallelism cuts them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/model/build_model.h"
#include "engine/model/split_model.h"
#include "engine/run/checkpoint/checkpoint.h"
#include "engine/run/checkpoint/stored_state.h"
#include "tests/base/temporary_folder.h"
#include "tests/checkpoint/ranks.h"
#include "tests/support/initial_unit.h"

namespace strata::test {
namespace {

using ::testing::ElementsAre;

/// A model, and how many ranks share each unit.
struct SplitModel {
  const char* architecture;
  int tensor = 2;
};

Model whole_model(const std::string& architecture) {
  if (architecture == "gpt2") return tiny_gpt2();
  return build_model(parse_architecture({{"model_type", architecture},
                                         {"num_hidden_layers", 2},
                                         {"hidden_size", 8},
                                         {"num_attention_heads", 4},
                                         {"num_key_value_heads", 2},
                                         {"intermediate_size", 8},
                                         {"vocab_size", 7},
                                         {"pad_token_id", nullptr},
                                         {"tie_word_embeddings", false}},
                                        "test"));
}

/// What a rank has of a state.
State part_of_state(State& state, const Model& whole, const Model& part) {
  State result(part, 0);
  for (std::size_t u = 0; u < whole.units.size(); ++u) {
    for (const TensorSpec& own : part.units[u].tensors) {
      const TensorSpec& all = *std::ranges::find(whole.units[u].tensors, own.hf_name, &TensorSpec::hf_name);
      const FlatRange range = {own.offset, own.elements, own.flat};
      for (const StateKey key : keys_of(part, own.flat)) {
        for (const TensorRun& run : runs_in(part.units[u], range)) {
          for (std::int64_t i = 0; i < run.count(); ++i)
            result.flat(u, key)[static_cast<std::size_t>(own.offset + run.at + i)] =
                state.flat(u, key)[static_cast<std::size_t>(all.offset + run.first + i)];
        }
      }
    }
  }
  return result;
}

class SplitState : public testing::TestWithParam<SplitModel> {
 protected:
  const std::filesystem::path& path() const { return folder_.path(); }
  static Progress progress() {
    return {.counters = {.step = 1}, .loss_scale = {}, .sampler = {{"position", 1}}};
  }
  static int tensor() { return GetParam().tensor; }
  /// `ranks` ranks: each tensor() neighbours share passes, and the others have other shards.
  template <typename Do>
  void on_ranks(int ranks, const Do& act) {
    run_ranks(ranks, [&](Communicator& each) {
      const Model model = split_model(model_, tensor_split(tensor(), each.rank() % tensor()));
      State state = part_of_state(state_, model_, model);
      act(each, model, state, each.rank() / tensor(), ranks / tensor());
    });
  }

  TemporaryFolder folder_;
  Model model_ = whole_model(GetParam().architecture);
  State state_{model_, 1};
};

// Invariant (SplitState.*): Tensor-parallel layers are one run.
TEST_P(SplitState, IsSavedOnceAndLoadedByAnyRanks) {
  for (const int writers : {tensor(), 2 * tensor(), 3 * tensor()}) {
    on_ranks(writers, [&](Communicator& each, const Model& model, State& state, int shard, int shards) {
      const StateAccess access = access_of_rank(state, model, shard, shards);
      CheckpointStore(path(), 9, quick(), &each).save(model, progress(), access);
      EXPECT_EQ(state_hash(model, access, &each), state_hash(model_, state_.access()));
    });
    State loaded(model_, 0);
    ASSERT_TRUE(CheckpointStore(path(), 9, quick()).load_newest(model_, loaded.access()));
    EXPECT_EQ(loaded, state_) << writers << " writers";
    on_ranks(2 * tensor(), [&](Communicator& each, const Model& model, State& state, int shard, int shards) {
      State found(model, 0);
      const StateAccess access = access_of_rank(found, model, shard, shards);
      ASSERT_TRUE(CheckpointStore(path(), 9, quick(), &each).load_newest(model, access));
      for (std::size_t u = 0; u < model.units.size(); ++u) {
        const FlatRange range = access.saved(u, Flat::trained);
        EXPECT_TRUE(std::ranges::equal(part_of(found.flat(u), range), part_of(state.flat(u), range)));
      }
    });
  }
}

TEST_P(SplitState, OfOneRankIsReadByRanksThatShareUnits) {
  CheckpointStore(path(), 9, quick()).save(model_, progress(), state_.access());
  on_ranks(tensor(), [&](Communicator& each, const Model& model, State& state, int, int) {
    State found(model, 0);
    ASSERT_TRUE(CheckpointStore(path(), 9, quick(), &each).load_newest(model, found.access()));
    EXPECT_EQ(found, state);
  });
}

TEST_P(SplitState, BeginsWithTheSameWeights) {
  State whole(model_, 0);
  for (std::size_t u = 0; u < model_.units.size(); ++u)
    test::initialize_unit(model_.architecture, model_.units[u], 7, strata::whole(model_.units[u]),
                          whole.flat(u));
  on_ranks(tensor(), [&](Communicator&, const Model& model, State&, int, int) {
    State expected = part_of_state(whole, model_, model), found(model, 0);
    for (std::size_t u = 0; u < model.units.size(); ++u) {
      test::initialize_unit(model.architecture, model.units[u], 7, strata::whole(model.units[u]),
                            found.flat(u));
      EXPECT_TRUE(std::ranges::equal(found.flat(u), expected.flat(u))) << model.units[u].name;
    }
  });
}

// phi3's projections are fused; of llama two ranks each have the same head of keys; no vocabulary divides.
INSTANTIATE_TEST_SUITE_P(Models, SplitState,
                         testing::Values(SplitModel{"gpt2"}, SplitModel{"phi3"}, SplitModel{"llama", 4}),
                         [](const auto& info) { return std::string(info.param.architecture); });

TEST(StoredTensors, OfColumnsAreOneForAllRows) {
  Unit unit;
  TensorSpec tensor;
  tensor.hf_name = "w";
  tensor.hf_shape = {4, 6};
  tensor.rows = {{0, 4}};
  tensor.columns = {{2, 3}};
  tensor.elements = 12;
  unit.tensors.push_back(tensor);
  unit.elements = 256;
  const auto names = [&](FlatRange range) {
    std::vector<std::string> found;
    for (const TensorToWrite& stored : stored_tensors(Model(), unit, StateKey::master, range))
      found.push_back(stored.name);
    return found;
  };
  EXPECT_THAT(names({0, 12}), ElementsAre("w[2:5+6*4]"));
  EXPECT_THAT(names({1, 8}), ElementsAre("w[3:5]", "w[8:11+6*2]"));
  EXPECT_THAT(names({4, 1}), ElementsAre("w[9:10]"));
  unit.tensors.front().is_copy = true;
  EXPECT_THAT(names({0, 12}), ElementsAre());
}

}  // namespace
}  // namespace strata::test
