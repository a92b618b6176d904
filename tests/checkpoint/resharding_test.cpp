// Checkpoints that any number of ranks write, and any other number reads.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "collectives/launcher.h"
#include "engine/run/checkpoint/checkpoint.h"
#include "engine/run/checkpoint/hf_folder.h"
#include "engine/run/checkpoint/safetensors.h"
#include "tests/base/expect_error.h"
#include "tests/base/temporary_folder.h"
#include "tests/checkpoint/ranks.h"

namespace strata {
namespace {

namespace fs = std::filesystem;
using test::access_of_rank;
using test::access_to_load;
using test::errors_of_ranks;
using test::FaultyFileSystem;
using test::names_in;
using test::progress_at;
using test::quick;
using test::run_ranks;
using test::shard;
using test::State;
using test::TemporaryFolder;
using ::testing::AllOf;
using ::testing::Each;
using ::testing::HasSubstr;

constexpr std::array kRanks = {1, 2, 3, 4, 8};

class Resharding : public ::testing::Test {
 protected:
  const fs::path& path() const { return folder_.path(); }

  StateAccess access(State& state, const Communicator& ranks) const {
    return access_of_rank(state, model_, ranks.rank(), ranks.size());
  }
  /// One rank's part of saving; on the `failing` one with that file system.
  void save_as(Communicator& ranks, State& state, std::int64_t step, FileSystem* failing = nullptr) const {
    FaultyFileSystem files;
    CheckpointStore(path(), 2, failing == nullptr ? files : *failing, &ranks)
        .save(model_, progress_at(step), access(state, ranks));
  }
  void save(int ranks, State& state, std::int64_t step) {
    run_ranks(ranks, [&](Communicator& each) { save_as(each, state, step); });
  }
  /// The state that `ranks` load together, each its shard, with what they say of it.
  State load(int ranks, std::optional<LoadedCheckpoint>* found = nullptr) {
    State loaded(model_, 0);
    loaded.fill(-7);
    std::vector<std::optional<LoadedCheckpoint>> results(static_cast<std::size_t>(ranks));
    run_ranks(ranks, [&](Communicator& each) {
      FaultyFileSystem files;
      results[static_cast<std::size_t>(each.rank())] =
          CheckpointStore(path(), 2, files, &each).load_newest(model_, access(loaded, each));
    });
    for (const auto& result : results) {
      EXPECT_TRUE(result);
      if (!result || !results[0]) continue;
      EXPECT_EQ(result->folder, results[0]->folder);
      EXPECT_EQ(result->progress, results[0]->progress);
      EXPECT_EQ(result->warnings, results[0]->warnings);
    }
    if (found != nullptr) *found = results[0];
    return loaded;
  }

