// cuDNN's plans of attention for GPUs that are not here: it computes what models ask for, in the scratch that
// plans count.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <string>

#include "engine/device/attention_calls.h"
#include "engine/device/cuda/attention_chunk.h"
#include "engine/device/cuda/attention_cudnn.h"
#include "engine/device/cuda/document_classes.h"

namespace strata {
namespace {

struct Gpu {
  std::string name;
  DescribedGpu description;
};

/// As cuDNN writes them. Shared memory, registers and threads: CUDA C++ Programming Guide, compute
/// capabilities; the rest: data sheets.
std::string properties(const std::string& name, int sm_version, int processors, int shared_bytes,
                       std::int64_t memory) {
  return R"({"maxGridSize": [2147483647, 65535, 65535], "maxBlockSize": [1024, 1024, 64], "regsPerBlock": 65536,)"
         R"( "multiProcessorCount": )" +
         std::to_string(processors) +
         R"(, "smClockRateKHz": 1700000, "memClockRateKHz": 2600000, "l2CacheSize": 52428800, "warpSize": 32,)"
         R"( "maxSharedMemoryPerBlock": 49152, "maxSharedMemoryPerBlockOptin": )" +
         std::to_string(shared_bytes) +
         R"(, "reservedSharedMemoryPerBlock": 1024, "maxRegistersPerSM": 65536, "pciDeviceId": 0, "maxCtasPerSM": 32,)"
         R"( "maxThreadsPerBlock": 1024, "maxThreadsPerSM": 2048, "isTccDriver": 0, "supportCoopLaunch": 1,)"
         R"( "deviceName": ")" +
         name + R"(", "cudaDeviceId": 0, "deviceVer": )" + std::to_string(10 * sm_version) +
         R"(, "driverVer": 13000, "totalGlobalMem": )" + std::to_string(memory) + "}";
}

std::vector<Gpu> gpus() {
  std::vector<Gpu> all;
  const auto add = [&](const std::string& name, int sm_version, int processors, int shared_bytes,
                       Bytes memory) {
    all.push_back({name, {sm_version, properties(name, sm_version, processors, shared_bytes, memory)}});
  };
  add("NVIDIA A100", 80, 108, 166912, 80 * GiB);
  add("NVIDIA H200", 90, 132, 232448, 140 * GiB);
  add("NVIDIA B200", 100, 148, 232448, 180 * GiB);
  add("NVIDIA GeForce RTX 5090", 120, 170, 101376, 32 * GiB);
  return all;
}

class CudnnPlans : public ::testing::Test {
 protected:
  /// cuDNN hands the code of its plans to a driver, which it finds by its name.
  static void SetUpTestSuite() {
    ASSERT_NE(::dlopen(STRATA_DRIVER_WITHOUT_GPU, RTLD_NOW | RTLD_GLOBAL), nullptr) << ::dlerror();
  }

  static void expect_computed(const Gpu& gpu, const AttentionShape& shape, DType dtype) {
    expect_plans(gpu, call_of(shape, dtype), cudnn_forward_bytes(shape),
                 cudnn_workspace_bytes(shape, *backward_chunk(shape)));
  }

  /// All plans that a call within documents needs.
  static void expect_computed_within_documents(const Gpu& gpu, const AttentionShape& shape, DType dtype) {
    AttentionBackward call = call_of(shape, dtype);
    call.places = {reinterpret_cast<const std::int32_t*>(kNowhere),
                   static_cast<std::size_t>(call.query.rows)};
    const AttentionShape part = part_shape(shape, *document_chunk(shape));
    expect_plans(gpu, call, slot_forward_bytes(part), slot_backward_bytes(part));
  }

  /// Operands at addresses that nobody follows; query, key and value are columns of one matrix.
  static AttentionBackward call_of(const AttentionShape& shape, DType dtype) {
    const std::int64_t rows = shape.batch * shape.sequence, columns = shape.heads * shape.head_dimension,
                       kv_columns = shape.kv_heads * shape.head_dimension;
    const Matrix all(kNowhere, dtype, rows, columns + 2 * kv_columns), out(kNowhere, dtype, rows, columns);
    return {.shape = shape,
            .query = all.column_slice(0, columns),
            .key = all.column_slice(columns, kv_columns),
            .value = all.column_slice(columns + kv_columns, kv_columns),
            .out = out,
            .log_sum_exp = Matrix(kNowhere, DType::fp32, shape.batch * shape.heads, shape.sequence),
            .out_gradient = out,
            .query_gradient = all.column_slice(0, columns),
            .key_gradient = all.column_slice(columns, kv_columns),
            .value_gradient = all.column_slice(columns + kv_columns, kv_columns)};
  }

  static Places places_of(const AttentionBackward& call) {
    return {reinterpret_cast<const std::int32_t*>(kNowhere), static_cast<std::size_t>(call.query.rows)};
  }

