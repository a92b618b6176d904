// Products by cuBLASLt and attention by cuDNN against the reference, on operands that suit both.
#ifdef STRATA_CUDA
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <array>
#include <memory>
#include <vector>

#include "engine/device/cuda/attention_chunk.h"
#include "engine/device/cuda/cuda_device.h"
#include "engine/device/reference/reference_kernels.h"
#include "tests/device/kernel_scenarios.h"

namespace strata {
namespace {

class CudaLibraries : public ::testing::Test {
 protected:
  void SetUp() override {
    if (const std::string why = why_no_cuda_device(); !why.empty()) GTEST_SKIP() << why;
    device_ = std::make_unique<CudaDevice>();
    stream_ = device_->make_stream();
  }

  /// The operands after the call, which sees copies of them on the GPU.
  std::vector<Operand> run_on_gpu(const Scenario& scenario) {
    std::vector<Operand> operands = scenario.operands;
    std::vector<std::unique_ptr<DeviceMemory>> memory;
    std::vector<Matrix> views;
    for (Operand& operand : operands) {
      Matrix view = operand.view();
      memory.push_back(device_->allocate(bytes(operand)));
      stream_->copy_to_device(memory.back()->data(), static_cast<std::byte*>(view.data), bytes(operand));
      view.data = memory.back()->data();
      views.push_back(view);
    }
    scenario.call(stream_->kernels(), views);
    for (std::size_t i = 0; i < operands.size(); ++i) {
      stream_->copy_to_host(static_cast<std::byte*>(operands[i].view().data), memory[i]->data(),
                            bytes(operands[i]));
    }
    const std::unique_ptr<Event> done = stream_->make_event();
    stream_->record(*done);
    EXPECT_TRUE(done->wait(60));
    return operands;
  }

  void expect_agrees_and_repeats(const Scenario& scenario) {
    SCOPED_TRACE(scenario.name);
    const std::vector<Operand> actual = run_on_gpu(scenario), again = run_on_gpu(scenario);
    std::vector<Operand> expected;
    for (const Operand& operand : scenario.operands) expected.push_back(operand.widened());
    std::vector<Matrix> views;
    for (Operand& operand : expected) views.push_back(operand.view());
    ReferenceKernels reference;
    scenario.call(reference, views);
    for (std::size_t i = 0; i < actual.size(); ++i) {
      EXPECT_LE(relative_error(actual[i], expected[i]), scenario.tolerance(actual[i].dtype()))
          << "operand " << i;
      EXPECT_TRUE(actual[i].padding_is_untouched()) << "operand " << i;
      EXPECT_EQ(actual[i].memory(), again[i].memory()) << "operand " << i << " differs from call to call";
    }
  }

  static Bytes bytes(const Operand& operand) { return static_cast<Bytes>(operand.memory().size()); }

