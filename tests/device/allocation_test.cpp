// Kernels set their scratch up when they first see a shape; after that a step allocates nothing that grows
// with the problem. Counted by replacing the global operator new of this test program; small blocks are the
// task scheduler's.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <new>

#include "engine/device/cpu/cpu_device.h"
#include "tests/device/kernel_scenarios.h"

namespace {

constexpr std::size_t kLarge = 4096;
std::atomic<std::int64_t> large_blocks = 0;

void* counted(std::size_t size) {
  if (size >= kLarge) ++large_blocks;
  if (void* memory = std::malloc(size == 0 ? 1 : size)) return memory;
  throw std::bad_alloc();
}

}  // namespace

void* operator new(std::size_t size) {
  return counted(size);
}
void* operator new[](std::size_t size) {
  return counted(size);
}
void operator delete(void* memory) noexcept {
  std::free(memory);
}
void operator delete(void* memory, std::size_t) noexcept {
  std::free(memory);
}
void operator delete[](void* memory) noexcept {
  std::free(memory);
}
void operator delete[](void* memory, std::size_t) noexcept {
  std::free(memory);
}

namespace strata {
namespace {

std::vector<Scenario> every_kernel() {
  const AttentionShape shape{
      .batch = 2, .sequence = 140, .heads = 4, .kv_heads = 2, .head_dimension = 32, .scale = 0.2F};
  constexpr DType bf16 = DType::bf16;
  return {
      matmul_scenario({.m = 301, .n = 130, .k = 257, .bias = true, .dtype = bf16, .out = bf16}),
      matmul_scenario({.m = 130, .n = 301, .k = 257, .transpose_a = true, .accumulate = true, .dtype = bf16}),
      column_sums_scenario(bf16, 300, 768),
      norm_scenario(NormKind::layer_norm, bf16, 100, 768, true),
      norm_backward_scenario(NormKind::layer_norm, bf16, 100, 768, GradientPlace::own),
      attention_scenario(shape, bf16),
      attention_backward_scenario(shape, bf16),
      rope_scenario(bf16, 3, 100, 4, 64, false),
      gelu_scenario(bf16, 100, 1030, 0, false),
      swiglu_backward_scenario(bf16, 100, 515, 0, true),
      cross_entropy_scenario(bf16, 20, 2000, 0)};
}

TEST(Kernels, AllocateNothingLargeForAShapeTheyHaveSeen) {
  CpuDevice device({.threads = 2, .link = {}});
  for (Scenario& scenario : every_kernel()) {
    const std::unique_ptr<Kernels> kernels = device.make_kernels();
    std::vector<Matrix> views;
    for (Operand& operand : scenario.operands) views.push_back(operand.view());
    scenario.call(*kernels, views);
    const std::int64_t before = large_blocks;
    for (int repeat = 0; repeat < 5; ++repeat) scenario.call(*kernels, views);
    EXPECT_EQ(large_blocks, before) << scenario.name;
  }
  EXPECT_GT(large_blocks, 0) << "the operands themselves must have been counted";
}

}  // namespace
}  // namespace strata
