// The emulator itself: what kernels see, and what it refuses.
#include <gtest/gtest.h>

#include <stdexcept>
#include <thread>
#include <vector>

#include "engine/config/choices.h"
#include "engine/device/cuda/launch.cuh"

namespace strata {
namespace {

constexpr unsigned kAllLanes = 0xffffffffU;

__global__ void write_position(unsigned* out) {
  const unsigned thread = (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
  const unsigned block = (blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
  out[block * (blockDim.x * blockDim.y * blockDim.z) + thread] += 1000 * block + thread;
}

TEST(Emulation, RunsEveryThreadOfEveryBlockOnce) {
  std::vector<unsigned> out(2 * 3 * 4 * 5 * 6 * 7);
  launch(write_position, dim3(2, 3, 4), dim3(5, 6, 7), 0, nullptr, out.data());
  for (unsigned i = 0; i < out.size(); ++i) EXPECT_EQ(out[i], i / 210 * 1000 + i % 210);
}

__global__ void reverse(int* values) {
  __shared__ int copies[256];
  for (int repeat = 0; repeat < 3; ++repeat) {
    copies[threadIdx.x] = values[threadIdx.x];
    __syncthreads();
    values[threadIdx.x] = copies[blockDim.x - 1 - threadIdx.x];
    __syncthreads();
  }
}

TEST(Emulation, ABarrierWaitsForAllThreads) {
  for (const auto order : {cuda_emulation::Order::forward, cuda_emulation::Order::backward}) {
    cuda_emulation::set_order(order);
    std::vector<int> values(200);
    for (int i = 0; i < 200; ++i) values[static_cast<std::size_t>(i)] = i;
    launch(reverse, 1, 200, 0, nullptr, values.data());
    for (int i = 0; i < 200; ++i) EXPECT_EQ(values[static_cast<std::size_t>(i)], 199 - i);
  }
  cuda_emulation::set_order(cuda_emulation::Order::forward);
}

/// Lacks a barrier between its write and its read.
__global__ void race(int* out) {
  int* shared = dynamic_shared<int>();
  shared[threadIdx.x] = static_cast<int>(threadIdx.x);
  out[threadIdx.x] = shared[(threadIdx.x + 1) % blockDim.x];
}

TEST(Emulation, TheOrderOfThreadsShowsAMissingBarrier) {
  std::vector<int> forward(64), backward(64);
  launch(race, 1, 64, 64 * sizeof(int), nullptr, forward.data());
  cuda_emulation::set_order(cuda_emulation::Order::backward);
  launch(race, 1, 64, 64 * sizeof(int), nullptr, backward.data());
  cuda_emulation::set_order(cuda_emulation::Order::forward);
  EXPECT_NE(forward, backward);
}

/// Lacks a barrier at the end of its loop, before the word is overwritten.
__global__ void overtake(int* out) {
  __shared__ int word;
  for (int repeat = 0; repeat < 2; ++repeat) {
    if (threadIdx.x == 0) word = repeat;
    __syncthreads();
    out[threadIdx.x] += word;
  }
}

TEST(Emulation, AWarpRunsAheadOfTheOthersAsFarAsBarriersLetIt) {
  std::vector<int> out(64);
  launch(overtake, 1, 64, 0, nullptr, out.data());
  EXPECT_EQ(out[0], 1);
  EXPECT_EQ(out[63], 2);
}

__global__ void shuffle_all(int* out) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int value = 100 + static_cast<int>(threadIdx.x);
  int* own = out + 6 * threadIdx.x;
  own[0] = __shfl_xor_sync(kAllLanes, value, 5);
  own[1] = __shfl_down_sync(kAllLanes, value, 3U);
  own[2] = __shfl_up_sync(kAllLanes, value, 3U);
  own[3] = __shfl_sync(kAllLanes, value, 31 - lane);
  own[4] = __shfl_sync(kAllLanes, value, 2, 8);
  own[5] = __shfl_down_sync(kAllLanes, value, 6U, 8);
}

TEST(Emulation, ShufflesReadOtherLanesOfTheirWarp) {
  std::vector<int> out(6 * 64);
  launch(shuffle_all, 1, 64, 0, nullptr, out.data());
  for (int thread = 0; thread < 64; ++thread) {
    const int lane = thread % 32, warp = 100 + thread / 32 * 32;
    const int* own = &out[static_cast<std::size_t>(6 * thread)];
    EXPECT_EQ(own[0], warp + (lane ^ 5));
    EXPECT_EQ(own[1], warp + (lane + 3 < 32 ? lane + 3 : lane));
    EXPECT_EQ(own[2], warp + (lane >= 3 ? lane - 3 : lane));
    EXPECT_EQ(own[3], warp + 31 - lane);
    EXPECT_EQ(own[4], warp + lane / 8 * 8 + 2);
    EXPECT_EQ(own[5], warp + (lane % 8 < 2 ? lane + 6 : lane));
  }
}

__global__ void shuffle_doubles(double* out) {
  out[threadIdx.x] = __shfl_xor_sync(kAllLanes, 1e-3 * threadIdx.x, 1);
}

TEST(Emulation, ShufflesMoveDoubles) {
  std::vector<double> out(32);
  launch(shuffle_doubles, 1, 32, 0, nullptr, out.data());
  for (unsigned i = 0; i < 32; ++i) EXPECT_EQ(out[i], 1e-3 * (i ^ 1U));
}

/// The second half of each warp has returned, or never was.
__global__ void shuffle_with_absent_lanes(float* out) {
  if (threadIdx.x % 32 >= 16) return;
  out[threadIdx.x] = __shfl_xor_sync(kAllLanes, 1.0F, static_cast<int>(threadIdx.x % 2) * 16);
}

TEST(Emulation, WhatAnAbsentLaneWouldSayIsNaN) {
  std::vector<float> out(48);
  launch(shuffle_with_absent_lanes, 1, 48, 0, nullptr, out.data());
  for (const unsigned thread : {0U, 2U, 32U, 46U}) EXPECT_EQ(out[thread], 1.0F);
  for (const unsigned thread : {1U, 15U, 33U, 47U}) EXPECT_NE(out[thread], out[thread]);
}

/// Two halves of a warp that do different things.
__global__ void shuffle_in_halves(int* out) {
  const int value = static_cast<int>(threadIdx.x);
  if (threadIdx.x < 16) {
    out[threadIdx.x] = __shfl_sync(0xffffU, value, 3);
  } else {
    __syncwarp(0xffff0000U);
    out[threadIdx.x] = __shfl_xor_sync(0xffff0000U, value, 1);
  }
}

TEST(Emulation, HalvesOfAWarpMayDiverge) {
  std::vector<int> out(32);
  launch(shuffle_in_halves, 1, 32, 0, nullptr, out.data());
  for (int i = 0; i < 32; ++i) EXPECT_EQ(out[static_cast<std::size_t>(i)], i < 16 ? 3 : i ^ 1);
}

__global__ void read_dynamic_shared(float* out) {
  out[blockIdx.x * blockDim.x + threadIdx.x] = dynamic_shared<float>()[threadIdx.x];
  dynamic_shared<float>()[threadIdx.x] = 0;
}

TEST(Emulation, DynamicSharedMemoryIsNaNInEveryBlock) {
  std::vector<float> out(12);
  launch(read_dynamic_shared, 3, 4, 16, nullptr, out.data());
  for (const float value : out) EXPECT_NE(value, value);
}

__global__ void some_return(int returning) {
  if (static_cast<int>(threadIdx.x) < returning) return;
  __syncthreads();
}
__global__ void lanes_disagree() {
  if (threadIdx.x == 0) {
    __shfl_xor_sync(kAllLanes, 1, 1);
  } else {
    __shfl_down_sync(kAllLanes, 1, 1U);
  }
}
__global__ void lane_outside_its_mask() {
  __syncwarp(1);
}
__global__ void warp_and_barrier() {
  if (threadIdx.x == 0) {
    __syncwarp();
  } else {
    __syncthreads();
  }
}
__global__ void nothing() {}

TEST(Emulation, RefusesWhatCudaLeavesUndefined) {
  EXPECT_THROW(launch(some_return, 2, 100, 0, nullptr, 3), std::logic_error);
  EXPECT_THROW(launch(lanes_disagree, 1, 32, 0, nullptr), std::logic_error);
  EXPECT_THROW(launch(lane_outside_its_mask, 1, 32, 0, nullptr), std::logic_error);
  EXPECT_THROW(launch(warp_and_barrier, 1, 32, 0, nullptr), std::logic_error);
  launch(some_return, 2, 100, 0, nullptr, 0);
}

TEST(Emulation, RefusesWhatCudaWouldNotStart) {
  EXPECT_THROW(launch(nothing, 0, 32, 0, nullptr), std::logic_error);
  EXPECT_THROW(launch(nothing, dim3(1, 65536), 32, 0, nullptr), std::logic_error);
  EXPECT_THROW(launch(nothing, 1, 1025, 0, nullptr), std::logic_error);
  EXPECT_THROW(launch(nothing, 1, 32, 47 * 1024, nullptr), std::logic_error)
      << "with what the driver reserves it is 48 KiB, and the kernel's own variables come on top";
  launch(nothing, 1, 1024, 46 * 1024, nullptr);
}

TEST(Emulation, LaunchesOfSeveralThreadsTakeTurns) {
  std::vector<std::vector<int>> values(4, std::vector<int>(200));
  std::vector<std::thread> threads;
  threads.reserve(values.size());
  for (std::vector<int>& own : values) {
    threads.emplace_back([&own] {
      own[0] = 1;
      for (int repeat = 0; repeat < 20; ++repeat) launch(reverse, 1, 200, 0, nullptr, own.data());
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const std::vector<int>& own : values) EXPECT_EQ(own[0], 1);
}

}  // namespace
}  // namespace strata