  std::unique_ptr<CudaDevice> device_;
  std::unique_ptr<Stream> stream_;
};

TEST_F(CudaLibraries, ProductsAgreeForEverySizeLayoutAndType) {
  for (const auto& [m, n, k] :
       {std::array{1, 1, 1}, {3, 17, 65}, {65, 3, 17}, {64, 64, 64}, {200, 72, 264}}) {
    for (const bool transpose_a : {false, true}) {
      for (const bool transpose_b : {false, true}) {
        for (const DType dtype : {DType::fp32, DType::bf16}) {
          for (const DType out : {DType::fp32, dtype}) {
            for (const std::int64_t padding : {0, 3, 8}) {
              for (const bool extras : {false, true}) {
                expect_agrees_and_repeats(matmul_scenario({.m = m,
                                                           .n = n,
                                                           .k = k,
                                                           .transpose_a = transpose_a,
                                                           .transpose_b = transpose_b,
                                                           .accumulate = extras,
                                                           .bias = extras,
                                                           .padding = padding,
                                                           .dtype = dtype,
                                                           .out = out}));
              }
            }
          }
        }
      }
    }
  }
}

TEST_F(CudaLibraries, ALongDepthIsSplitTheSameWayEveryTime) {
  for (const DType dtype : {DType::fp32, DType::bf16}) {
    expect_agrees_and_repeats(matmul_scenario({.m = 64,
                                               .n = 64,
                                               .k = 8192,
                                               .transpose_a = true,
                                               .accumulate = true,
                                               .dtype = dtype,
                                               .out = DType::fp32}));
  }
}

/// Query, key and value are column slices of one matrix, aligned as cuDNN needs them.
Scenario aligned_attention(const AttentionShape& shape) {
  const std::int64_t rows = shape.batch * shape.sequence, queries = shape.heads * shape.head_dimension,
                     keys = shape.kv_heads * shape.head_dimension;
  Operand out(DType::bf16, rows, queries),
      log_sum_exp(DType::fp32, shape.batch * shape.heads, shape.sequence);
  Operand fused = random_operand(1, DType::bf16, rows, queries + 2 * keys, 8);
  const auto forward = [=](const Matrix& x, const Matrix& result, const Matrix& statistics) {
    return AttentionForward{shape,
                            x.column_slice(0, queries),
                            x.column_slice(queries, keys),
                            x.column_slice(queries + keys, keys),
                            result,
                            statistics};
  };
  ReferenceKernels().attention(forward(fused.view(), out.view(), log_sum_exp.view()));
  Scenario scenario;
  scenario.name =
      fmt::format("attention batch {} sequence {} heads {}/{} dimension {} window {}", shape.batch,
                  shape.sequence, shape.heads, shape.kv_heads, shape.head_dimension, shape.window);
  scenario.operands = {fused,
                       out,
                       log_sum_exp,
                       random_operand(2, DType::bf16, rows, queries),
                       poisoned_operand(DType::bf16, rows, queries + 2 * keys, 8),
                       poisoned_operand(DType::bf16, rows, queries),
                       poisoned_operand(DType::fp32, shape.batch * shape.heads, shape.sequence)};
  scenario.fp32_tolerance = 1e-3;  // of log_sum_exp: products of bf16 numbers, accumulated in another order
  scenario.bf16_tolerance = 1.5e-2;
  scenario.call = [=](Kernels& kernels, const std::vector<Matrix>& x) {
    const AttentionForward call = forward(x[0], x[5], x[6]);
    kernels.attention(call);
    kernels.attention_backward({.shape = shape,
                                .query = call.query,
                                .key = call.key,
                                .value = call.value,
                                .out = x[1],
                                .log_sum_exp = x[2],
                                .out_gradient = x[3],
                                .query_gradient = x[4].column_slice(0, queries),
                                .key_gradient = x[4].column_slice(queries, keys),
                                .value_gradient = x[4].column_slice(queries + keys, keys)});
  };
  return scenario;
}

TEST_F(CudaLibraries, AttentionAgreesBothWays) {
  const AttentionShape shape{
      .batch = 2, .sequence = 128, .heads = 4, .kv_heads = 4, .head_dimension = 64, .scale = 0.125F};
  std::vector<AttentionShape> shapes(7, shape);
  shapes[1].kv_heads = 2;
  shapes[2].sequence = 200;
  shapes[3].head_dimension = 128;
  shapes[4].head_dimension = 80;
  shapes[5].window = 70;
  shapes[6].sequence = 530;
  shapes[6].window = 1;
  for (const AttentionShape& each : shapes) expect_agrees_and_repeats(aligned_attention(each));
}

TEST_F(CudaLibraries, AttentionInChunksOfHeadsIsAttention) {
  const AttentionShape shape{
      .batch = 1, .sequence = 3000, .heads = 16, .kv_heads = 8, .head_dimension = 8, .scale = 0.35F};
  ASSERT_LT(backward_chunk(shape)->kv_heads, shape.kv_heads);
  expect_agrees_and_repeats(aligned_attention(shape));
}

}  // namespace
}  // namespace strata
#endif
