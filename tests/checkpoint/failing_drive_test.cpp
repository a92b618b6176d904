// A drive that takes writes and loses them later: ext4 on a loop device over a sparse file, in a tmpfs that
// is full by then. What was saved before stays. It needs root, mount, losetup and mkfs.ext4, and says what it
// lacks.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <unistd.h>

#include <cstdio>
#include <memory>
#include <thread>

#include "engine/run/checkpoint/checkpoint.h"
#include "tests/base/expect_error.h"
#include "tests/base/temporary_folder.h"
#include "tests/checkpoint/support.h"

namespace strata {
namespace {

namespace fs = std::filesystem;
using test::expect_error;
using test::State;
using test::TemporaryFolder;

/// What the commands say if one fails; empty: all went well.
std::string failure_of(const std::string& commands) {
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> pipe(
      ::popen(("( set -e; " + commands + " ) 2>&1 || echo failed").c_str(), "r"), ::pclose);
  std::string said;
  for (int byte = std::fgetc(pipe.get()); byte != EOF; byte = std::fgetc(pipe.get()))
    said += static_cast<char>(byte);
  return said.ends_with("failed\n") ? said : "";
}

class FailingDrive : public ::testing::Test {
 protected:
  /// The body sees a drive at drive(); its mounts are its own, and go with it. Says why there is none.
  template <typename Body>
  std::string with_drive(const Body& body) {
    std::string missing;
    std::thread([&] {
      missing = ::unshare(CLONE_NEWNS) == 0 ? failure_of(make_drive()) : "no mounts of one's own: not root";
      if (missing.empty()) body();
    }).join();
    return missing;
  }
  fs::path drive() const { return folder_ / "drive"; }
  std::string in_folder(const std::string& commands) const {
    return "cd " + folder_.path().string() + "; PATH=$PATH:/usr/sbin:/sbin; " + commands;
  }
  /// Nothing more reaches the drive.
  void fill() const { failure_of(in_folder("sync; cat /dev/zero > thin/fill")); }
  /// What a machine finds that starts again once there is space.
  std::string restart() const {
    return failure_of(
        in_folder("umount drive; rm thin/fill; "
                  "mount -o loop thin/image drive"));
  }

 private:
  std::string make_drive() const {
    return in_folder(
        "mount --make-rprivate /; mkdir thin drive; mount -t tmpfs -o size=16M tmpfs thin; truncate -s 64M "
        "thin/image; "
        "mkfs.ext4 -q -F -E lazy_itable_init=1,nodiscard thin/image; mount -o loop,errors=continue "
        "thin/image drive");
  }

  const TemporaryFolder folder_;
};

// Invariant of state and checkpoints (FailingDrive.*): A drive that loses data is found. Strata reads a new
// checkpoint back before it removes an older one.
TEST_F(FailingDrive, LosesNoCheckpointThatWasWholeAndTakesNoneThatIsNot) {
  const std::string missing = with_drive([&] {
    const Model model = test::tiny_llama(false, 512);
    State first(model, 1), second(model, 2), loaded(model, 0);
    CheckpointStore(drive() / "out", 1).save(model, test::progress_at(1), first.access());
    replace_file(FileSystem::real(), drive() / "run.json", "before");
    fill();
    expect_error<IoError>(
        [&] { CheckpointStore(drive() / "out", 1).save(model, test::progress_at(2), second.access()); },
        {"the checkpoint of step 2 was not saved", "step-00000001 before it is untouched"});
    expect_error<IoError>(
        [&] { replace_file(FileSystem::real(), drive() / "run.json", std::string(2 * MiB, 'x')); },
        {"run.json"});
    ASSERT_EQ(restart(), "");
    const auto found = CheckpointStore(drive() / "out", 1).load_newest(model, loaded.access());
    ASSERT_TRUE(found);
    EXPECT_EQ(found->progress.counters.step, 1);
    EXPECT_EQ(loaded, first);
    EXPECT_EQ(read_file(drive() / "run.json"), "before");
  });
  if (!missing.empty()) GTEST_SKIP() << missing;
}

}  // namespace
}  // namespace strata
