#include "engine/device/cpu/cpu_device.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <numeric>
#include <thread>
#include <vector>

namespace strata {
namespace {

TEST(CpuDevice, ReservesItsTierOnce) {
  CpuDevice device({.threads = 2, .link = {}});
  EXPECT_EQ(device.arena().size(), 0);
  std::byte* memory = device.reserve(3 * MiB);
  EXPECT_EQ(memory, device.arena().data());
  EXPECT_EQ(device.arena().size(), 3 * MiB);
  EXPECT_EQ(device.name(), "cpu, 2 threads");
}

TEST(CpuDevice, WithoutAThreadCountUsesTheCores) {
  EXPECT_GE(CpuDevice({}).threads(), 1);
}

TEST(CpuDevice, CopiesBothWays) {
  CpuDevice device({.threads = 1, .link = {}});
  std::byte* memory = device.reserve(100);
  std::vector<std::byte> from(100), to(100);
  for (std::size_t i = 0; i < from.size(); ++i) from[i] = static_cast<std::byte>(i);
  device.copy_to_device(memory, from.data(), 100);
  device.copy_to_host(to.data(), memory, 100);
  EXPECT_EQ(to, from);
}

TEST(CpuDevice, LimitsEachDirectionToItsOwnRate) {
  CpuDevice device({.threads = 1, .link = {.to_device = 1e6, .to_host = std::nullopt}});
  std::byte* memory = device.reserve(8 * KiB);
  std::vector<std::byte> host(8 * KiB);
  const auto start = std::chrono::steady_clock::now();
  device.copy_to_device(memory, host.data(), 8 * KiB);
  EXPECT_GE(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count(), 8192 / 1e6);
}

TEST(CpuDevice, RunsWorkOnItsThreadsFromAnyThread) {
  CpuDevice device({.threads = 2, .link = {}});
  std::atomic<int> runs = 0;
  std::thread other([&] { device.execute([&] { ++runs; }); });
  device.execute([&] { ++runs; });
  other.join();
  EXPECT_EQ(runs, 2);
}

TEST(CpuDevice, KernelsOfTwoLanesWorkAtTheSameTime) {
  CpuDevice device({.threads = 2, .link = {}});
  constexpr std::int64_t kSize = 120;
  const auto lane = [&](float value, std::vector<float>& out) {
    const std::unique_ptr<Kernels> kernels = device.make_kernels();
    std::vector<float> a(kSize * kSize, value);
    for (int repeat = 0; repeat < 20; ++repeat) {
      kernels->matmul({.a = {a.data(), DType::fp32, kSize, kSize},
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