 private:
  /// That there are plans whose workspaces are no larger.
  static void expect_plans(const Gpu& gpu, const AttentionBackward& backward, Bytes forward_bytes,
                           Bytes backward_bytes) {
    const AttentionShape& shape = backward.shape;
    SCOPED_TRACE(::testing::Message()
                 << gpu.name << ", " << name_of(backward.query.dtype) << ", " << shape.batch << " x "
                 << shape.sequence << " tokens, " << shape.heads << " heads of " << shape.head_dimension
                 << ", " << shape.kv_heads << " of keys, window " << shape.window);
    const AttentionForward forward{.shape = shape,
                                   .query = backward.query,
                                   .key = backward.key,
                                   .value = backward.value,
                                   .out = backward.out,
                                   .log_sum_exp = backward.log_sum_exp,
                                   .places = backward.places};
    const CudnnAnswer forward_plan = ask_cudnn(forward, gpu.description);
    EXPECT_EQ(forward_plan.refusal, "");
    EXPECT_LE(forward_plan.workspace_bytes, forward_bytes);
    const CudnnAnswer backward_plan = ask_cudnn(backward, gpu.description);
    EXPECT_EQ(backward_plan.refusal, "");
    EXPECT_LE(backward_plan.workspace_bytes, backward_bytes);
  }

  static inline std::byte* const kNowhere = reinterpret_cast<std::byte*>(std::uintptr_t{1} << 32);
};

AttentionShape shape(std::int64_t batch, std::int64_t sequence, std::int64_t heads, std::int64_t kv_heads,
                     std::int64_t head_dimension, std::int64_t window = 0) {
  return {.batch = batch,
          .sequence = sequence,
          .heads = heads,
          .kv_heads = kv_heads,
          .head_dimension = head_dimension,
          .window = window,
          .scale = 0.125F};
}

// Invariant (CudnnPlans.*): The CUDA device keeps its interface.
TEST_F(CudnnPlans, AreMadeForHeadSizesGroupsAndWindows) {
  const Gpu h200 = gpus()[1];
  ASSERT_EQ(h200.description.sm_version, 90);
  expect_computed(h200, shape(8, 1024, 12, 12, 64), DType::bf16);
  expect_computed(h200, shape(4, 2048, 32, 8, 64), DType::fp16);
  expect_computed(h200, shape(2, 4096, 32, 8, 128), DType::bf16);
  expect_computed(h200, shape(2, 4096, 32, 8, 128, 1024), DType::bf16);
  expect_computed(h200, shape(1, 500, 9, 3, 96), DType::bf16);
  expect_computed(h200, shape(2, 2048, 16, 8, 256), DType::bf16);
}

TEST_F(CudnnPlans, AreMadeForLongSequencesInPartsOfGroups) {
  const AttentionShape group = shape(1, 16384, 32, 8, 128);
  ASSERT_EQ(backward_chunk(group)->group, 2);
  expect_computed(gpus()[1], group, DType::bf16);
  expect_computed(gpus()[1], shape(1, 32768, 32, 8, 128), DType::bf16);
}

TEST_F(CudnnPlans, AreMadeForEveryGeneration) {
  for (const Gpu& gpu : gpus()) expect_computed(gpu, shape(2, 2048, 32, 8, 128), DType::bf16);
}

TEST_F(CudnnPlans, AreMadeForDocumentsOnEveryGeneration) {
  for (const Gpu& gpu : gpus()) expect_computed_within_documents(gpu, shape(2, 500, 32, 8, 128), DType::bf16);
}

TEST_F(CudnnPlans, AreMadeForDocumentsInPartsOfGroupsAndWithWindows) {
  expect_computed_within_documents(gpus()[1], shape(1, 1000, 9, 3, 96, 300), DType::fp16);
  const AttentionShape group = shape(1, 16384, 32, 8, 128);
  ASSERT_EQ(document_chunk(group)->group, 2);
  expect_computed_within_documents(gpus()[1], group, DType::bf16);
}

TEST_F(CudnnPlans, SayWhatIsRefusedInOneLine) {
  const CudnnAnswer answer = ask_cudnn(call_of(shape(1, 512, 2, 2, 520), DType::bf16), gpus()[1].description);
  EXPECT_NE(answer.refusal, "");
  EXPECT_EQ(answer.refusal.find('\n'), std::string::npos) << answer.refusal;
  EXPECT_LE(answer.refusal.size(), 300U);
  AttentionBackward within_documents = call_of(shape(1, 512, 2, 2, 520), DType::bf16);
  within_documents.places = places_of(within_documents);
  EXPECT_EQ(ask_cudnn(within_documents, gpus()[1].description).refusal, answer.refusal);
  const CudnnAnswer unknown = ask_cudnn(call_of(shape(1, 512, 2, 2, 64), DType::bf16), {90, "{}"});
  EXPECT_NE(unknown.refusal.find("description of the GPU"), std::string::npos) << unknown.refusal;
}

}  // namespace
}  // namespace strata
