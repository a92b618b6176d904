// Every kernel against the plain reference, in forward and gradient, at sizes around the vectors', panels'
// and blocks' edges.
#include <array>

#include "tests/device/kernel_scenarios.h"

namespace strata {
namespace {

constexpr DType kDTypes[] = {DType::fp32, DType::bf16};
constexpr NormKind kNorms[] = {NormKind::layer_norm, NormKind::rms_norm};

TEST(Matmul, AgreesWithTheReferenceForEverySizeAndLayout) {
  for (const auto& [m, n, k] : {std::array{1, 1, 1},
                                {3, 17, 65},
                                {65, 3, 17},
                                {17, 130, 3},
                                {64, 64, 64},
                                {7, 129, 33},
                                {200, 70, 260},
                                {130, 65, 2}}) {
    for (const bool transpose_a : {false, true}) {
      for (const bool transpose_b : {false, true}) {
        for (const DType dtype : kDTypes) {
          for (const DType out : {DType::fp32, dtype}) {
            expect_agrees_with_reference(matmul_scenario({.m = m,
                                                          .n = n,
                                                          .k = k,
                                                          .transpose_a = transpose_a,
                                                          .transpose_b = transpose_b,
                                                          .dtype = dtype,
                                                          .out = out}));
          }
        }
      }
    }
  }
}

TEST(Matmul, ReadsAndWritesOnlyItsViews) {
  for (const std::int64_t padding : {1, 2, 64}) {
    for (const DType dtype : kDTypes) {
      for (const bool transposed : {false, true}) {
        expect_agrees_with_reference(matmul_scenario({.m = 37,
                                                      .n = 70,
                                                      .k = 51,
                                                      .transpose_a = transposed,
                                                      .transpose_b = transposed,
                                                      .padding = padding,
                                                      .dtype = dtype,
                                                      .out = dtype}));
      }
    }
  }
}

TEST(Matmul, AddsBiasAndAccumulates) {
  for (const DType dtype : kDTypes) {
    for (const DType out : {DType::fp32, dtype}) {
      for (const bool accumulate : {false, true}) {
        for (const bool bias : {false, true}) {
          for (const std::int64_t n : {5, 64, 100}) {
            expect_agrees_with_reference(matmul_scenario({.m = 33,
                                                          .n = n,
                                                          .k = 40,
                                                          .accumulate = accumulate,
                                                          .bias = bias,
                                                          .dtype = dtype,
                                                          .out = out}));
          }
        }
      }
    }
  }
}

TEST(Matmul, CutsALongDepthWithoutLosingAnything) {
  for (const DType dtype : kDTypes) {
    for (const bool accumulate : {false, true}) {
      for (const bool bias : {false, true}) {
        for (const std::int64_t n : {5, 64}) {
          Scenario scenario = matmul_scenario({.m = 7,
                                               .n = n,
                                               .k = 9001,
                                               .transpose_a = bias,
                                               .accumulate = accumulate,
                                               .bias = bias,
                                               .dtype = dtype,
                                               .out = dtype});
          expect_agrees_with_reference(scenario);
        }
      }
    }
  }
}

TEST(ColumnSums, AgreeWithTheReference) {
  for (const auto& [rows, columns] : {std::pair{1, 1}, {3, 17}, {130, 65}, {65, 1030}}) {
    for (const DType dtype : kDTypes)
      expect_agrees_with_reference(column_sums_scenario(dtype, rows, columns));
  }
}

TEST(Norm, AgreesWithTheReference) {
  // Not one column: its variance is zero, and what is left of it is rounding.
  for (const auto& [rows, columns] : {std::pair{1, 3}, {3, 17}, {17, 65}, {65, 130}, {40, 768}}) {
    for (const DType dtype : kDTypes) {
      for (const NormKind kind : kNorms) {
        for (const bool addend : {false, true}) {
          expect_agrees_with_reference(norm_scenario(kind, dtype, rows, columns, addend));
        }
      }
      expect_agrees_with_reference(norm_in_place_scenario(dtype, rows, columns));
    }
  }
}

TEST(Norm, BackwardAgreesWithTheReference) {
  for (const auto& [rows, columns] : {std::pair{1, 3}, {3, 17}, {130, 65}, {40, 768}}) {
    for (const DType dtype : kDTypes) {
      for (const NormKind kind : kNorms) {
        for (const GradientPlace place :
             {GradientPlace::own, GradientPlace::over_out_gradient, GradientPlace::over_addend}) {
          expect_agrees_with_reference(norm_backward_scenario(kind, dtype, rows, columns, place));
        }
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
  };
  return shapes;
}

TEST(Attention, AgreesWithTheReference) {
  for (const AttentionShape& shape : attention_shapes()) {
    for (const DType dtype : kDTypes) expect_agrees_with_reference(attention_scenario(shape, dtype));
  }
}

TEST(Attention, BackwardAgreesWithTheReference) {
  for (const AttentionShape& shape : attention_shapes()) {
    for (const DType dtype : kDTypes) expect_agrees_with_reference(attention_backward_scenario(shape, dtype));
  }
}

TEST(Rope, AgreesWithTheReferenceInBothDirections) {
  for (const DType dtype : kDTypes) {
    for (const bool inverse : {false, true}) {
      expect_agrees_with_reference(rope_scenario(dtype, 1, 1, 1, 2, inverse));
      expect_agrees_with_reference(rope_scenario(dtype, 2, 17, 3, 34, inverse));
      expect_agrees_with_reference(rope_scenario(dtype, 2, 65, 2, 64, inverse));
    }
  }
}

TEST(Activations, AgreeWithTheReference) {
  for (const auto& [rows, columns] : {std::pair{1, 1}, {3, 17}, {130, 65}, {9, 4100}}) {
    for (const DType dtype : kDTypes) {
      for (const std::int64_t padding : {0, 3}) {
        for (const bool in_place : {false, true}) {
          expect_agrees_with_reference(gelu_scenario(dtype, rows, columns, padding, in_place));
          expect_agrees_with_reference(swiglu_backward_scenario(dtype, rows, columns, padding, in_place));
          expect_agrees_with_reference(add_scenario(dtype, rows, columns, padding, in_place));
        }
        expect_agrees_with_reference(swiglu_scenario(dtype, rows, columns, padding));
        for (const ActivationGradientPlace place :
             {ActivationGradientPlace::own, ActivationGradientPlace::over_out_gradient,
              ActivationGradientPlace::over_x}) {
          expect_agrees_with_reference(gelu_backward_scenario(dtype, rows, columns, padding, place));
        }
      }
    }
  }
}

TEST(Cast, AgreesWithTheReferenceToTheBit) {
  for (const DType from : kDTypes) {
    for (const DType to : kDTypes) {
      for (const auto& [rows, columns] : {std::pair{1, 1}, {3, 17}, {130, 1030}}) {
        Scenario scenario = cast_scenario(from, to, rows, columns);
        scenario.fp32_tolerance = 0;
        scenario.bf16_tolerance = 4e-3;
        expect_agrees_with_reference(scenario);
      }
    }
  }
}

TEST(Zero, WritesZerosAndOnlyThere) {
  for (const DType dtype : kDTypes) {
    expect_agrees_with_reference(zero_scenario(dtype, 1, 1, 0));
    expect_agrees_with_reference(zero_scenario(dtype, 17, 65, 3));
    expect_agrees_with_reference(zero_scenario(dtype, 130, 1030, 0));
  }
}

TEST(Embedding, AgreesWithTheReference) {
  for (const DType dtype : kDTypes) {
    for (const bool positions : {false, true}) {
      for (const std::int64_t columns : {1, 65, 130}) {
        expect_agrees_with_reference(embedding_scenario(dtype, 3, 17, columns, positions));
        expect_agrees_with_reference(embedding_backward_scenario(dtype, 3, 17, columns, positions));
      }
    }
  }
}

TEST(CrossEntropy, AgreesWithTheReference) {
  for (const auto& [rows, vocabulary] : {std::pair{1, 1}, {3, 17}, {17, 65}, {5, 1030}}) {
    for (const DType dtype : kDTypes) {
      for (const std::int64_t padding : {0, 3}) {
        expect_agrees_with_reference(cross_entropy_scenario(dtype, rows, vocabulary, padding));
      }
    }
  }
}

}  // namespace
}  // namespace strata
