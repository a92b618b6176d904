// Copies of a CUDA device on the emulated GPU: of memory that is locked in pieces, in part, or not at all.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <numeric>

#include "base/arena.h"
#include "base/error.h"
#include "engine/device/cuda/cuda_device.h"
#include "tests/gpu_emulation/emulated_machine.h"

namespace strata {
namespace {

using gpu_emulation::counts;
using gpu_emulation::machine;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class CudaCopies : public gpu_emulation::EmulatedMachine {
 protected:
  /// Copies all of the host's memory to the device and back into `to`, in copies that begin at odd places.
  void copy_there_and_back(CudaDevice& device, std::span<std::byte> from, std::span<std::byte> to) {
    const auto bytes = static_cast<Bytes>(from.size());
    const std::unique_ptr<DeviceMemory> memory = device.allocate(bytes);
    const std::unique_ptr<Stream> down = device.make_stream(), up = device.make_stream();
    constexpr Bytes kStep = 700001;
    for (Bytes first = 0; first < bytes; first += kStep)
      down->copy_to_device(memory->data() + first, from.data() + first, std::min(kStep, bytes - first));
    const std::unique_ptr<Event> there = down->make_event(), back = up->make_event();
    down->record(*there);
    up->wait(*there);
    for (Bytes first = 0; first < bytes; first += kStep)
      up->copy_to_host(to.data() + first, memory->data() + first, std::min(kStep, bytes - first));
    up->record(*back);
    ASSERT_TRUE(back->wait(60));
    EXPECT_EQ(std::memcmp(from.data(), to.data(), from.size()), 0);
  }

  void expect_copies_agree(CudaDevice& device) {
    for (const bool lazy : {false, true}) {
      machine().lazy = lazy;
      Arena host(2 * kBytes);
      const std::span<std::byte> all(host.data(), static_cast<std::size_t>(host.size()));
      const std::unique_ptr<PinnedHostMemory> pinned = device.pin(all);
      auto* words = reinterpret_cast<std::uint32_t*>(host.data());
      std::iota(words, words + kBytes / 4, 7U);
      std::memset(host.data() + kBytes, 0, kBytes);
      copy_there_and_back(device, all.first(kBytes), all.subspan(kBytes));
    }
  }

  static constexpr Bytes kBytes = 5 * MiB;
};

// Invariant (CudaCopies.*): The CUDA device keeps its interface.
TEST_F(CudaCopies, OfLockedMemoryAreAsynchronous) {
  CudaDevice device;
  const std::int64_t pageable = counts().pageable_copies;
  expect_copies_agree(device);
  EXPECT_EQ(counts().pageable_copies, pageable);
  EXPECT_EQ(counts().locked_bytes, 0);
  EXPECT_THAT(device.slow_paths(), IsEmpty());
}

TEST_F(CudaCopies, AreSplitWhereMemoryIsLockedInPieces) {
  CudaDevice device(0, {.piece_bytes = MiB + 4096});
  const std::int64_t pageable = counts().pageable_copies, registrations = counts().registrations;
  expect_copies_agree(device);
  EXPECT_EQ(counts().registrations - registrations, 2 * 10)
      << "10 MiB in pieces of a little more than 1, twice";
  EXPECT_EQ(counts().pageable_copies, pageable);
}

TEST_F(CudaCopies, GoThroughLockedBuffersWhereLockingIsLimitedAndSaySo) {
  machine().lockable_bytes = 4 * MiB;
  CudaDevice device(0, {.piece_bytes = 3 * MiB, .staging_bytes = 256 * KiB});
  const std::int64_t pageable = counts().pageable_copies;
  expect_copies_agree(device);
  EXPECT_EQ(counts().pageable_copies, pageable);
  EXPECT_EQ(counts().locked_bytes, 0);
  EXPECT_THAT(device.slow_paths(),
              ElementsAre(HasSubstr("7.00 MiB of 10.00 MiB of host memory cannot be locked")));
}

TEST_F(CudaCopies, LockPiecesThatAreRefusedInHalves) {
  machine().largest_lock = 3 * MiB;
  CudaDevice device(0, {.smallest_piece_bytes = 2 * MiB});
  const std::int64_t registrations = counts().registrations;
  expect_copies_agree(device);
  EXPECT_EQ(counts().registrations - registrations, 2 * 4) << "10 MiB in pieces of 2.5, twice";
  EXPECT_EQ(counts().locked_bytes, 0);
  EXPECT_THAT(device.slow_paths(), IsEmpty());
}

TEST_F(CudaCopies, LockWhatFitsInHalvesBeforeTheRestIsStaged) {
  machine().lockable_bytes = 6 * MiB;
  CudaDevice device(0, {.smallest_piece_bytes = 2 * MiB, .staging_bytes = 256 * KiB});
  expect_copies_agree(device);
  EXPECT_THAT(device.slow_paths(),
              ElementsAre(HasSubstr("5.00 MiB of 10.00 MiB of host memory cannot be locked")));
}

TEST_F(CudaCopies, GoThroughLockedBuffersWhereMemoryIsTooLargeForOneCall) {
  machine().largest_lock = MiB;
  CudaDevice device(0, {.staging_bytes = MiB});
  expect_copies_agree(device);
  EXPECT_THAT(device.slow_paths(), ElementsAre(HasSubstr("memory.host")));
}

TEST_F(CudaCopies, AreRefusedWhereNotEvenABufferIsLocked) {
  machine().lockable_bytes = 0;
  CudaDevice device;
  Arena host(MiB);
  const std::unique_ptr<PinnedHostMemory> pinned =
      device.pin({host.data(), static_cast<std::size_t>(host.size())});
  const std::unique_ptr<DeviceMemory> memory = device.allocate(MiB);
  const std::unique_ptr<Stream> stream = device.make_stream();
  try {
    stream->copy_to_device(memory->data(), host.data(), MiB);
    FAIL();
  } catch (const DeviceError& error) {
    EXPECT_THAT(error.what(), HasSubstr("ulimit -l"));
  }
}

/// The host's memory is read when the stream comes to the copy, not when it is issued.
TEST_F(CudaCopies, ThroughBuffersReadTheHostAtTheirPlaceInTheStream) {
  machine().largest_lock = 256 * KiB;
  machine().lazy = true;
  CudaDevice device(0, {.staging_bytes = 64 * KiB});
  Arena host(kBytes);
  const std::span<std::byte> all(host.data(), static_cast<std::size_t>(host.size()));
  const std::unique_ptr<PinnedHostMemory> pinned = device.pin(all);
  const std::unique_ptr<DeviceMemory> first = device.allocate(MiB), second = device.allocate(MiB);
  const std::unique_ptr<Stream> stream = device.make_stream(), other = device.make_stream();
  std::memset(host.data(), 1, MiB);
  stream->copy_to_device(first->data(), host.data(), MiB);
  stream->copy_to_host(host.data() + MiB, first->data(), MiB);
  const std::unique_ptr<Event> written = stream->make_event(), done = other->make_event();
  stream->record(*written);
  other->wait(*written);
  other->copy_to_device(second->data(), host.data() + MiB, MiB);  // what the copy before has written
  other->copy_to_host(host.data() + 2 * MiB, second->data(), MiB);
  other->record(*done);
  ASSERT_TRUE(done->wait(60));
  EXPECT_EQ(host.data()[2 * MiB], std::byte{1});
  EXPECT_EQ(host.data()[3 * MiB - 1], std::byte{1});
}

}  // namespace
}  // namespace strata
