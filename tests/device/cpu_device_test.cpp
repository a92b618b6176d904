#include "engine/device/cpu/cpu_device.h"

#include <gtest/gtest.h>

#include <chrono>
#include <thread>
#include <vector>

#include "base/dirty_memory.h"
#include "engine/device/product_calls.h"

namespace strata {
namespace {

TEST(CpuDevice, GivesMemoryThatTheHostAddresses) {
  const DirtyMemory untouched(false);
  CpuDevice device({.threads = 2, .link = {}});
  const std::unique_ptr<DeviceMemory> memory = device.allocate(3 * MiB);
  EXPECT_TRUE(device.host_addressable());
  EXPECT_EQ(memory->resident_bytes(), 0);
  memory->data()[2 * MiB] = std::byte{1};
  EXPECT_GT(memory->resident_bytes(), 0);
  EXPECT_EQ(device.name(), "cpu, 2 threads");
}

TEST(CpuDevice, WithoutAThreadCountUsesTheCores) {
  EXPECT_GE(CpuDevice({}).threads(), 1);
}

TEST(CpuDevice, CopiesBothWays) {
  CpuDevice device({.threads = 1, .link = {}});
  const std::unique_ptr<Stream> stream = device.make_stream();
  const std::unique_ptr<DeviceMemory> memory = device.allocate(100);
  std::vector<std::byte> from(100), to(100);
  for (std::size_t i = 0; i < from.size(); ++i) from[i] = static_cast<std::byte>(i);
  stream->copy_to_device(memory->data(), from.data(), 100);
  stream->copy_to_host(to.data(), memory->data(), 100);
  EXPECT_EQ(to, from);
}

TEST(CpuDevice, LimitsEachDirectionToItsOwnRate) {
  CpuDevice device({.threads = 1, .link = {.to_device = 1e6, .to_host = std::nullopt}});
  const std::unique_ptr<Stream> stream = device.make_stream();
  const std::unique_ptr<DeviceMemory> memory = device.allocate(8 * KiB);
  std::vector<std::byte> host(8 * KiB);
  const auto start = std::chrono::steady_clock::now();
  stream->copy_to_device(memory->data(), host.data(), 8 * KiB);
  EXPECT_GE(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count(), 8192 / 1e6);
}

TEST(CpuDevice, EventsHaveHappenedAndMeasureTheTimeBetween) {
  CpuDevice device({.threads = 1, .link = {.to_device = 1e6, .to_host = std::nullopt}});
  const std::unique_ptr<Stream> stream = device.make_stream();
  const std::unique_ptr<DeviceMemory> memory = device.allocate(8 * KiB);
  const std::unique_ptr<Event> start = stream->make_event(), end = stream->make_event();
  std::vector<std::byte> host(8 * KiB);
  stream->record(*start);
  stream->copy_to_device(memory->data(), host.data(), 8 * KiB);
  stream->record(*end);
  EXPECT_TRUE(end->wait(0));
  EXPECT_GE(end->seconds_since(*start), 8192 / 1e6);
}

TEST(CpuDevice, KernelsOfTwoStreamsWorkAtTheSameTime) {
  CpuDevice device({.threads = 2, .link = {}});
  constexpr std::int64_t kSize = 120;
  const auto lane = [&](float value, std::vector<float>& out) {
    const std::unique_ptr<Stream> stream = device.make_stream();
    std::vector<float> a(kSize * kSize, value);
    for (int repeat = 0; repeat < 20; ++repeat) {
      stream->kernels().run(Product{.a = {a.data(), DType::fp32, kSize, kSize},
                                    .b = {a.data(), DType::fp32, kSize, kSize},
                                    .out = {out.data(), DType::fp32, kSize, kSize}});
    }
  };
  std::vector<float> first(kSize * kSize), second(kSize * kSize);
  std::thread other(lane, 2.0F, std::ref(second));
  lane(1.0F, first);
  other.join();
  EXPECT_EQ(first, std::vector<float>(kSize * kSize, 120.0F));
  EXPECT_EQ(second, std::vector<float>(kSize * kSize, 480.0F));
}

}  // namespace
}  // namespace strata
