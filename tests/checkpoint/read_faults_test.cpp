// What cannot be read just now is not damaged: whichever single operation fails, and however, no checkpoint
// is skipped, removed or renamed for it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <cstring>
#include <set>

#include "engine/run/checkpoint/checkpoint.h"
#include "engine/run/checkpoint/checkpoint_space.h"
#include "tests/base/expect_error.h"
#include "tests/base/temporary_folder.h"
#include "tests/base/unreadable_file_system.h"
#include "tests/checkpoint/ranks.h"

namespace strata {
namespace {

namespace fs = std::filesystem;
using test::access_of_rank;
using test::expect_error;
using test::FaultyFileSystem;
using test::flip_bit;
using test::names_in;
using test::progress_at;
using test::quick;
using test::State;
using test::TemporaryFolder;
using test::UnreadableFileSystem;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Lasts = UnreadableFileSystem::Lasts;
using Names = std::set<std::string>;

class ReadFaults : public ::testing::Test {
 protected:
  const fs::path& path() const { return folder_.path(); }
  void save(State& state, std::int64_t step, FileSystem& files = quick()) {
    CheckpointStore(path(), 2, files).save(model_, progress_at(step), state.access());
  }
  /// The two checkpoints that every case begins with.
  void begin_with_two() {
    for (const std::string& name : names_in(path())) fs::remove_all(path() / name);
    save(first_, 1);
    save(second_, 2);
  }
  /// What a run does with its checkpoints from its start to its end; at which step it went on.
  std::int64_t run(FileSystem& files, Communicator* ranks = nullptr) {
    const int rank = ranks == nullptr ? 0 : ranks->rank();
    const int size = ranks == nullptr ? 1 : ranks->size();
    State loaded(model_, 0);
    CheckpointStore store(path(), 2, files, ranks);
    store.remove_leftovers();
    const StateAccess access = access_of_rank(loaded, model_, rank, size);
    const std::int64_t step = store.load_newest(model_, access)->progress.counters.step;
    store.set_aside_damaged();
    store.space_needed(model_, access, 1);
    store.save(model_, progress_at(step + 1), access);
    return step;
  }

