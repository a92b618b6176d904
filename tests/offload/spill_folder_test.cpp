// Who may have a folder, what is left in it, and what is wrong with folders that cannot be used.
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <filesystem>
#include <fstream>

#include "base/error.h"
#include "offload/io_faults.h"
#include "offload/spill_folder.h"
#include "tests/base/temporary_folder.h"
#include "tests/offload/store_fixture.h"

namespace strata {
namespace {
namespace fs = std::filesystem;

using test::contains;
using test::message_of;

/// Makes one call of setting up fail.
class FailedCall final : public IoFaults {
 public:
  FailedCall(std::string call, int error) : call_(std::move(call)), error_(error) {}
  BlockFault before(const BlockAttempt&) override { return {}; }
  int setup_error(std::string_view call) override { return call == call_ ? error_ : 0; }

 private:
  std::string call_;
  int error_;
};

/// A process that has opened the store and does nothing more.
class Child {
 public:
  explicit Child(const StoreOptions& options) {
    int ends[2];
    if (::pipe(ends) != 0) throw std::runtime_error("cannot make a pipe");
    id_ = ::fork();
    if (id_ == 0) {
      const auto store = open_store(options);
      [[maybe_unused]] const auto written = ::write(ends[1], "!", 1);
      for (;;) ::pause();
    }
    ::close(ends[1]);
    char ready = 0;
    opened_ = ::read(ends[0], &ready, 1) == 1;
    ::close(ends[0]);
  }
  ~Child() { kill(); }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  bool opened() const { return opened_; }
  pid_t id() const { return id_; }
  void kill() {
    if (id_ <= 0) return;
    ::kill(id_, SIGKILL);
    ::waitpid(id_, nullptr, 0);
    id_ = 0;
  }

 private:
  pid_t id_ = 0;
  bool opened_ = false;
};

class SpillFolders : public ::testing::Test {
 protected:
  SpillFolders() {
    options_.folders = {folder_.path().string()};
    options_.bytes = 4 * MiB;
  }
  void SetUp() override {
    if (const std::string reason = test::why_no_drive(folder_.path()); !reason.empty())
      GTEST_SKIP() << reason;
  }
  std::string refusal() const {
    return message_of<ConfigError>([&] { open_store(options_); });
  }

