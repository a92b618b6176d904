// What others may have put where a checkpoint, its temporary folder or the probe of its path is to be.
#include <gmock/gmock.h>

#include "base/error.h"
#include "base/file.h"
#include "base/folder.h"
#include "base/hash.h"
#include "engine/run/checkpoint/checkpoint.h"
#include "engine/run/checkpoint/manifest.h"
#include "engine/run/checkpoint/safetensors.h"
#include "tests/base/expect_error.h"
#include "tests/base/hostile.h"
#include "tests/checkpoint/support.h"
#include "tests/support/damaged_json.h"

namespace strata {
namespace {

namespace fs = std::filesystem;
using test::expect_error;
using test::TemporaryFolder;
using test::Trap;
using test::Victim;
using ::testing::ElementsAre;

std::vector<Trap> every_trap() {
  std::vector<Trap> traps = test::file_traps();
  traps.push_back({"a file", [](const fs::path& at, const Victim&) { std::ofstream(at) << "the user's"; }});
  return traps;
}

Progress bare_progress_at(std::int64_t step) {
  Progress progress;
  progress.counters.step = step;
  return progress;
}

struct HostileCheckpoints : ::testing::Test {
  void save(std::int64_t step, const fs::path& path) {
    CheckpointStore(path, 1).save(model_, bare_progress_at(step), state_.access());
  }
  void save(std::int64_t step) { save(step, path()); }
  void expect_loaded(std::int64_t step) {
    const auto loaded = CheckpointStore(path(), 1).load_newest(model_, state_.access());
    ASSERT_TRUE(loaded);
    EXPECT_EQ(loaded->progress.counters.step, step);
  }
  const fs::path& path() const { return folder_.path(); }
  std::vector<std::string> names() const { return Folder::named(path()).names(); }

  TemporaryFolder folder_;
  Model model_ = test::tiny_llama();
  test::State state_{model_, 1};
};

TEST_F(HostileCheckpoints, AProbeTouchesNothingThatIsThere) {
  for (const std::string name : {".writable.tmp", ".writable-1.tmp"}) {
    for (const Trap& trap : every_trap()) {
      const Victim victim;
      trap.set(folder_ / name, victim);
      check_checkpoint_writable(path());
      victim.expect_untouched(trap.name);
      EXPECT_THAT(names(), ElementsAre(name)) << trap.name;
      fs::remove_all(folder_ / name);
    }
  }
}

TEST_F(HostileCheckpoints, AnUnfinishedFoldersNameIsTakenAndNothingThatItLedTo) {
  for (const Trap& trap : test::link_traps()) {
    const Victim victim;
    trap.set(folder_ / "step-00000002.tmp", victim);
    CheckpointStore store(path(), 1);
    store.remove_leftovers();
    store.save(model_, bare_progress_at(2), state_.access());
    victim.expect_untouched(trap.name);
    EXPECT_THAT(names(), ElementsAre("step-00000002")) << trap.name;
    expect_loaded(2);
    for (const std::string& name : names()) fs::remove_all(folder_ / name);
  }
}

TEST_F(HostileCheckpoints, ANameThatIsTakenByALinkToNowhereIsTaken) {
  const Victim victim;
  fs::create_symlink(victim.path() / "new", folder_ / "step-00000002");
  save(2);
  EXPECT_TRUE(fs::is_symlink(folder_ / "step-00000002"));
  EXPECT_TRUE(fs::is_directory(folder_ / "step-00000002-2"));
  victim.expect_untouched("a link to nowhere");
}

TEST_F(HostileCheckpoints, OldOnesThatAreLinksGoWithoutWhatTheyLeadTo) {
  const TemporaryFolder archive;
  save(1, archive.path());
  fs::create_symlink(archive / "step-00000001", folder_ / "step-00000001");
  expect_loaded(1);
  save(2);
  EXPECT_THAT(names(), ElementsAre("step-00000002"));
  EXPECT_TRUE(fs::exists(archive / "step-00000001" / "manifest.json"));
}

TEST_F(HostileCheckpoints, APipeForAFileIsNotWaitedFor) {
  for (const char* name : {"manifest.json", "master.safetensors"}) {
    save(1);
    const fs::path file = folder_ / "step-00000001" / name;
    fs::remove(file);
    test::set_pipe(file, Victim());
    EXPECT_THROW(CheckpointStore(path(), 1).load_newest(model_, state_.access()), Error) << name;
    fs::remove_all(folder_ / "step-00000001");
  }
}

TEST_F(HostileCheckpoints, APathThatLeadsNowhereIsRefusedAtTheStart) {
  for (const char* target : {"loop", "nowhere/below"}) {
    fs::create_symlink(target, folder_ / "loop");
    expect_error<ConfigError>([&] { check_checkpoint_writable(folder_ / "loop"); },
                              {"checkpoint.path " + (folder_ / "loop").string() + " is not writable"});
    fs::remove(folder_ / "loop");
  }
}

TEST_F(HostileCheckpoints, TheUsersOwnPathMayBeALink) {
  fs::create_directory(folder_ / "real");
  fs::create_symlink("real", folder_ / "link");
  check_checkpoint_writable(folder_ / "link");
  save(1, folder_ / "link");
  EXPECT_THAT(Folder::named(folder_ / "real").names(), ElementsAre("step-00000001"));
}

TEST_F(HostileCheckpoints, AManifestWithoutEndIsDamagedAndTheOneBeforeIsTaken) {
  CheckpointStore(path(), 2).save(model_, bare_progress_at(1), state_.access());
  CheckpointStore(path(), 2).save(model_, bare_progress_at(2), state_.access());
  const auto entries = list_checkpoints(FileSystem::real(), path());
  ASSERT_EQ(entries.size(), 2U);
  fs::resize_file(entries[0].folder / kManifestName, std::uintmax_t{1} << 40);
  expect_loaded(1);
}

/// With its own checksum, so that its values are looked at.
TEST_F(HostileCheckpoints, AManifestThatIsDamagedInManyWaysIsReadOrRefusedInASentence) {
  save(1);
  const auto entries = list_checkpoints(FileSystem::real(), path());
  const auto whole = nlohmann::json::parse(read_file(entries.at(0).folder / kManifestName));
  test::expect_read_or_refused(whole, "manifest.json", 6, 400, [](nlohmann::json manifest) {
    if (manifest.is_object()) {
      manifest.erase("manifest_xxh3");
      manifest["manifest_xxh3"] = hex(hash_text(manifest.dump()));
    }
    parse_manifest(manifest.dump(2) + "\n", "manifest.json");
  });
}

TEST_F(HostileCheckpoints, AHeaderOfTensorsThatIsDamagedInManyWaysIsReadOrRefusedInASentence) {
  const nlohmann::json whole = {{"__metadata__", {{"format", "pt"}}},
                                {"a", {{"dtype", "F32"}, {"shape", {2, 2}}, {"data_offsets", {0, 16}}}},
                                {"b", {{"dtype", "BF16"}, {"shape", {3}}, {"data_offsets", {16, 22}}}}};
  test::expect_read_or_refused(whole, "x.safetensors", 7, 150, [&](const nlohmann::json& damaged) {
    const std::string header = damaged.dump();
    const std::uint64_t size = header.size();
    std::string file(reinterpret_cast<const char*>(&size), sizeof(size));
    std::ofstream(path() / "x.safetensors", std::ios::binary) << file + header + std::string(22, '\0');
    const SafetensorsReader reader(path() / "x.safetensors");
  });
}

}  // namespace
}  // namespace strata
