// Attention within documents over slots, with the reference in cuDNN's place, against the reference over the
// whole call.
#include "engine/device/cuda/attention_documents.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "base/storage_type.h"
#include "engine/device/attention_calls.h"
#include "engine/device/reference/reference_kernels.h"
#include "tests/cuda_emulation/emulated_kernels.h"
#include "tests/device/kernel_scenarios.h"

namespace strata {
namespace {

/// What is behind the first `tokens` rows of a slot, or columns of its heads' statistics.
Matrix behind(const Matrix& of_slot, std::int64_t tokens) {
  return of_slot.row_slice(tokens, of_slot.rows - tokens);
}
Matrix statistics_behind(const Matrix& of_slot, std::int64_t tokens) {
  return of_slot.column_slice(tokens, of_slot.columns - tokens);
}

template <typename Visit>
void for_each_value(const Matrix& matrix, const Visit& visit) {
  with_storage_type(matrix.dtype, [&](auto element) {
    for (std::int64_t row = 0; row < matrix.rows; ++row) {
      for (std::int64_t column = 0; column < matrix.columns; ++column)
        visit(matrix.row<decltype(element)>(row)[column]);
    }
  });
}

void expect_finite(const Matrix& matrix) {
  for_each_value(matrix, [](auto& value) { ASSERT_TRUE(std::isfinite(static_cast<float>(value))); });
}
void poison(const Matrix& matrix) {
  for_each_value(matrix, [](auto& value) { value = std::remove_reference_t<decltype(value)>(kNaN); });
}

/// What is there of one slot.
Matrix rows_of_slot(const Matrix& of_all, const AttentionShape& shape, std::int64_t slot) {
  return of_all.row_slice(slot * shape.sequence, shape.sequence);
}
Matrix statistics_of_slot(const Matrix& of_all, const AttentionShape& shape, std::int64_t slot) {
  return of_all.row_slice(slot * shape.heads, shape.heads);
}

AttentionShape shape_of_document(AttentionShape shape, std::int64_t tokens) {
  shape.batch = 1;
  shape.sequence = tokens;
  return shape;
}

/// What SlotAttention promises and no more: the operands that it reads must be finite, and the results that
/// it does not say become NaN.
void run_over_slots(const AttentionForward& slots, const std::int32_t* lengths) {
  for (std::int64_t slot = 0; slot < slots.shape.batch; ++slot) {
    const std::int64_t tokens = lengths[slot];
    const auto rows = [&](const Matrix& x) { return rows_of_slot(x, slots.shape, slot); };
    for (const Matrix& x : {slots.query, slots.key, slots.value}) expect_finite(rows(x));
    const Matrix statistics = statistics_of_slot(slots.log_sum_exp, slots.shape, slot);
    run_on_reference(AttentionForward{.shape = shape_of_document(slots.shape, tokens),
                                      .query = rows(slots.query).row_slice(0, tokens),
                                      .key = rows(slots.key).row_slice(0, tokens),
                                      .value = rows(slots.value).row_slice(0, tokens),
                                      .out = rows(slots.out).row_slice(0, tokens),
                                      .log_sum_exp = statistics.column_slice(0, tokens)});
    poison(behind(rows(slots.out), tokens));
    poison(statistics_behind(statistics, tokens));
  }
}

void run_over_slots(const AttentionBackward& slots, const std::int32_t* lengths) {
  for (std::int64_t slot = 0; slot < slots.shape.batch; ++slot) {
    const std::int64_t tokens = lengths[slot];
    const auto rows = [&](const Matrix& x) { return rows_of_slot(x, slots.shape, slot); };
    const auto first_rows = [&](const Matrix& x) { return rows(x).row_slice(0, tokens); };
    for (const Matrix& x : {slots.query, slots.key, slots.value, slots.out, slots.out_gradient})
      expect_finite(rows(x));
    const Matrix statistics = statistics_of_slot(slots.log_sum_exp, slots.shape, slot);
    expect_finite(statistics);
    run_on_reference(AttentionBackward{.shape = shape_of_document(slots.shape, tokens),
                                       .query = first_rows(slots.query),
                                       .key = first_rows(slots.key),
                                       .value = first_rows(slots.value),
                                       .out = first_rows(slots.out),
                                       .log_sum_exp = statistics.column_slice(0, tokens),
                                       .out_gradient = first_rows(slots.out_gradient),
                                       .query_gradient = first_rows(slots.query_gradient),
                                       .key_gradient = first_rows(slots.key_gradient),
                                       .value_gradient = first_rows(slots.value_gradient)});
    for (const Matrix& x : {slots.query_gradient, slots.key_gradient, slots.value_gradient})
      poison(behind(rows(x), tokens));
  }
}

constexpr Bytes kWorkspace = 1000;

/// Kernels whose attention goes over slots, in parts of `chunk`.
class OverSlots final : public Kernels {
 public:
  explicit OverSlots(const AttentionChunk& chunk) : chunk_(chunk) {}
  void run(const KernelCall& call) override {
    if (const auto* forward = call.as<AttentionForward>()) return run_attention(*forward);
    if (const auto* backward = call.as<AttentionBackward>()) return run_attention(*backward);
    kernels_.run(call);
  }
  int calls() const { return calls_; }

