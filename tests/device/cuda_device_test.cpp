#ifdef STRATA_CUDA
#include "engine/device/cuda/cuda_device.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <limits>
#include <numeric>
#include <thread>
#include <vector>

#include "base/arena.h"
#include "base/error.h"
#include "engine/device/attention_calls.h"
#include "engine/device/cuda/numa.h"
#include "engine/device/product_calls.h"
#include "tests/base/temporary_folder.h"

namespace strata {
namespace {

using ::testing::HasSubstr;

TEST(CudaDeviceWithoutGpu, IsRefusedWithAReasonAndAnAdvice) {
  const std::string why = why_no_cuda_device();
  if (why.empty()) GTEST_SKIP() << "there is a GPU";
  EXPECT_THAT(why, HasSubstr("device.kind"));
  try {
    CudaDevice device;
    FAIL() << "a device was made, though " << why;
  } catch (const DeviceError& error) {
    EXPECT_EQ(error.what(), why);
  }
}

TEST(Numa, NodeOfAPciDeviceIsReadFromTheSystem) {
  const strata::test::TemporaryFolder folder;
  const std::filesystem::path& sysfs = folder.path();
  const std::filesystem::path device = sysfs / "bus/pci/devices/0000:1b:00.0";
  std::filesystem::create_directories(device);
  std::ofstream(device / "numa_node") << "1\n";
  EXPECT_EQ(numa_node_of_pci("0000:1B:00.0", sysfs), 1);
  EXPECT_EQ(numa_node_of_pci("0000:1C:00.0", sysfs), -1);
}

TEST(Numa, MemoryStaysUsableWhateverNodeIsWishedFor) {
  for (const int node : {-1, 0, 77}) {
    const Arena arena(4 * MiB);
    prefer_numa_node({arena.data() + 100, 3 * MiB}, node);
    arena.data()[2 * MiB] = std::byte{1};
    EXPECT_EQ(arena.data()[2 * MiB], std::byte{1});
  }
  prefer_numa_node({}, 0);
}

/// Streams of the first GPU.
class CudaDeviceTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (const std::string why = why_no_cuda_device(); !why.empty()) GTEST_SKIP() << why;
    device_ = std::make_unique<CudaDevice>();
  }

  std::unique_ptr<Event> record(Stream& stream) {
    std::unique_ptr<Event> event = stream.make_event();
    stream.record(*event);
    return event;
  }

  /// Products that keep the GPU busy for some milliseconds.
  void compute(Stream& stream, const DeviceMemory& memory, int products) {
    const auto matrix = [&](std::int64_t index) {
      return Matrix(memory.data() + index * kMatrixBytes, DType::fp32, kSize, kSize);
    };
    for (int i = 0; i < products; ++i)
      stream.kernels().run(Product{.a = matrix(0), .b = matrix(1), .out = matrix(2)});
  }

  static constexpr std::int64_t kSize = 2048;
  static constexpr Bytes kMatrixBytes = kSize * kSize * 4;
  std::unique_ptr<CudaDevice> device_;
};

TEST_F(CudaDeviceTest, SaysWhatItIs) {
  EXPECT_THAT(device_->name(), HasSubstr("GiB"));
  EXPECT_FALSE(device_->host_addressable());
  EXPECT_GT(device_->available_bytes(), GiB);
}

TEST_F(CudaDeviceTest, AGpuThatIsNotThereIsRefused) {
  EXPECT_THAT(why_no_cuda_device(1000), HasSubstr("there is no GPU 1000"));
}

TEST_F(CudaDeviceTest, AnAllocationThatDoesNotFitNamesWhatIsAskedForAndWhatIsFree) {
  try {
    device_->allocate(Bytes{1} << 50);
    FAIL();
  } catch (const DeviceError& error) {
    EXPECT_THAT(error.what(), HasSubstr("memory.device"));
    EXPECT_THAT(error.what(), HasSubstr("free"));
  }
  EXPECT_NE(device_->allocate(MiB)->data(), nullptr) << "the refusal must not stick";
}

TEST_F(CudaDeviceTest, CopiesBothWaysFromPinnedMemoryAndFromAnyThread) {
  Arena host(8 * MiB);
  const std::unique_ptr<PinnedHostMemory> pinned =
      device_->pin({host.data(), static_cast<std::size_t>(host.size())});
  const std::unique_ptr<DeviceMemory> memory = device_->allocate(4 * MiB);
  auto* from = reinterpret_cast<std::uint32_t*>(host.data());
  auto* to = reinterpret_cast<std::uint32_t*>(host.data() + 4 * MiB);
  std::iota(from, from + MiB, 7U);
  std::thread other([&] {
    const std::unique_ptr<Stream> stream = device_->make_stream();
    stream->copy_to_device(memory->data(), host.data(), 4 * MiB);
    stream->copy_to_host(host.data() + 4 * MiB, memory->data(), 4 * MiB);
    EXPECT_TRUE(record(*stream)->wait(60));
  });
  other.join();
  EXPECT_TRUE(std::equal(from, from + MiB, to));
}

