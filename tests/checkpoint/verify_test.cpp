// Ranks that check a checkpoint's files meet while they read, however few files there are to share out.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/run/checkpoint/checkpoint.h"
#include "tests/base/temporary_folder.h"
#include "tests/checkpoint/ranks.h"

namespace strata {
namespace {

namespace fs = std::filesystem;
using test::State;
using test::TemporaryFolder;

/// What this rank has read since the ranks met last.
struct SinceMeeting {
  Bytes bytes = 0, most = 0;
};

class CountingFileSystem : public test::FaultyFileSystem {
 public:
  explicit CountingFileSystem(SinceMeeting& since) : since_(since) {}
  std::size_t read(int descriptor, std::int64_t offset, std::span<std::byte> out,
                   const fs::path& path) override {
    const std::size_t count = FileSystem::read(descriptor, offset, out, path);
    since_.bytes += static_cast<Bytes>(count);
    since_.most = std::max(since_.most, since_.bytes);
    return count;
  }

 private:
  SinceMeeting& since_;
};

/// A rank whose gathers are the meetings.
class MeetingRank : public Communicator {
 public:
  MeetingRank(Communicator& ranks, SinceMeeting& since) : ranks_(ranks), since_(since) {}

  int rank() const override { return ranks_.rank(); }
  int size() const override { return ranks_.size(); }
  void all_gather(const void* send, void* receive, std::size_t count, Element element) override {
    ranks_.all_gather(send, receive, count, element);
    since_.bytes = 0;
  }
  void reduce_scatter(const void* send, void* receive, std::size_t count, Element element,
                      ReduceOp op) override {
    ranks_.reduce_scatter(send, receive, count, element, op);
  }
  void all_reduce(const void* send, void* receive, std::size_t count, Element element, ReduceOp op) override {
    ranks_.all_reduce(send, receive, count, element, op);
  }
  void broadcast(void* data, std::size_t count, Element element, int root) override {
    ranks_.broadcast(data, count, element, root);
  }
  void all_to_all(const void* send, void* receive, std::size_t count, Element element) override {
    ranks_.all_to_all(send, receive, count, element);
  }
  void send(const void* data, std::size_t count, Element element, int peer) override {
    ranks_.send(data, count, element, peer);
  }
  void receive(void* data, std::size_t count, Element element, int peer) override {
    ranks_.receive(data, count, element, peer);
  }
  void begin_group() override { ranks_.begin_group(); }
  void end_group() override { ranks_.end_group(); }
  std::unique_ptr<Communicator> split(int color, int key) override { return ranks_.split(color, key); }
  std::size_t sent_bytes() const override { return ranks_.sent_bytes(); }
  std::optional<std::string> failure() const override { return ranks_.failure(); }
  void abort(const std::string& reason) override { ranks_.abort(reason); }

 private:
  Communicator& ranks_;
  SinceMeeting& since_;
};

class Verify : public ::testing::Test {
 protected:
  Verify() {
    CheckpointStore(folder_.path(), 2, test::quick())
        .save(model_, {.counters = {.step = 1}, .loss_scale = {}, .sampler = {}}, state_.access());
  }
  /// What each rank did.
  std::vector<SinceMeeting> verify(int ranks, Bytes between_meetings) {
    const fs::path folder = folder_.path() / "step-00000001";
    std::vector<SinceMeeting> all(static_cast<std::size_t>(ranks));
    test::run_ranks(ranks, [&](Communicator& each) {
      SinceMeeting& since = all[static_cast<std::size_t>(each.rank())];
      CountingFileSystem files(since);
      MeetingRank rank(each, since);
      verify_files(folder, read_manifest(folder / kManifestName), files, &rank, between_meetings);
    });
    return all;
  }

  TemporaryFolder folder_;
  Model model_ = test::tiny_llama(false, 64);
  State state_{model_, 1};
};

TEST_F(Verify, NoRankReadsLongWithoutMeetingTheOthers) {
  constexpr Bytes kBetween = 1000;
  for (const int ranks : {1, 2, 3, 8, 17}) {
    for (const SinceMeeting& rank : verify(ranks, kBetween))
      EXPECT_LE(rank.most, kBetween + (ranks == 1) * MiB);
  }
}

TEST_F(Verify, OfDamageAtAFilesEndIsFoundInPortionsToo) {
  test::flip_bit(folder_.path() / "step-00000001" / "exp_avg.safetensors",
                 fs::file_size(folder_.path() / "step-00000001" / "exp_avg.safetensors") - 1);
  for (const int ranks : {2, 8}) {
    const auto errors = test::errors_of_ranks<DamageError>(ranks, [&](Communicator& each) {
      const fs::path folder = folder_.path() / "step-00000001";
      verify_files(folder, read_manifest(folder / kManifestName), FileSystem::real(), &each, 1000);
    });
    EXPECT_THAT(errors, ::testing::Each(::testing::HasSubstr("exp_avg.safetensors: the file's checksum")));
  }
}

}  // namespace
}  // namespace strata
