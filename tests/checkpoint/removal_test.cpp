// An old checkpoint that cannot be removed is said once; saving and starting go on.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>

#include "base/system_error.h"
#include "engine/run/checkpoint/checkpoint.h"
#include "tests/base/temporary_folder.h"
#include "tests/checkpoint/support.h"

namespace strata {
namespace {

namespace fs = std::filesystem;
using test::names_in;
using test::State;
using test::TemporaryFolder;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using Names = std::set<std::string>;

/// What has `name` in its path belongs to somebody else.
class ForeignFileSystem : public test::FaultyFileSystem {
 public:
  enum class Refuses : std::uint8_t { rename, remove };
  ForeignFileSystem(std::string name, Refuses refuses) : name_(std::move(name)), refuses_(refuses) {}

  void rename(const fs::path& from, const fs::path& to) override {
    if (refuses_ == Refuses::rename && from.filename() == name_) throw_system_error("rename", from, EPERM);
    FaultyFileSystem::rename(from, to);
  }
  void remove_all(const fs::path& path) override {
    if (path.string().find(name_) != std::string::npos) throw_system_error("remove", path, EPERM);
    FaultyFileSystem::remove_all(path);
  }

 private:
  std::string name_;
  Refuses refuses_;
};
using Refuses = ForeignFileSystem::Refuses;

class Removal : public ::testing::TestWithParam<Refuses> {
 protected:
  void save(CheckpointStore& store, std::int64_t step) {
    store.save(model_, {.counters = {.step = step}, .loss_scale = {}, .sampler = {}}, state_.access());
  }
  const fs::path& path() const { return folder_.path(); }

  TemporaryFolder folder_;
  Model model_ = test::tiny_llama();
  State state_{model_, 1};
};

TEST_P(Removal, ThatFailsIsSaidOnceAndSavingGoesOn) {
  ForeignFileSystem files("step-00000001", GetParam());
  const std::string left = GetParam() == Refuses::rename ? "step-00000001" : "step-00000001.tmp";
  CheckpointStore store(path(), 2, files);
  for (const std::int64_t step : {1, 2}) save(store, step);
  EXPECT_THAT(store.take_warnings(), IsEmpty());
  save(store, 3);
  EXPECT_THAT(store.take_warnings(),
              ElementsAre(AllOf(HasSubstr("old checkpoint"), HasSubstr(" stays"),
                                HasSubstr((path() / left).string()), HasSubstr("not permitted"))));
  for (const std::int64_t step : {4, 5}) save(store, step);
  EXPECT_THAT(store.take_warnings(), IsEmpty());
  EXPECT_EQ(names_in(path()), (Names{left, "step-00000004", "step-00000005"}));
}

TEST_P(Removal, ThatFailedBlocksNoLaterRun) {
  ForeignFileSystem files("step-00000001", GetParam());
  CheckpointStore before(path(), 1, files);
  for (const std::int64_t step : {1, 2}) save(before, step);
  CheckpointStore store(path(), 1, files);
  store.remove_leftovers();
  EXPECT_EQ(store.take_warnings().size(), GetParam() == Refuses::rename ? 0U : 1U);
  EXPECT_EQ(store.load_newest(model_, state_.access())->progress.counters.step, 2);
  // Step 1 once more, as after --fresh: its names are taken.
  save(store, 1);
  EXPECT_EQ(store.load_newest(model_, state_.access())->folder, path() / "step-00000001-2");
}

INSTANTIATE_TEST_SUITE_P(, Removal, ::testing::Values(Refuses::rename, Refuses::remove),
                         [](const auto& info) {
                           return info.param == Refuses::rename ? "Rename" : "Remove";
                         });

TEST_P(Removal, OfWhatAUserHasRemovedMeanwhileIsNothing) {
  CheckpointStore store(path(), 1, test::quick());
  save(store, 1);
  fs::remove_all(path() / "step-00000001");
  save(store, 2);
  EXPECT_THAT(store.take_warnings(), IsEmpty());
  EXPECT_EQ(names_in(path()), (Names{"step-00000002"}));
}

}  // namespace
}  // namespace strata