 private:
  template <typename Call>
  void run_attention(const Call& call) {
    const std::vector<Call> expected = slot_calls(call, chunk_);
    EmulatedScratch scratch;
    const SlotAttention<Call> over_slots = [&](const Call& slots, const std::int32_t* lengths,
                                               std::byte* workspace) {
      const Call& asked = expected[static_cast<std::size_t>(calls_++) % expected.size()];
      EXPECT_EQ(slots.shape.batch, asked.shape.batch);
      EXPECT_EQ(slots.shape.sequence, asked.shape.sequence);
      EXPECT_EQ(slots.query.stride, asked.query.stride);
      std::fill_n(workspace, kWorkspace, std::byte{0xFF});
      run_over_slots(slots, lengths);
    };
    run_within_documents({nullptr, scratch}, call, chunk_, kWorkspace, over_slots);
    EXPECT_EQ(scratch.largest(), scratch_within_documents(call, chunk_, kWorkspace));
  }

  AttentionChunk chunk_;
  EmulatedKernels kernels_;
  int calls_ = 0;
};

class OverSlotsImplementation final : public Implementation {
 public:
  explicit OverSlotsImplementation(const AttentionChunk& chunk) : kernels_(chunk) {}
  Kernels& kernels() override { return kernels_; }
  int calls() const { return kernels_.calls(); }

 private:
  OverSlots kernels_;
};

/// Both passes; `parts`: of the chunk.
void expect_agrees_over_slots(const AttentionShape& shape, DType dtype, const Documents& documents,
                              const AttentionChunk& chunk, int parts) {
  std::string lengths;
  for (const std::int64_t length : documents) lengths += " " + std::to_string(length);
  SCOPED_TRACE(::testing::Message() << "documents of" << lengths << ", " << parts << " parts");
  for (const Scenario& scenario : {attention_scenario(shape, dtype, 8, documents),
                                   attention_backward_scenario(shape, dtype, 8, documents)}) {
    OverSlotsImplementation implementation(chunk);
    expect_agrees_with_reference(scenario, implementation);
    EXPECT_EQ(implementation.calls(), parts * std::ssize(document_classes(shape.sequence)));
  }
}

// Invariant (AttentionOverSlots.*): Documents in one sequence are independent.
TEST(AttentionOverSlots, IsAttentionWithinDocumentsOfAnyLength) {
  AttentionShape shape{
      .batch = 2, .sequence = 300, .heads = 2, .kv_heads = 1, .head_dimension = 8, .scale = 0.35F};
  for (const Documents& documents :
       {Documents{1}, {300}, {2000}, {64}, {65}, {128, 1, 63}, {129}, {299, 1}, {5, 1, 2, 270}, {70, 3, 150}})
    expect_agrees_over_slots(shape, DType::fp32, documents, {2, 1, 2}, 1);
  for (const std::int64_t window : {1, 20, 100}) {
    shape.window = window;
    expect_agrees_over_slots(shape, DType::fp32, {70, 3, 150}, {2, 1, 2}, 1);
  }
  shape = {.batch = 3, .sequence = 65, .heads = 1, .kv_heads = 1, .head_dimension = 16, .scale = 0.25F};
  expect_agrees_over_slots(shape, DType::fp32, {65, 10, 1, 54}, {3, 1, 1}, 1);
}

TEST(AttentionOverSlots, IsAttentionWithinDocumentsInAnyParts) {
  const AttentionShape shape{
      .batch = 2, .sequence = 200, .heads = 8, .kv_heads = 2, .head_dimension = 8, .scale = 0.35F};
  const struct {
    AttentionChunk chunk;
    int parts;
  } cases[] = {{{2, 2, 4}, 1}, {{1, 2, 4}, 2}, {{1, 1, 4}, 4}, {{1, 1, 2}, 8}, {{1, 1, 1}, 16}};
  for (const auto& [chunk, parts] : cases)
    expect_agrees_over_slots(shape, DType::fp32, {140, 20, 66, 1}, chunk, parts);
}

TEST(AttentionOverSlots, IsAttentionWithinDocumentsOfNarrowNumbers) {
  const AttentionShape shape{
      .batch = 1, .sequence = 260, .heads = 4, .kv_heads = 2, .head_dimension = 16, .scale = 0.25F};
  for (const DType dtype : {DType::bf16, DType::fp16})
    expect_agrees_over_slots(shape, dtype, {100, 20, 140}, {1, 1, 2}, 2);
}

TEST(AttentionOverSlots, TakesWhatRulesSay) {
  const AttentionShape shape{
      .batch = 2, .sequence = 4096, .heads = 32, .kv_heads = 8, .head_dimension = 128, .scale = 0.1F};
  const std::int64_t rows = shape.batch * shape.sequence;
  const Matrix query(nullptr, DType::bf16, rows, 4096), key(nullptr, DType::bf16, rows, 1024);
  AttentionBackward call;
  call.shape = shape;
  call.query = call.out = query;
  call.key = call.value = key;
  const AttentionChunk chunk = document_chunk(shape).value();
  const Bytes rule = cudnn_scratch_within_documents(call);
  EXPECT_EQ(rule, scratch_within_documents(call, chunk, slot_backward_bytes(part_shape(shape, chunk))));
  EXPECT_LT(rule, 3 * cudnn_backward_bytes(shape) / 2) << "of the same call without documents";
  AttentionBackward with_cap = call;
  with_cap.shape.soft_cap = 30;
  EXPECT_EQ(cudnn_scratch_within_documents(with_cap), 0);
  call.query.dtype = DType::fp32;
  EXPECT_EQ(cudnn_scratch_within_documents(call), 0);
}

}  // namespace
}  // namespace strata