  TemporaryFolder folder_;
  Model model_ = test::tiny_llama();
  State first_{model_, 1};
  State second_{model_, 5000};
};

class ReadFaultsLongTest : public ReadFaults, public ::testing::WithParamInterface<std::tuple<int, Lasts>> {};

// Invariant of state and checkpoints (ReadFaultsLongTest.*): An unreadable checkpoint is not a damaged one.
// Whichever single read fails, no checkpoint is skipped, renamed or removed for it.
TEST_P(ReadFaultsLongTest, AnyOperationNeitherSkipNorRemoveACheckpoint) {
  const auto [error, lasts] = GetParam();
  begin_with_two();
  UnreadableFileSystem counting;
  run(counting);
  ASSERT_GT(counting.reads(), 20);
  for (int fail_at = 0; fail_at < counting.reads(); ++fail_at) {
    begin_with_two();
    UnreadableFileSystem files(fail_at, error, lasts);
    try {
      EXPECT_EQ(run(files), 2) << fail_at;
    } catch (const IoError& failure) {
      EXPECT_THAT(failure.what(), HasSubstr(std::strerror(error)));
      EXPECT_EQ(names_in(path()), (Names{"step-00000001", "step-00000002"})) << fail_at;
    }
    EXPECT_TRUE(names_in(path()).contains("step-00000002")) << fail_at;
    for (const std::string& name : names_in(path())) EXPECT_THAT(name, ::testing::Not(HasSubstr("damaged")));
    EXPECT_GE(run(quick()), 2) << fail_at;
  }
}

TEST_P(ReadFaultsLongTest, OneRankEndTheRunOfAll) {
  const auto [error, lasts] = GetParam();
  for (int failing = 0; failing < 3; ++failing) {
    begin_with_two();
    UnreadableFileSystem counting;
    test::run_ranks(3, [&](Communicator& ranks) {
      FaultyFileSystem others;
      run(ranks.rank() == failing ? static_cast<FileSystem&>(counting) : others, &ranks);
    });
    for (int fail_at = 0; fail_at < counting.reads(); fail_at += 3) {
      begin_with_two();
      UnreadableFileSystem files(fail_at, error, lasts);
      const auto outcomes = test::outcomes_of_ranks(3, [&](Communicator& ranks) {
        FaultyFileSystem others;
        EXPECT_EQ(run(ranks.rank() == failing ? static_cast<FileSystem&>(files) : others, &ranks), 2);
      });
      const bool saved = !outcomes[0];
      for (const std::exception_ptr& outcome : outcomes) EXPECT_EQ(!outcome, saved);
      Names names = names_in(path());
      if (saved) names.erase("step-00000001");  // it stays if the failure hits its removal
      EXPECT_EQ(names,
                saved ? (Names{"step-00000002", "step-00000003"}) : (Names{"step-00000001", "step-00000002"}))
          << failing << ", " << fail_at;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(, ReadFaultsLongTest,
                         ::testing::Combine(::testing::Values(EACCES, EIO, ESTALE, EMFILE),
                                            ::testing::Values(Lasts::once, Lasts::for_ever)),
                         [](const auto& info) {
                           return std::string(strerrorname_np(std::get<int>(info.param))) +
                                  (std::get<Lasts>(info.param) == Lasts::once ? "_once" : "_for_ever");
                         });

TEST_F(ReadFaults, AFileThatOnlyAnotherRankDoesNotSeeIsNotMissing) {
  begin_with_two();
  UnreadableFileSystem counting;
  const auto load = [&](Communicator& ranks, FileSystem& files) {
    State state(model_, 0);
    CheckpointStore(path(), 2, files, &ranks)
        .load_newest(model_, access_of_rank(state, model_, ranks.rank(), ranks.size()));
  };
  test::run_ranks(2, [&](Communicator& ranks) {
    FaultyFileSystem others;
    load(ranks, ranks.rank() == 1 ? static_cast<FileSystem&>(counting) : others);
  });
  ASSERT_GT(counting.reads(), 5);
  // Its first operations look at the folders of both checkpoints.
  for (int fail_at = 2; fail_at < counting.reads(); ++fail_at) {
    UnreadableFileSystem files(fail_at, ENOENT);
    EXPECT_THAT(test::errors_of_ranks<IoError>(2,
                                               [&](Communicator& ranks) {
                                                 FaultyFileSystem others;
                                                 load(ranks, ranks.rank() == 1 ? files : others);
                                               }),
                Each(HasSubstr("No such file or directory")));
  }
}

TEST_F(ReadFaults, ADamagedCheckpointIsKeptUnderAnotherName) {
  begin_with_two();
  flip_bit(path() / "step-00000002" / "master.safetensors", 900);
  fs::create_directory(path() / "step-00000002.damaged");
  CheckpointStore store(path(), 1, quick());
  State loaded(model_, 0);
  EXPECT_EQ(store.load_newest(model_, loaded.access())->progress.counters.step, 1);
  store.set_aside_damaged();
  EXPECT_THAT(store.take_warnings(),
              ElementsAre(::testing::AllOf(HasSubstr("skipped a damaged checkpoint, which is kept as " +
                                                     (path() / "step-00000002.damaged-2").string() + ": "),
                                           HasSubstr("master.safetensors: the file's checksum is"))));
  for (const std::int64_t step : {3, 4}) store.save(model_, progress_at(step), loaded.access());
  EXPECT_EQ(names_in(path()), (Names{"step-00000002.damaged", "step-00000002.damaged-2", "step-00000004"}));
  EXPECT_TRUE(is_there(path() / "step-00000002.damaged-2" / "master.safetensors"));
  EXPECT_TRUE(store.take_warnings().empty());
}

TEST_F(ReadFaults, ADamagedCheckpointThatCannotBeRenamedStaysAndIsNeverRemoved) {
  begin_with_two();
  flip_bit(path() / "step-00000002" / "master.safetensors", 900);
  FaultyFileSystem files(0);
  CheckpointStore store(path(), 1, files);
  State loaded(model_, 0);
  store.load_newest(model_, loaded.access());
  store.set_aside_damaged();
  EXPECT_THAT(store.take_warnings(),
              ElementsAre(::testing::AllOf(HasSubstr("skipped a damaged checkpoint"), HasSubstr("checksum"),
                                           HasSubstr("injected failure"))));
  for (const std::int64_t step : {3, 4}) store.save(model_, progress_at(step), loaded.access());
  EXPECT_EQ(names_in(path()), (Names{"step-00000002", "step-00000004"}));
}

TEST_F(ReadFaults, WhereAllAreDamagedNothingIsRenamedSoTheNextRunStopsToo) {
  begin_with_two();
  for (const char* name : {"step-00000001", "step-00000002"})
    flip_bit(path() / name / "master.safetensors", 900);
  for (int attempt = 0; attempt < 2; ++attempt)
    expect_error<ConfigError>([&] { run(quick()); }, {"no checkpoint in " + path().string() + " is whole"});
  EXPECT_EQ(names_in(path()), (Names{"step-00000001", "step-00000002"}));
}

TEST_F(ReadFaults, AWholeManifestThatLacksAKeyIsDamaged) {
  begin_with_two();
  const fs::path file = path() / "step-00000002" / "manifest.json";
  nlohmann::json manifest = nlohmann::json::parse(read_file(file));
  for (const char* key : {"files", "step", "architecture"}) {
    nlohmann::json lacking = manifest;
    lacking.erase(key);
    lacking.erase("manifest_xxh3");
    lacking["manifest_xxh3"] = hex(hash_text(lacking.dump()));
    test::overwrite(file, lacking.dump(2) + "\n");
    expect_error<DamageError>([&] { read_manifest(file); }, {file.string(), "malformed", key});
  }
}

/// The generation in the manifest of the checkpoint after `step` steps.
std::int64_t generation(const fs::path& path, const std::string& name) {
  return read_manifest(path / name / "manifest.json").generation;
}

TEST_F(ReadFaults, NoGenerationIsUsedTwiceWhateverAnOlderManifestIs) {
  begin_with_two();
  const std::int64_t newest = generation(path(), "step-00000002");
  flip_bit(path() / "step-00000002" / "manifest.json", 30);
  save(first_, 3);
  EXPECT_GT(generation(path(), "step-00000003"), newest);
}

TEST_F(ReadFaults, NoGenerationIsUsedTwiceAfterASaveThatFailedAtItsEnd) {
  FaultyFileSystem counting;
  CheckpointStore(path(), 9, counting).save(model_, progress_at(1), first_.access());
  fs::remove_all(path() / "step-00000001");
  FaultyFileSystem files(counting.operations() - 1);  // the sync of the folder after the rename
  CheckpointStore store(path(), 9, files);
  EXPECT_THROW(store.save(model_, progress_at(1), first_.access()), IoError);
  store.save(model_, progress_at(2), second_.access());
  EXPECT_GT(generation(path(), "step-00000002"), generation(path(), "step-00000001"));
}

TEST_F(ReadFaults, ASaveReadsNoManifestOfAnOlderOne) {
  begin_with_two();
  UnreadableFileSystem counting;
  run(counting);
  begin_with_two();
  State loaded(model_, 0);
  UnreadableFileSystem files;
  CheckpointStore store(path(), 2, files);
  store.load_newest(model_, loaded.access());
  for (const char* name : {"step-00000001", "step-00000002"})
    fs::permissions(path() / name / "manifest.json", fs::perms::none);
  const int reads = files.reads();
  store.save(model_, progress_at(3), loaded.access());
  constexpr int kNames = 5,
                kReadBack = 4 * 3;  // whether names are free; each of four files is opened, measured, read
  EXPECT_LE(files.reads() - reads, kNames + kReadBack);
  fs::permissions(path() / "step-00000002" / "manifest.json", fs::perms::owner_all);
  EXPECT_GT(generation(path(), "step-00000003"), generation(path(), "step-00000002"));
}

}  // namespace
}  // namespace strata