  TemporaryFolder folder_;
  Model model_ = test::tiny_llama();
  State first_{model_, 1};
  State second_{model_, 5000};
};

// Invariant of state and checkpoints (Resharding*.*): A checkpoint does not depend on its writers. Any number
// of ranks reads what any other number saved, bit for bit, and exports the same folder. A failure on one rank
// is a failure on all.
TEST_F(Resharding, EveryValueArrivesHoweverManyRanksSaveAndLoad) {
  for (const int writers : kRanks) {
    save(writers, first_, writers);
    for (const int readers : kRanks) {
      std::optional<LoadedCheckpoint> found;
      EXPECT_EQ(load(readers, &found), first_) << writers << " writers, " << readers << " readers";
      ASSERT_TRUE(found);
      EXPECT_EQ(found->progress, progress_at(writers));
      EXPECT_TRUE(found->warnings.empty());
    }
  }
}

TEST_F(Resharding, ARankMayWantMoreThanItSaves) {
  save(3, first_, 1);
  for (const int readers : {1, 2, 4}) {
    run_ranks(readers, [&](Communicator& ranks) {
      FaultyFileSystem files;
      State loaded(model_, 0);
      loaded.fill(0);
      const auto wanted = [&](std::size_t unit, StateKey key) {
        return key == StateKey::master ? whole(model_.units[unit]) : FlatRange{};
      };
      CheckpointStore(path(), 2, files, &ranks).load_newest(model_, access_to_load(loaded, wanted));
      for (std::size_t unit = 0; unit < model_.units.size(); ++unit) {
        EXPECT_TRUE(std::ranges::equal(loaded.flat(unit), first_.flat(unit)));
        EXPECT_THAT(loaded.flat(unit, key_of(Moment::exp_avg)), Each(0.0F));
      }
    });
  }
}

TEST_F(Resharding, ReplicasSaveNothingAndLoadTheSame) {
  run_ranks(4, [&](Communicator& ranks) {
    FaultyFileSystem files;
    StateAccess half = access_of_rank(first_, model_, ranks.rank() % 2, 2);
    if (ranks.rank() >= 2) half.saved = [](std::size_t, Flat) { return FlatRange{}; };
    CheckpointStore store(path(), 2, files, &ranks);
    store.save(model_, progress_at(1), half);
    EXPECT_EQ(state_hash(model_, half, &ranks), state_hash(model_, first_.access()));
    State loaded(model_, 0);
    ASSERT_TRUE(store.load_newest(model_, access_of_rank(loaded, model_, ranks.rank() % 2, 2)));
    for (std::size_t unit = 0; unit < model_.units.size(); ++unit) {
      const FlatRange range = half.loaded(unit, StateKey::master);
      EXPECT_TRUE(std::ranges::equal(test::part_of(loaded.flat(unit), range),
                                     test::part_of(first_.flat(unit), range)));
    }
  });
}

TEST_F(Resharding, FilesSayWhoseTheyAreAndWhichPartOfATensorTheyHave) {
  save(4, first_, 1);
  const fs::path folder = path() / "step-00000001";
  std::set<std::string> expected = {"manifest.json"};
  for (const char* key : {"master", "exp_avg", "exp_avg_sq"}) {
    for (const char* rank : {"1", "2", "3", "4"})
      expected.insert(std::string(key) + "-0000" + rank + "-of-00004.safetensors");
  }
  EXPECT_EQ(names_in(folder), expected);

  // The embedding is 5 × 8 in a unit of 256 elements, so all of it is in the first of four shards; the
  // block's tensors lie across them.
  const SafetensorsReader first(folder / "master-00001-of-00004.safetensors");
  EXPECT_EQ(first.at("model.embed_tokens.weight").shape, (std::vector<std::int64_t>{5, 8}));
  std::int64_t parts = 0;
  for (int rank = 0; rank < 4; ++rank) {
    const SafetensorsReader file(folder /
                                 ("master-0000" + std::to_string(rank + 1) + "-of-00004.safetensors"));
    for (const TensorPiece& piece : pieces_in(model_.units[1], shard(model_.units[1], rank, 4))) {
      if (piece.count() == piece.tensor->elements) continue;
      ++parts;
      const std::string name =
          piece.tensor->hf_name + "[" + std::to_string(piece.first) + ":" + std::to_string(piece.last) + "]";
      ASSERT_EQ(file.at(name).shape, (std::vector<std::int64_t>{piece.count()}));
      std::vector<float> values(1);
      file.read(name, 0, values);
      EXPECT_EQ(values[0], first_.flat(1)[static_cast<std::size_t>(piece.tensor->offset + piece.first)]);
    }
  }
  EXPECT_GT(parts, 1);
}

TEST_F(Resharding, TheExportedFolderIsTheSameWhoeverSaved) {
  std::map<std::string, std::string> expected;
  for (const int writers : kRanks) {
    save(writers, first_, writers);
    State loaded(model_, 0);
    ASSERT_TRUE(CheckpointStore(path(), 2, quick()).load_newest(model_, loaded.access()));
    const TemporaryFolder exports;
    save_hf_folder(exports / "model", model_, test::read_from(loaded),
                   {.config = to_hf_config(model_.architecture), .shard_bytes = 1000}, quick());
    std::map<std::string, std::string> files;
    for (const std::string& name : names_in(exports / "model"))
      files[name] = read_file(exports / "model" / name);
    if (expected.empty()) expected = files;
    EXPECT_EQ(files, expected) << writers;
  }
  EXPECT_GT(expected.size(), 3U);
}

TEST_F(Resharding, TheStatesHashIsThatOfOneRank) {
  const std::string expected = state_hash(model_, first_.access());
  for (const int ranks : kRanks) {
    run_ranks(ranks, [&](Communicator& each) {
      EXPECT_EQ(state_hash(model_, access(first_, each), &each), expected);
      EXPECT_NE(state_hash(model_, access(second_, each), &each), expected);
    });
  }
}

TEST_F(Resharding, WhatFailsOnOneRankFailsOnAllAndLeavesTheCheckpointBefore) {
  save(3, first_, 1);
  for (int failing = 0; failing < 3; ++failing) {
    FaultyFileSystem counting;
    run_ranks(3, [&](Communicator& ranks) {
      save_as(ranks, second_, 2, ranks.rank() == failing ? &counting : nullptr);
    });
    fs::remove_all(path() / "step-00000002");
    // The last operation of rank 0, the sync of the folder after the rename, comes when it is too late.
    const int last = counting.operations() - (failing == 0 ? 1 : 0);
    EXPECT_GT(last, 12);
    for (int fail_at = 0; fail_at < last; ++fail_at) {
      FaultyFileSystem faulty(fail_at);
      const auto errors = errors_of_ranks<IoError>(3, [&](Communicator& ranks) {
        save_as(ranks, second_, 2, ranks.rank() == failing ? &faulty : nullptr);
      });
      EXPECT_THAT(errors,
                  Each(AllOf(HasSubstr("the checkpoint of step 2 was not saved"),
                             HasSubstr((path() / "step-00000001").string() + " before it is untouched"),
                             HasSubstr(name_as_rank(failing) + ": cannot "), HasSubstr("injected failure"))));
      ASSERT_EQ(names_in(path()), (std::set<std::string>{"step-00000001"})) << failing << ", " << fail_at;
    }
    EXPECT_EQ(load(2), first_);
  }
}

TEST_F(Resharding, AnErrorOfOneRanksStateIsThatOfAll) {
  const auto errors = errors_of_ranks<Error>(2, [&](Communicator& ranks) {
    FaultyFileSystem files;
    StateAccess state = access(first_, ranks);
    if (ranks.rank() == 1) {
      state.read = [](std::size_t, StateKey) -> std::span<const float> { throw DeviceError("no device"); };
    }
    CheckpointStore(path(), 2, files, &ranks).save(model_, progress_at(1), state);
  });
  EXPECT_THAT(errors, Each(name_as_rank(1) + ": no device"));
  EXPECT_TRUE(fs::is_empty(path()));
}

TEST_F(Resharding, ARankThatGivesUpLeavesNoneWaiting) {
  const auto errors = errors_of_ranks<CommError>(3, [&](Communicator& ranks) {
    FaultyFileSystem files;
    CheckpointStore store(path(), 2, files, &ranks);
    SaveOrder units;
    for (std::size_t unit = 0; unit < model_.units.size(); ++unit)
      units[StateKey::master].push_back({unit, {}});
    std::unique_ptr<CheckpointWriter> writer = store.begin(model_, 1, units);
    if (ranks.rank() == 2) {
      writer.reset();
      throw CommError("this rank's run has failed: gave up the checkpoint");
    }
    writer->finish(progress_at(1));
  });
  EXPECT_THAT(errors, Each(HasSubstr("gave up the checkpoint")));
  // Ranks that give up do not wait for one another: one may still make its files while another removes the
  // folder.
  CheckpointStore(path(), 2).remove_leftovers();
  EXPECT_TRUE(fs::is_empty(path()));
}

class ReshardingCrash : public Resharding,
                        public ::testing::WithParamInterface<std::tuple<test::Fault, int>> {};

TEST_P(ReshardingCrash, WhereverARankDiesTheNewestReportedSavedIsLoadedBitForBit) {
  const auto [fault, failing] = GetParam();
  const auto is_saved = [](const std::exception_ptr& outcome) { return !outcome; };
  bool saved = false;
  int seen_first = 0;
  for (int fail_at = 0; !saved; fail_at += 3) {
    for (const std::string& name : names_in(path())) fs::remove_all(path() / name);
    save(2, first_, 1);
    std::deque<FaultyFileSystem> files;
    for (int rank = 0; rank < 3; ++rank)
      files.emplace_back(rank == failing ? fail_at : FaultyFileSystem::kNever, fault);
    const auto outcomes = test::outcomes_of_ranks(3, [&](Communicator& ranks) {
      CheckpointStore(path(), 1, files[static_cast<std::size_t>(ranks.rank())], &ranks)
          .save(model_, progress_at(2), access(second_, ranks));
    });
    saved = std::ranges::all_of(outcomes, is_saved);
    EXPECT_TRUE(saved || std::ranges::none_of(outcomes, is_saved));
    if (fault == test::Fault::power_loss) {
      for (FaultyFileSystem& each : files) each.lose_unsynced();
    }
    run_ranks(2,
              [&](Communicator& ranks) { CheckpointStore(path(), 1, quick(), &ranks).remove_leftovers(); });
    for (const std::string& name : names_in(path())) EXPECT_FALSE(name.ends_with(".tmp")) << name;
    std::optional<LoadedCheckpoint> found;
    const State loaded = load(4, &found);
    ASSERT_TRUE(found);
    EXPECT_TRUE(found->warnings.empty());
    const bool is_second = found->progress.counters.step == 2;
    EXPECT_EQ(loaded, is_second ? second_ : first_) << fail_at;
    EXPECT_TRUE(is_second || !saved);
    if (!is_second) ++seen_first;
  }
  EXPECT_GT(seen_first, 5);
}

INSTANTIATE_TEST_SUITE_P(All, ReshardingCrash,
                         ::testing::Combine(::testing::Values(test::Fault::kill, test::Fault::power_loss),
                                            ::testing::Values(0, 1, 2)));

TEST_F(Resharding, ADamagedFileOfAnyRankIsNamedAndAllUseTheOneBefore) {
  save(2, first_, 1);
  save(3, second_, 2);
  const fs::path folder = path() / "step-00000002";
  const auto refused = [&](const fs::path& file, const std::string& reason) {
    for (const int readers : {1, 2, 4}) {
      std::optional<LoadedCheckpoint> found;
      EXPECT_EQ(load(readers, &found), first_);
      ASSERT_TRUE(found);
      EXPECT_EQ(found->progress.counters.step, 1);
      ASSERT_EQ(found->warnings.size(), 1U);
      EXPECT_THAT(found->warnings[0], AllOf(HasSubstr(file.string()), HasSubstr(reason)));
    }
  };
  for (const std::string& name : names_in(folder)) {
    const fs::path file = folder / name;
    const std::string content = read_file(file);
    const bool is_manifest = name == "manifest.json";
    test::flip_bit(file, content.size() - 3);
    refused(file, is_manifest ? "damaged" : "checksum");
    test::flip_bit(file, content.size() - 3);
    test::flip_bit(file, 20);
    refused(file, is_manifest ? "damaged" : "checksum");
    fs::resize_file(file, content.size() / 2);
    refused(file, is_manifest ? "damaged" : "bytes, it was saved with");
    fs::remove(file);
    refused(file, "missing");
    write_file(quick(), file, content);
  }
  EXPECT_EQ(load(2), second_);
}

TEST_F(Resharding, WhereAllAreDamagedNoRankStartsAnew) {
  save(2, first_, 1);
  test::flip_bit(path() / "step-00000001" / "exp_avg-00002-of-00002.safetensors", 900);
  EXPECT_THAT(errors_of_ranks<ConfigError>(
                  3,
                  [&](Communicator& ranks) {
                    State state(model_, 0);
                    CheckpointStore(path(), 2, quick(), &ranks).load_newest(model_, access(state, ranks));
                  }),
              Each(AllOf(HasSubstr("no checkpoint in"), HasSubstr("exp_avg-00002-of-00002.safetensors"))));
}

TEST_F(Resharding, PartsThatOverlapOrLackSomethingAreRefused) {
  const auto save_ranges = [&](std::int64_t step, const std::vector<FlatRange>& of_block) {
    run_ranks(static_cast<int>(of_block.size()), [&](Communicator& ranks) {
      FaultyFileSystem files;
      StateAccess state = access(first_, ranks);
      const auto saved = [&](std::size_t unit, Flat = Flat::trained) {
        return unit == 1 ? of_block[static_cast<std::size_t>(ranks.rank())]
                         : shard(model_.units[unit], ranks.rank(), ranks.size());
      };
      state.saved = saved;
      state.read = [&](std::size_t unit, StateKey key) {
        return test::part_of(first_.flat(unit, key), saved(unit));
      };
      CheckpointStore(path(), 9, files, &ranks).save(model_, progress_at(step), state);
    });
  };
  const std::int64_t end = model_.units[1].elements;
  save_ranges(1, {{0, 200}, {200, end - 200}});
  EXPECT_EQ(load(2), first_);
  save_ranges(2, {{0, 200}, {190, end - 190}});
  save_ranges(3, {{0, 200}, {210, end - 210}});
  std::optional<LoadedCheckpoint> found;
  EXPECT_EQ(load(3, &found), first_);
  ASSERT_EQ(found->warnings.size(), 2U);
  EXPECT_THAT(found->warnings[0], AllOf(HasSubstr("step-00000003"), HasSubstr("lacks element")));
  EXPECT_THAT(found->warnings[1],
              AllOf(HasSubstr("master-00002-of-00002.safetensors"), HasSubstr("are in another file too")));
}

TEST_F(Resharding, AFolderThatOtherRanksDoNotSeeIsOneSentence) {
  const TemporaryFolder elsewhere;
  const auto path_of = [&](const Communicator& ranks) {
    return ranks.rank() == 2 ? elsewhere.path() : path();
  };
  const auto says_so = AllOf(HasSubstr(name_as_rank(2)), HasSubstr(elsewhere.path().string()),
                             HasSubstr("checkpoint.path must be a folder that all ranks share"));
  EXPECT_THAT(errors_of_ranks<ConfigError>(3,
                                           [&](Communicator& ranks) {
                                             FaultyFileSystem files;
                                             check_checkpoint_writable(path_of(ranks), files, &ranks);
                                           }),
              Each(says_so));
  EXPECT_TRUE(fs::is_empty(path()));
  EXPECT_THAT(errors_of_ranks<IoError>(3,
                                       [&](Communicator& ranks) {
                                         FaultyFileSystem files;
                                         CheckpointStore(path_of(ranks), 2, files, &ranks)
                                             .save(model_, progress_at(1), access(first_, ranks));
                                       }),
              Each(says_so));
  EXPECT_TRUE(fs::is_empty(path()));
  save(3, first_, 1);
  EXPECT_THAT(
      errors_of_ranks<ConfigError>(
          3,
          [&](Communicator& ranks) {
            FaultyFileSystem files;
            State state(model_, 0);
            CheckpointStore(path_of(ranks), 2, files, &ranks).load_newest(model_, access(state, ranks));
          }),
      Each(says_so));
}

TEST_F(Resharding, WhetherItCanBeWrittenIsTriedByEveryRank) {
  run_ranks(3, [&](Communicator& ranks) {
    FaultyFileSystem files;
    check_checkpoint_writable(path() / "a" / "b", files, &ranks);
  });
  EXPECT_TRUE(fs::is_empty(path() / "a" / "b"));
  EXPECT_THAT(
      errors_of_ranks<ConfigError>(3,
                                   [&](Communicator& ranks) {
                                     FaultyFileSystem files(ranks.rank() == 1 ? 1 : FaultyFileSystem::kNever);
                                     check_checkpoint_writable(path(), files, &ranks);
                                   }),
      Each(AllOf(HasSubstr(name_as_rank(1)), HasSubstr("is not writable"))));
  EXPECT_EQ(names_in(path()), (std::set<std::string>{"a"}));
}

}  // namespace
}  // namespace strata