  test::TemporaryFolder folder_;
  fs::path spill_ = folder_ / "strata-spill";
  StoreOptions options_;
};

TEST_F(SpillFolders, AreEmptyAfterTheStoreAndHoldNoNamedDataBefore) {
  auto store = open_store(options_);
  EXPECT_EQ(std::distance(fs::directory_iterator(spill_), fs::directory_iterator()), 1) << "the lock";
  store.reset();
  EXPECT_TRUE(fs::is_empty(folder_.path()));
}

TEST_F(SpillFolders, RefuseASecondRunAndNameTheFirst) {
  Child first(options_);
  ASSERT_TRUE(first.opened());
  const std::string message = refusal();
  EXPECT_TRUE(contains(message, "process " + std::to_string(first.id()))) << message;
  EXPECT_TRUE(contains(message, folder_.path().string())) << message;
}

TEST_F(SpillFolders, RefuseASecondStoreOfTheSameProcess) {
  const auto first = open_store(options_);
  EXPECT_TRUE(contains(refusal(), "this very process"));
}

TEST_F(SpillFolders, RefuseToBeNamedTwice) {
  options_.folders.push_back(folder_.path().string() + "/.");
  EXPECT_TRUE(contains(refusal(), "name it once"));
  EXPECT_TRUE(fs::is_empty(folder_.path())) << "a refused store leaves nothing";
}

TEST(FreeForSpilling, CountsAFilesystemOnceAndBoundsNothingThatDoesNotTell) {
  const test::TemporaryFolder folder;
  const std::string name = folder.path().string();
  const Bytes capacity = static_cast<Bytes>(fs::space(folder.path()).capacity);
  const Bytes free = free_for_spilling({name, name + "/."});
  EXPECT_GT(free, 0);
  EXPECT_LE(free, capacity);
  EXPECT_EQ(free_for_spilling({name, name + "/missing"}), kUnlimited);
  EXPECT_EQ(free_for_spilling({name, "/proc"}), kUnlimited);
}

TEST_F(SpillFolders, AreFreeAgainAfterAKill) {
  Child first(options_);
  ASSERT_TRUE(first.opened());
  first.kill();
  EXPECT_TRUE(fs::exists(spill_ / "lock"));
  std::ofstream(spill_ / "spill") << "of a run that died before it took the file's name away";
  const auto store = open_store(options_);
  EXPECT_FALSE(fs::exists(spill_ / "spill"));
}

TEST_F(SpillFolders, OfRanksLieSideBySideAndGoWithTheNextRunIfAbandoned) {
  const auto open_rank = [&](int rank, int ranks) {
    StoreOptions options = options_;
    options.rank = {.rank = rank, .ranks = ranks};
    return open_store(options);
  };
  const auto abandon = [&](const std::string& name) {
    fs::create_directory(folder_ / name);
    std::ofstream(folder_ / name / "lock") << "process 1 on a machine that fell over";
  };
  for (const char* name : {"strata-spill-1", "strata-spill-2", "strata-spill-3"}) abandon(name);
  const auto held = open_rank(4, 5);
  const auto first = open_rank(0, 2), second = open_rank(1, 2);
  EXPECT_TRUE(fs::exists(folder_ / "strata-spill-1")) << "the second rank's";
  EXPECT_FALSE(fs::exists(folder_ / "strata-spill-2"));
  EXPECT_FALSE(fs::exists(folder_ / "strata-spill-3"));
  EXPECT_TRUE(fs::exists(folder_ / "strata-spill-4")) << "it is in use";
}

TEST_F(SpillFolders, WithoutEnoughSpaceNameNeededAndFreeBytes) {
  options_.bytes = Bytes{1} << 50;
  const std::string message = refusal();
  EXPECT_TRUE(contains(message, "(1125899906842624 bytes) and has")) << message;
  EXPECT_TRUE(contains(message, "bytes) free: free some space")) << message;
  EXPECT_TRUE(fs::is_empty(folder_.path()));
}

TEST_F(SpillFolders, ThatFillUpMeanwhileAreRefusedWithTheSameAdvice) {
  FailedCall full("fallocate", ENOSPC);
  options_.faults = &full;
  const std::string message = refusal();
  EXPECT_TRUE(contains(message, "needs 4.00 MiB (4194304 bytes)") && contains(message, "free some space"))
      << message;
}

TEST_F(SpillFolders, ThatReserveNothingGetASparseFile) {
  FailedCall sparse("fallocate", EOPNOTSUPP);
  options_.faults = &sparse;
  const test::Block written(4 * MiB, 3), read(4 * MiB);
  const auto store = open_store(options_);
  const auto queue = store->open_queue();
  queue->write(0, written.bytes());
  queue->read(0, read.bytes());
  EXPECT_EQ(read, written);
}

TEST_F(SpillFolders, WithoutDirectAccessAreRefusedWithAdvice) {
  FailedCall no_direct("open", EINVAL);
  options_.faults = &no_direct;
  const std::string message = refusal();
  EXPECT_TRUE(contains(message, folder_.path().string()) && contains(message, "O_DIRECT")) << message;
  EXPECT_TRUE(contains(message, "ext4 or xfs")) << message;
  EXPECT_TRUE(fs::is_empty(folder_.path()));
}

TEST_F(SpillFolders, ThatAreMissingAreRefused) {
  options_.folders = {(folder_ / "nowhere").string()};
  EXPECT_TRUE(contains(refusal(), "nowhere cannot be used: No such file or directory"));
}

TEST_F(SpillFolders, ThatAreFilesAreRefused) {
  std::ofstream(folder_ / "file") << "x";
  options_.folders = {(folder_ / "file").string()};
  EXPECT_TRUE(contains(refusal(), "Not a directory"));
}

TEST_F(SpillFolders, AreNeeded) {
  options_.folders.clear();
  EXPECT_TRUE(contains(refusal(), "memory.nvme.path"));
}

TEST_F(SpillFolders, StoreWithoutBytesIsRefused) {
  options_.bytes = 0;
  EXPECT_TRUE(contains(refusal(), "memory.nvme.size"));
}

TEST_F(SpillFolders, StoreUsesThreadsWhereIoUringIsForbidden) {
  FailedCall forbidden("io_uring_setup", EPERM);
  options_.faults = &forbidden;
  const std::string description = open_store(options_)->describe();
  EXPECT_TRUE(contains(description, "threads with pread and pwrite (io_uring: Operation not permitted"))
      << description;
}

TEST_F(SpillFolders, StoreInsistsOnIoUringWhereItIsAskedFor) {
  FailedCall forbidden("io_uring_setup", ENOSYS);
  options_.faults = &forbidden;
  options_.engine = StoreEngine::io_uring;
  EXPECT_TRUE(contains(refusal(), "io_uring cannot be used here (Function not implemented)"));
}

/// Filesystems of their own are measured, and share by what was found.
TEST_F(SpillFolders, OnTwoFilesystemsAreMeasured) {
  if (!fs::is_directory("/dev/shm")) GTEST_SKIP() << "no second filesystem";
  const test::TemporaryFolder other("/dev/shm");
  options_.folders.push_back(other.path().string());
  options_.bytes = 64 * MiB;
  try {
    const auto store = open_store(options_);
    EXPECT_TRUE(contains(store->describe(), "/s, write ")) << store->describe();
    const test::Block written(64 * MiB, 3), read(64 * MiB);
    const auto queue = store->open_queue();
    queue->write(0, written.bytes());
    queue->read(0, read.bytes());
    EXPECT_EQ(read, written);
  } catch (const ConfigError& error) {
    EXPECT_TRUE(contains(error.what(), "O_DIRECT")) << "older kernels have none on tmpfs: " << error.what();
  }
  EXPECT_TRUE(fs::is_empty(other.path()));
}

}  // namespace
}  // namespace strata