#ifdef STRATA_CUDNN
TEST_F(CudaDeviceTest, AttentionGoesThroughCudnnAndWhatDoesNotIsSaidOnce) {
  const std::unique_ptr<Stream> stream = device_->make_stream();
  const std::unique_ptr<DeviceMemory> memory = device_->allocate(64 * MiB);
  const auto attend = [&](std::int64_t head_dimension, std::int64_t kv_heads, std::int64_t window,
                          DType dtype) {
    const AttentionShape shape{.batch = 2,
                               .sequence = 512,
                               .heads = 8,
                               .kv_heads = kv_heads,
                               .head_dimension = head_dimension,
                               .window = window,
                               .scale = 0.1F};
    Bytes used = 0;
    const auto matrix = [&](std::int64_t rows, std::int64_t columns, DType type) {
      const Matrix made(memory->data() + used, type, rows, columns);
      used = align_up(used + made.elements() * size_of(type), 256);
      return made;
    };
    const std::int64_t rows = shape.batch * shape.sequence;
    const auto heads = [&](std::int64_t count) { return matrix(rows, count * head_dimension, dtype); };
    const AttentionForward forward{shape,           heads(8), heads(kv_heads),
                                   heads(kv_heads), heads(8), matrix(2 * 8, shape.sequence, DType::fp32)};
    stream->kernels().run(forward);
    stream->kernels().run(AttentionBackward{.shape = shape,
                                            .query = forward.query,
                                            .key = forward.key,
                                            .value = forward.value,
                                            .out = forward.out,
                                            .log_sum_exp = forward.log_sum_exp,
                                            .out_gradient = heads(8),
                                            .query_gradient = heads(8),
                                            .key_gradient = heads(kv_heads),
                                            .value_gradient = heads(kv_heads)});
    ASSERT_TRUE(record(*stream)->wait(60));
  };
  for (const DType dtype : {DType::bf16, DType::fp16}) {
    attend(64, 8, 0, dtype);
    attend(128, 8, 0, dtype);
    attend(128, 2, 0, dtype);
    attend(64, 8, 128, dtype);
  }
  EXPECT_THAT(device_->slow_paths(), ::testing::IsEmpty());
  attend(64, 8, 0, DType::fp32);
  attend(64, 8, 0, DType::fp32);
  EXPECT_THAT(device_->slow_paths(), ::testing::ElementsAre(HasSubstr("fp32")));
}
#endif

TEST_F(CudaDeviceTest, NothingMayBePinnedAndCopied) {
  const std::unique_ptr<PinnedHostMemory> pinned = device_->pin({});
  device_->make_stream()->copy_to_device(nullptr, nullptr, 0);
}

TEST_F(CudaDeviceTest, AnEventWaitsNoLongerThanItIsTold) {
  const std::unique_ptr<Stream> stream = device_->make_stream();
  const std::unique_ptr<DeviceMemory> memory = device_->allocate(3 * kMatrixBytes);
  compute(*stream, *memory, 1);
  const std::unique_ptr<Event> start = record(*stream);
  compute(*stream, *memory, 100);
  const std::unique_ptr<Event> end = record(*stream);
  EXPECT_FALSE(end->wait(0));
  EXPECT_TRUE(end->wait(std::numeric_limits<double>::infinity()));
  EXPECT_GT(end->seconds_since(*start), 0.005);
  EXPECT_LT(end->seconds_since(*start), 10);
}

TEST_F(CudaDeviceTest, AStreamStartsAfterTheEventThatItWaitsFor) {
  Arena host(2 * kMatrixBytes);
  const std::unique_ptr<PinnedHostMemory> pinned =
      device_->pin({host.data(), static_cast<std::size_t>(host.size())});
  const std::unique_ptr<DeviceMemory> memory = device_->allocate(3 * kMatrixBytes);
  const std::unique_ptr<Stream> first = device_->make_stream(), second = device_->make_stream();
  auto* from = reinterpret_cast<float*>(host.data());
  std::fill(from, from + kSize * kSize, 3.0F);
  compute(*first, *memory, 50);
  first->copy_to_device(memory->data() + 2 * kMatrixBytes, host.data(), kMatrixBytes);
  second->wait(*record(*first));
  second->copy_to_host(host.data() + kMatrixBytes, memory->data() + 2 * kMatrixBytes, kMatrixBytes);
  ASSERT_TRUE(record(*second)->wait(60));
  EXPECT_TRUE(std::equal(from, from + kSize * kSize, from + kSize * kSize));
}

TEST_F(CudaDeviceTest, CopiesOfBothDirectionsOverlapComputing) {
  constexpr Bytes kCopy = 256 * MiB;
  Arena host(2 * kCopy);
  const std::unique_ptr<PinnedHostMemory> pinned =
      device_->pin({host.data(), static_cast<std::size_t>(host.size())});
  const std::unique_ptr<DeviceMemory> matrices = device_->allocate(3 * kMatrixBytes);
  const std::unique_ptr<DeviceMemory> copies = device_->allocate(2 * kCopy);
  const std::unique_ptr<Stream> computing = device_->make_stream(), down = device_->make_stream(),
                                up = device_->make_stream();
  const auto seconds = [&](bool overlapped) {
    const auto finish = [&](Stream& stream) { EXPECT_TRUE(record(stream)->wait(60)); };
    const auto start = std::chrono::steady_clock::now();
    compute(*computing, *matrices, 20);
    if (!overlapped) finish(*computing);
    up->copy_to_device(copies->data(), host.data(), kCopy);
    if (!overlapped) finish(*up);
    down->copy_to_host(host.data() + kCopy, copies->data() + kCopy, kCopy);
    for (Stream* stream : {computing.get(), up.get(), down.get()}) finish(*stream);
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  };
  seconds(false);
  EXPECT_LT(seconds(true), 0.8 * seconds(false));
}

}  // namespace
}  // namespace strata
#endif
