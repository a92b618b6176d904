// Every kernel of every implementation against the plain reference, in forward and gradient, at sizes around
// the vectors', panels', warps' and blocks' edges.
#include <array>

#include "base/block_codes.h"
#include "engine/device/activation.h"
#include "engine/device/attention_calls.h"
#include "engine/device/loss_calls.h"
#include "engine/device/norm_calls.h"
#include "engine/device/row_calls.h"
#include "tests/device/expert_scenarios.h"
#include "tests/device/head_norm_scenarios.h"
#include "tests/device/implementations.h"
#include "tests/device/kernel_scenarios.h"

namespace strata {
namespace {

using Agreement = EveryImplementation;
INSTANTIATE_TEST_SUITE_P(, Agreement, ::testing::ValuesIn(implementation_choices()), &name_of_choice);

constexpr NormKind kNorms[] = {NormKind::layer_norm, NormKind::rms_norm};

struct Size {
  std::int64_t rows, columns;
  std::int64_t padding_unit = 1;  ///< see kernel_scenarios.h
};

TEST_P(Agreement, ColumnSums) {
  for (const auto& [rows, columns, padding_unit] :
       std::vector<Size>{{1, 1}, {3, 17}, {130, 65}, {65, 1030}, {5, 64, 8}, {300, 136, 8}, {130, 1027, 7}}) {
    for (const DType dtype : kDTypes) expect_agrees(column_sums_scenario(dtype, rows, columns, padding_unit));
  }
}

TEST_P(Agreement, Columns) {
  for (const auto& [rows, columns, padding_unit] :
       std::vector<Size>{{1, 1}, {3, 17}, {600, 65}, {65, 1030}, {5, 64, 8}, {300, 136, 8}}) {
    for (const DType dtype : kDTypes) {
      for (const bool option : {false, true}) {
        expect_agrees(column_dots_scenario(dtype, rows, columns, option, padding_unit));
        for (const bool in_place : {false, true})
          expect_agrees(column_scale_scenario(dtype, rows, columns, option, in_place, padding_unit));
      }
      expect_agrees(magnitude_scenario(dtype, columns));
      expect_agrees(row_dots_scenario(dtype, rows, columns, padding_unit));
    }
  }
}

TEST_P(Agreement, Dropout) {
  for (const auto& [rows, columns, padding_unit] :
       std::vector<Size>{{1, 1}, {3, 17}, {40, 65}, {9, 1030}, {5, 64, 8}, {30, 136, 8}}) {
    for (const DType dtype : kDTypes) {
      for (const float probability : {0.0F, 0.1F, 0.999F}) {
        expect_agrees(dropout_scenario(dtype, rows, columns, probability, rows % 2 == 0, padding_unit));
      }
    }
  }
}

TEST_P(Agreement, CodesOfBlocks) {
  for (const BlockFormat format : {BlockFormat::int8, BlockFormat::nf4}) {
    for (const DType dtype : kDTypes) {
      expect_agrees(decode_blocks_scenario(format, dtype, 64 * 300, 64, 0));
      expect_agrees(decode_blocks_scenario(format, dtype, 17, 64, 60));
      expect_agrees(decode_blocks_scenario(format, dtype, 20002, 37, 36));
      expect_agrees(decode_blocks_scenario(format, dtype, 1, 1, 0));
    }
  }
}

TEST_P(Agreement, Norm) {
  // Not one column: its variance is zero, and what is left of it is rounding. The CUDA device's cuts are at
  // 32, 64, 128 and 4096 times 16 bytes.
  for (const auto& [rows, columns, padding_unit] : std::vector<Size>{{1, 3},
                                                                     {3, 17},
                                                                     {17, 65},
                                                                     {65, 130},
                                                                     {40, 768},
                                                                     {9, 64, 8},
                                                                     {9, 320, 8},
                                                                     {9, 768, 8},
                                                                     {3, 1032, 8},
                                                                     {2, 4104, 8},
                                                                     {2, 16392, 8},
                                                                     {1, 32776, 8}}) {
    // A vector of four sums 8,194 numbers of the longest row one after another.
    const bool is_longest = columns > 32768;
    const auto expect_norm_agrees = [&](Scenario scenario) {
      if (is_longest) scenario.fp32_tolerance = std::max(scenario.fp32_tolerance, 2e-5);
      expect_agrees(scenario);
    };
    for (const DType dtype : kDTypes) {
      for (const NormKind kind : kNorms) {
        for (const bool addend : {false, true}) {
          expect_norm_agrees(norm_scenario(kind, dtype, rows, columns, addend, padding_unit));
        }
        expect_norm_agrees(
            norm_scenario(kind, dtype, rows, columns, false, padding_unit, /*unit_offset=*/true));
      }
      expect_norm_agrees(norm_in_place_scenario(dtype, rows, columns, padding_unit));
      for (const bool unit_offset : {false, true})
        expect_norm_agrees(shared_norm_scenario(dtype, rows, columns, padding_unit, unit_offset));
    }
  }
}

TEST_P(Agreement, NormBackward) {
  // The CUDA device's cuts are at 32, 1024 and 2048 times 16 bytes, and every 8 rows.
  for (const auto& [rows, columns, padding_unit] : std::vector<Size>{{1, 3},
                                                                     {3, 17},
                                                                     {130, 65},
                                                                     {40, 768},
                                                                     {20, 64, 8},
                                                                     {9, 768, 8},
                                                                     {2, 4104, 8},
                                                                     {2, 8200, 8},
                                                                     {2, 16392, 8}}) {
    for (const DType dtype : kDTypes) {
      for (const NormKind kind : kNorms) {
        for (const GradientPlace place :
             {GradientPlace::own, GradientPlace::over_out_gradient, GradientPlace::over_addend}) {
          expect_agrees(norm_backward_scenario(kind, dtype, rows, columns, place, padding_unit));
        }
        expect_agrees(norm_backward_scenario(kind, dtype, rows, columns, GradientPlace::own, padding_unit,
                                             /*unit_offset=*/true));
        for (const NormGradients& gradients : {NormGradients{.weight = false}, NormGradients{.bias = false},
                                               NormGradients{.weight = false, .bias = false}})
          expect_agrees(norm_backward_scenario(kind, dtype, rows, columns, GradientPlace::over_out_gradient,
                                               padding_unit, false, gradients));
      }
    }
  }
}

const std::vector<AttentionShape>& attention_shapes() {
  static const std::vector<AttentionShape> shapes = {
      {.batch = 1, .sequence = 1, .heads = 1, .kv_heads = 1, .head_dimension = 1, .scale = 0.5F},
      {.batch = 2, .sequence = 3, .heads = 2, .kv_heads = 1, .head_dimension = 17, .scale = 0.3F},
      {.batch = 1, .sequence = 65, .heads = 3, .kv_heads = 3, .head_dimension = 16, .scale = 0.25F},
      {.batch = 2, .sequence = 130, .heads = 4, .kv_heads = 2, .head_dimension = 64, .scale = 0.125F},
      {.batch = 1, .sequence = 70, .heads = 1, .kv_heads = 1, .head_dimension = 80, .scale = 0.1F},
      {.batch = 1, .sequence = 530, .heads = 1, .kv_heads = 1, .head_dimension = 8, .scale = 0.35F},
      {.batch = 1,
       .sequence = 130,
       .heads = 2,
       .kv_heads = 1,
       .head_dimension = 16,
       .window = 1,
       .scale = 0.25F},
      {.batch = 1,
       .sequence = 200,
       .heads = 2,
       .kv_heads = 1,
       .head_dimension = 16,
       .window = 70,
       .scale = 0.25F},
      {.batch = 1,
       .sequence = 1100,
       .heads = 1,
       .kv_heads = 1,
       .head_dimension = 4,
       .window = 90,
       .scale = 0.5F},
      // A cap that some scores come up to, and one that is far away.
      {.batch = 2,
       .sequence = 130,
       .heads = 4,
       .kv_heads = 2,
       .head_dimension = 64,
       .scale = 0.5F,
       .soft_cap = 2},
      {.batch = 1,
       .sequence = 530,
       .heads = 2,
       .kv_heads = 1,
       .head_dimension = 16,
       .window = 70,
       .scale = 0.25F,
       .soft_cap = 50},
      // Steps of a ring: its own keys, those of a rank in front (all queries see half of them), and of one
      // behind (half of the queries see all).
      {.batch = 2,
       .sequence = 130,
       .heads = 4,
       .kv_heads = 2,
       .head_dimension = 64,
       .scale = 0.125F,
       .context = {3, 1},
       .step = 0},
      {.batch = 1,
       .sequence = 150,
       .heads = 2,
       .kv_heads = 1,
       .head_dimension = 16,
       .scale = 0.25F,
       .context = {3, 1},
       .step = 1},
      {.batch = 1,
       .sequence = 530,
       .heads = 2,
       .kv_heads = 2,
       .head_dimension = 16,
       .scale = 0.25F,
       .context = {3, 1},
       .step = 2},
      {.batch = 1,
       .sequence = 148,
       .heads = 2,
       .kv_heads = 1,
       .head_dimension = 16,
       .window = 100,
       .scale = 0.25F,
       .soft_cap = 2,
       .context = {4, 2},
       .step = 1},
      {.batch = 1,
       .sequence = 6,
       .heads = 2,
       .kv_heads = 1,
       .head_dimension = 17,
       .window = 4,
       .scale = 0.25F,
       .context = {2, 0},
       .step = 1},
  };
  return shapes;
}

TEST_P(Agreement, Attention) {
  for (const AttentionShape& shape : attention_shapes()) {
    for (const DType dtype : kDTypes) {
      expect_agrees(attention_scenario(shape, dtype));
      if (shape.head_dimension % 8 == 0 && shape.sequence <= 130) {
        expect_agrees(attention_scenario(shape, dtype, 8));
      }
    }
  }
}

TEST_P(Agreement, AttentionBackward) {
  for (const AttentionShape& shape : attention_shapes()) {
    for (const DType dtype : kDTypes) {
      expect_agrees(attention_backward_scenario(shape, dtype));
      if (shape.head_dimension % 8 == 0 && shape.sequence <= 130) {
        expect_agrees(attention_backward_scenario(shape, dtype, 8));
      }
    }
  }
}

// Invariant: Documents in one sequence are independent.
TEST_P(Agreement, AttentionWithinDocuments) {
  // One token each; some tokens; borders at blocks' and beside them; one that is longer than a sequence.
  const AttentionShape shape{
      .batch = 2, .sequence = 130, .heads = 2, .kv_heads = 1, .head_dimension = 16, .scale = 0.25F};
  for (const Documents& documents : {Documents{1}, {5, 1, 2}, {64, 1, 63, 65}, {200, 70}, {2000}}) {
    expect_agrees(attention_scenario(shape, DType::fp32, 1, documents));
    expect_agrees(attention_backward_scenario(shape, DType::fp32, 8, documents));
  }
  for (const DType dtype : {DType::bf16, DType::fp16}) {
    expect_agrees(attention_scenario(shape, dtype, 8, {64, 1, 40}));
    expect_agrees(attention_backward_scenario(shape, dtype, 1, {64, 1, 40}));
  }
  std::vector<AttentionShape> shapes(5, shape);
  for (AttentionShape& each : shapes) each.batch = 1;
  shapes[0].window = 20;
  shapes[1].soft_cap = 2;
  for (const std::int64_t step : {0, 1, 2}) {
    shapes[static_cast<std::size_t>(2 + step)].context = {3, 1};
    shapes[static_cast<std::size_t>(2 + step)].step = step;
  }
  shapes.push_back({.batch = 1, .sequence = 530, .heads = 1, .kv_heads = 1, .head_dimension = 4});
  shapes.push_back({.batch = 3, .sequence = 1, .heads = 1, .kv_heads = 1, .head_dimension = 8});
  for (const AttentionShape& each : shapes) {
    expect_agrees(attention_scenario(each, DType::fp32, 1, {70, 3, 150, 64}));
    expect_agrees(attention_backward_scenario(each, DType::fp32, 1, {70, 3, 150, 64}));
  }
}

// Invariant (Agreement.CachedAttention*): Generation is that of transformers.
TEST_P(Agreement, CachedAttention) {
  // Chunks of keys end at 128 on the CUDA device and at 256 on the CPU.
  struct Case {
    AttentionShape shape;
    std::vector<std::int32_t> lengths;
  };
  const Case cases[] = {
      {{.batch = 1, .sequence = 1, .heads = 1, .kv_heads = 1, .head_dimension = 1, .scale = 0.5F}, {1}},
      {{.batch = 3, .sequence = 9, .heads = 2, .kv_heads = 1, .head_dimension = 17, .scale = 0.3F},
       {9, 1, 4}},
      {{.batch = 2, .sequence = 600, .heads = 4, .kv_heads = 2, .head_dimension = 64, .scale = 0.125F},
       {129, 513}},
      {{.batch = 1, .sequence = 300, .heads = 3, .kv_heads = 3, .head_dimension = 136, .scale = 0.1F}, {256}},
      {{.batch = 2,
        .sequence = 300,
        .heads = 2,
        .kv_heads = 1,
        .head_dimension = 16,
        .window = 140,
        .scale = 0.25F},
       {300, 70}},
      {{.batch = 1,
        .sequence = 300,
        .heads = 2,
        .kv_heads = 2,
        .head_dimension = 32,
        .window = 1,
        .scale = 0.5F,
        .soft_cap = 2},
       {300}},
  };
  for (const auto& [shape, lengths] : cases) {
    for (const DType dtype : kDTypes) {
      expect_agrees(cached_attention_scenario(shape, dtype, lengths));
      if (shape.head_dimension % 8 == 0) expect_agrees(cached_attention_scenario(shape, dtype, lengths, 8));
    }
  }
}

/// Rows of a sequence as a cache that has room for some more.
TEST_P(Agreement, CachedAttentionGivesWhatAttentionGivesTheLastToken) {
  constexpr std::int64_t kRoom = 5;
  AttentionShape shape = {.batch = 2,
                          .sequence = 70,
                          .heads = 4,
                          .kv_heads = 2,
                          .head_dimension = 16,
                          .window = 50,
                          .scale = 0.25F,
                          .soft_cap = 2};
  const auto last = static_cast<std::int32_t>(shape.sequence);
  Scenario whole = attention_scenario(shape, DType::fp32);
  shape.sequence += kRoom;
  Scenario cached = cached_attention_scenario(shape, DType::fp32, {last, last});
  const std::int64_t columns = shape.heads * shape.head_dimension;
  const std::int64_t kv_columns = shape.kv_heads * shape.head_dimension;
  OperandMemory& fused = whole.operands[0];
  for (std::int64_t batch = 0; batch < shape.batch; ++batch) {
    for (std::int64_t t = 0; t < last; ++t) {
      const std::int64_t row = batch * last + t;
      for (std::int64_t i = 0; t + 1 == last && i < columns; ++i)
        cached.operands[0].set(batch, i, fused.at(row, i));
      for (std::int64_t i = 0; i < kv_columns; ++i) {
        cached.operands[1].set(batch * shape.sequence + t, i, fused.at(row, columns + i));
        cached.operands[2].set(batch * shape.sequence + t, i, fused.at(row, columns + kv_columns + i));
      }
    }
  }
  const OperandMemory all = run_scenario(whole, implementation())[1];
  const OperandMemory newest = run_scenario(cached, implementation())[3];
  for (std::int64_t batch = 0; batch < shape.batch; ++batch) {
    for (std::int64_t i = 0; i < columns; ++i)
      EXPECT_NEAR(newest.at(batch, i), all.at(batch * last + last - 1, i), 1e-5);
  }
}

TEST_P(Agreement, RopeInBothDirections) {
  for (const DType dtype : kDTypes) {
    for (const bool inverse : {false, true}) {
      expect_agrees(rope_scenario(dtype, 1, 1, 1, 2, inverse));
      expect_agrees(rope_scenario(dtype, 2, 17, 3, 34, inverse));
      expect_agrees(rope_scenario(dtype, 2, 65, 2, 64, inverse));
      expect_agrees(rope_scenario(dtype, 3, 5, 9, 128, inverse, 8));
      expect_agrees(rope_scenario(dtype, 2, 17, 3, 34, inverse, 1, {1, 4, 9}));
      expect_agrees(rope_scenario(dtype, 3, 5, 2, 64, inverse, 8, {3, 30}));
    }
  }
}

TEST_P(Agreement, HeadNorms) {
  // On the CUDA device 16 bytes are a lane's, twice; heads of 96 leave lanes idle, of 34 fit none, and the
  // last ones have more heads than one turn of its blocks.
  for (const DType dtype : kDTypes) {
    for (const HeadNormCase& heads : {HeadNormCase{1, 1, 1, 1, 2},
                                      {2, 17, 1, 2, 34},
                                      {2, 9, 2, 1, 64, 8},
                                      {2, 5, 3, 3, 96, 8},
                                      {1, 33, 1, 4, 128, 8},
                                      {1, 3, 1, 1, 256, 8},
                                      {1, 70, 2, 2, 16, 8}}) {
      for (const bool rotated : {false, true}) {
        HeadNormCase each = heads;
        each.rotated = rotated;
        each.unit_offset = !rotated;
        expect_agrees(head_norm_scenario(dtype, each));
      }
    }
    for (const HeadNormCase& heads : {HeadNormCase{2, 17, 1, 2, 34}, {2, 9, 2, 1, 64, 8}}) {
      HeadNormCase each = heads;
      each.documents = {1, 4, 9};
      expect_agrees(head_norm_scenario(dtype, each));
    }
  }
}

TEST_P(Agreement, Activations) {
  for (const auto& [rows, columns] : {std::pair{1, 1}, {3, 17}, {130, 65}, {9, 4100}, {7, 520}}) {
    for (const DType dtype : kDTypes) {
      for (const std::int64_t padding : {0, 3, 8}) {
        for (const bool in_place : {false, true}) {
          expect_agrees(add_scenario(dtype, rows, columns, padding, in_place));
          expect_agrees(scale_scenario(dtype, rows, columns, padding, in_place));
          expect_agrees(blend_scenario(dtype, rows, columns, padding, in_place));
        }
        for (const Activation kind : kActivations) {
          for (const bool in_place : {false, true}) {
            expect_agrees(activation_scenario(kind, dtype, rows, columns, padding, in_place));
            expect_agrees(gated_backward_scenario(kind, dtype, rows, columns, padding, in_place));
            expect_agrees(gated_again_scenario(kind, dtype, rows, columns, padding, in_place));
          }
          expect_agrees(gated_scenario(kind, dtype, rows, columns, padding));
          for (const ActivationGradientPlace place :
               {ActivationGradientPlace::own, ActivationGradientPlace::over_out_gradient,
                ActivationGradientPlace::over_x}) {
            expect_agrees(activation_backward_scenario(kind, dtype, rows, columns, padding, place));
            expect_agrees(activation_again_scenario(kind, dtype, rows, columns, padding, place));
          }
        }
      }
    }
  }
}

/// And so do the gradients that are made beside them.
TEST_P(Agreement, ActivationsMadeAgainHaveTheBitsOfTheFirst) {
  constexpr std::int64_t kRows = 7, kColumns = 533;
  const auto after = [&](const Scenario& scenario) { return run_scenario(scenario, implementation()); };
  for (const DType dtype : kDTypes) {
    for (const Activation kind : kActivations) {
      SCOPED_TRACE(::testing::Message() << static_cast<int>(kind) << " in " << name_of(dtype));
      const std::int64_t padding = 3;
      const auto again = after(
          activation_again_scenario(kind, dtype, kRows, kColumns, padding, ActivationGradientPlace::own));
      EXPECT_EQ(again[3].values(),
                after(activation_scenario(kind, dtype, kRows, kColumns, padding, false))[1].values());
      EXPECT_EQ(again[2].values(), after(activation_backward_scenario(kind, dtype, kRows, kColumns, padding,
                                                                      ActivationGradientPlace::own))[2]
                                       .values());
      const auto gated = after(gated_again_scenario(kind, dtype, kRows, kColumns, padding, false));
      EXPECT_EQ(gated[3].values(), after(gated_scenario(kind, dtype, kRows, kColumns, padding))[1].values());
      EXPECT_EQ(gated[2].values(),
                after(gated_backward_scenario(kind, dtype, kRows, kColumns, padding, false))[2].values());
    }
  }
}

TEST_P(Agreement, CastToTheBit) {
  for (const DType from : kDTypes) {
    for (const DType to : kDTypes) {
      for (const auto& [rows, columns] : {std::pair{1, 1}, {3, 17}, {130, 1030}}) {
        Scenario scenario = cast_scenario(from, to, rows, columns);
        scenario.fp32_tolerance = 0;
        scenario.bf16_tolerance = 4e-3;
        scenario.fp16_tolerance = 5e-4;
        expect_agrees(scenario);
      }
    }
  }
}

TEST_P(Agreement, ZeroWritesZerosAndOnlyThere) {
  for (const DType dtype : kDTypes) {
    expect_agrees(zero_scenario(dtype, 1, 1, 0));
    expect_agrees(zero_scenario(dtype, 17, 65, 3));
    expect_agrees(zero_scenario(dtype, 17, 65, 7));
    expect_agrees(zero_scenario(dtype, 130, 1030, 0));
  }
}

TEST_P(Agreement, Embedding) {
  for (const DType dtype : kDTypes) {
    for (const bool positions : {false, true}) {
      for (const auto& [columns, padding_unit] : {std::pair{1, 1}, {65, 1}, {130, 1}, {136, 8}}) {
        expect_agrees(embedding_scenario(dtype, 3, 17, columns, positions, padding_unit));
        expect_agrees(embedding_scenario(dtype, 3, 17, columns, positions, padding_unit, FirstRow(5)));
        expect_agrees(embedding_backward_scenario(dtype, 3, 17, columns, positions, padding_unit, 8, true,
                                                  FirstRow(5)));
        expect_agrees(embedding_backward_scenario(dtype, 3, 17, columns, positions, padding_unit));
        expect_agrees(embedding_backward_scenario(dtype, 3, 17, columns, positions, padding_unit,
                                                  /*padding_token=*/4));
        expect_agrees(embedding_backward_scenario(dtype, 3, 17, columns, positions, padding_unit, kNoRow,
                                                  /*table=*/false));
      }
    }
    for (const auto& [columns, padding_unit] : {std::pair{65, 1}, {136, 8}}) {
      const Documents documents = {1, 4, 30, 9};
      expect_agrees(embedding_scenario(dtype, 3, 17, columns, true, padding_unit, {}, documents));
      for (const bool table : {false, true})
        expect_agrees(
            embedding_backward_scenario(dtype, 3, 17, columns, true, padding_unit, 4, table, {}, documents));
    }
  }
}

TEST_P(Agreement, RowsOfTables) {
  for (const DType dtype : kDTypes) {
    for (const std::int64_t columns : {1, 17, 65, 1030, 2104}) {
      expect_agrees(copy_rows_scenario(dtype, columns, 0));
      expect_agrees(copy_rows_scenario(dtype, columns, 0, dtype));
      expect_agrees(copy_rows_scenario(dtype, columns, 3));
      const std::int64_t table = 11 * columns;
      expect_agrees(sum_rows_scenario(dtype, columns, 0, table));
      expect_agrees(sum_rows_scenario(dtype, columns, 0, table / 3));
      expect_agrees(sum_rows_scenario(dtype, columns, table / 3, table / 3));
      expect_agrees(sum_rows_scenario(dtype, columns, table / 2, table));
    }
  }
}

TEST_P(Agreement, CrossEntropy) {
  for (const auto& [rows, vocabulary] : {std::pair{1, 1}, {3, 17}, {17, 65}, {5, 1030}}) {
    for (const DType dtype : kDTypes) {
      for (const std::int64_t padding : {0, 3, 8}) {
        expect_agrees(cross_entropy_scenario(dtype, rows, vocabulary, padding));
      }
      expect_agrees(cross_entropy_scenario(dtype, rows, vocabulary, 0, true));
      expect_agrees(cross_entropy_scenario(dtype, rows, vocabulary, 3, true, /*soft_cap=*/3));
      expect_agrees(penalised_cross_entropy_scenario(dtype, rows, vocabulary));
      expect_agrees(cross_entropy_scenario(dtype, rows, vocabulary, 0, false, /*soft_cap=*/30));
      if (vocabulary < 3) continue;
      for (const std::int64_t padding : {0, 3, 8})
        expect_agrees(parts_of_cross_entropy_scenario(dtype, rows, vocabulary, padding));
      expect_agrees(parts_of_cross_entropy_scenario(dtype, rows, vocabulary, 3, /*soft_cap=*/3, true));
    }
  }
}

TEST_P(Agreement, Routing) {
  for (const auto& [tokens, experts, top_k] :
       {std::array{1, 1, 1}, {3, 4, 2}, {17, 65, 3}, {130, 8, 8}, {5, 300, 9}}) {
    for (const bool normalise : {false, true}) {
      for (const DType dtype : kDTypes) {
        for (const std::int64_t padding : {0, 3}) {
          expect_agrees(route_scenario(dtype, tokens, experts, top_k, normalise, padding));
          for (const bool balance : {false, true}) {
            expect_agrees(
                route_backward_scenario(dtype, tokens, experts, top_k, normalise, balance, padding));
          }
        }
      }
    }
  }
  for (const bool scaled : {false, true}) {
    for (const std::int64_t experts : {1, 4, 300}) {
      for (const BalanceOutputs outputs :
           {BalanceOutputs::both, BalanceOutputs::loss, BalanceOutputs::gradient})
        expect_agrees(load_balance_scenario(experts, scaled, outputs));
    }
  }
}

TEST_P(Agreement, RowsOfExpertsToTheBit) {
  for (const auto& [rows, groups, copies] :
       {std::array{1, 1, 1}, {6, 4, 2}, {255, 7, 3}, {256, 5, 1}, {1030, 300, 2}}) {
    Scenario scenario = group_rows_scenario(rows, groups, copies);
    scenario.fp32_tolerance = 0;
    expect_agrees(scenario);
  }
  const std::vector<std::vector<std::int32_t>> all_sizes = {
      {7}, {3, 0, 70, 1, 0}, std::vector<std::int32_t>(300, 2)};
  for (const std::vector<std::int32_t>& sizes : all_sizes) {
    Scenario scenario = count_rows_scenario(sizes);
    scenario.fp32_tolerance = 1e-7;
    expect_agrees(scenario);
  }
}

TEST_P(Agreement, CombinedRows) {
  for (const auto& [tokens, slots, columns] : {std::array{1, 1, 1}, {3, 2, 17}, {17, 3, 65}, {5, 8, 1032}}) {
    for (const DType dtype : kDTypes) {
      for (const std::int64_t padding : {0, 3}) {
        for (const bool flag : {false, true}) {
          expect_agrees(combine_rows_scenario(dtype, tokens, slots, columns, flag, padding));
          expect_agrees(combine_rows_backward_scenario(dtype, tokens, slots, columns, flag, padding));
        }
      }
    }
  }
}

TEST_P(Agreement, GroupedProducts) {
  const std::vector<std::vector<std::int32_t>> all_sizes = {
      {1}, {0, 0}, {3, 0, 70, 1, 0}, {65, 130, 64, 0, 17}, {600, 5}};
  for (const std::vector<std::int32_t>& sizes : all_sizes) {
    for (const auto& [k, n] : {std::pair{1, 1}, {17, 65}, {33, 800}}) {
      for (const DType dtype : kDTypes) {
        for (const bool transpose_b : {false, true})
          expect_agrees(grouped_product_scenario(dtype, sizes, k, n, transpose_b, 3));
        expect_agrees(grouped_gradient_scenario(dtype, sizes, k, n, 3));
      }
    }
  }
}

}  // namespace
}  // namespace strata
