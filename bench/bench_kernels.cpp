// Every CPU kernel at the shapes of a GPT-2 124M step with 2048 tokens, as GFLOP/s or GB/s, so that each can
// be held against the machine's limit. STRATA_BENCH_THREADS sets the compute threads (default: one per core).
#include <benchmark/benchmark.h>

#include <cstdlib>
#include <cstring>
#include <vector>

#include "engine/device/cpu/cpu_device.h"

namespace strata {
namespace {

constexpr std::int64_t kSequence = 512;
constexpr std::int64_t kBatch = 4;
constexpr std::int64_t kTokens = kBatch * kSequence;
constexpr std::int64_t kHidden = 768;
constexpr std::int64_t kHeads = 12;
constexpr std::int64_t kVocabulary = 50257;
/// Rows of logits that exist at once.
constexpr std::int64_t kLossRows = 640;

CpuDevice& device() {
  const char* threads = std::getenv("STRATA_BENCH_THREADS");
  static CpuDevice instance({.threads = threads == nullptr ? 0 : std::atoi(threads), .link = {}});
  return instance;
}

/// A matrix of its own memory, filled with small numbers.
class Operand {
 public:
  Operand(DType dtype, std::int64_t rows, std::int64_t columns)
      : arena_(rows * columns * size_of(dtype)), matrix_(arena_.data(), dtype, rows, columns) {
    for (std::int64_t i = 0; i < matrix_.elements(); ++i) {
      const float value = static_cast<float>(i * 7919 % 2003 - 1001) / 2003.0F;
      if (dtype == DType::fp32) {
        matrix_.row<float>(0)[i] = value;
      } else {
        matrix_.row<bfloat16>(0)[i] = bfloat16(value);
      }
    }
  }
  operator const Matrix&() const { return matrix_; }
  Bytes bytes() const { return arena_.size(); }

 private:
  Arena arena_;
  Matrix matrix_;
};

template <typename Call>
void measure(benchmark::State& state, double operations, double bytes, const Call& call) {
  const std::unique_ptr<Kernels> kernels = device().make_kernels();
  call(*kernels);  // scratch is set up by the first call
  for (auto _ : state) call(*kernels);
  using benchmark::Counter;
  const auto rate = [](double amount) { return Counter(amount, Counter::kIsIterationInvariantRate); };
  if (operations > 0) state.counters["FLOPS"] = rate(operations);
  if (bytes > 0) state.counters["bytes/s"] = rate(bytes);
}

struct MatmulCase {
  const char* name;
  std::int64_t m, n, k;
  bool transpose_a, transpose_b, accumulate;
  DType dtype, out;
};

void bench_matmul(benchmark::State& state, const MatmulCase& c) {
  const Operand a(c.dtype, c.transpose_a ? c.k : c.m, c.transpose_a ? c.m : c.k);
  const Operand b(c.dtype, c.transpose_b ? c.n : c.k, c.transpose_b ? c.k : c.n);
  const Operand out(c.out, c.m, c.n);
  const double operations =
      2.0 * static_cast<double>(c.m) * static_cast<double>(c.n) * static_cast<double>(c.k);
  measure(state, operations, 0, [&](Kernels& kernels) {
    kernels.matmul({.a = a,
                    .transpose_a = c.transpose_a,
                    .b = b,
                    .transpose_b = c.transpose_b,
                    .out = out,
                    .accumulate = c.accumulate});
  });
}

AttentionShape attention_shape() {
  return {.batch = kBatch,
          .sequence = kSequence,
          .heads = kHeads,
          .kv_heads = kHeads,
          .head_dimension = kHidden / kHeads,
          .scale = 0.125F};
}

/// Of `products` causal matrix products.
double attention_operations(int products) {
  return products * static_cast<double>(kTokens) * kSequence * kHidden;
}

void bench_attention(benchmark::State& state) {
  const Operand fused(DType::bf16, kTokens, 3 * kHidden), out(DType::bf16, kTokens, kHidden);
  const Operand log_sum_exp(DType::fp32, kBatch * kHeads, kSequence);
  const Matrix& qkv = fused;
  measure(state, attention_operations(2), 0, [&](Kernels& kernels) {
    kernels.attention({.shape = attention_shape(),
                       .query = qkv.column_slice(0, kHidden),
                       .key = qkv.column_slice(kHidden, kHidden),
                       .value = qkv.column_slice(2 * kHidden, kHidden),
                       .out = out,
                       .log_sum_exp = log_sum_exp});
  });
}

void bench_attention_backward(benchmark::State& state) {
  const Operand fused(DType::bf16, kTokens, 3 * kHidden), out(DType::bf16, kTokens, kHidden);
  const Operand gradient(DType::bf16, kTokens, 3 * kHidden);
  const Operand log_sum_exp(DType::fp32, kBatch * kHeads, kSequence);
  const Matrix& qkv = fused;
  const Matrix& qkv_gradient = gradient;
  measure(state, attention_operations(5), 0, [&](Kernels& kernels) {
    kernels.attention_backward({.shape = attention_shape(),
                                .query = qkv.column_slice(0, kHidden),
                                .key = qkv.column_slice(kHidden, kHidden),
                                .value = qkv.column_slice(2 * kHidden, kHidden),
                                .out = out,
                                .log_sum_exp = log_sum_exp,
                                .out_gradient = out,
                                .query_gradient = qkv_gradient.column_slice(0, kHidden),
                                .key_gradient = qkv_gradient.column_slice(kHidden, kHidden),
                                .value_gradient = qkv_gradient.column_slice(2 * kHidden, kHidden)});
  });
}

void bench_norm(benchmark::State& state) {
  const Operand input(DType::bf16, kTokens, kHidden), branch(DType::bf16, kTokens, kHidden);
  const Operand sum(DType::bf16, kTokens, kHidden), out(DType::bf16, kTokens, kHidden);
  const Operand weight(DType::bf16, 1, kHidden), bias(DType::bf16, 1, kHidden);
  const Operand mean(DType::fp32, 1, kTokens), reciprocal(DType::fp32, 1, kTokens);
  measure(state, 0, 4.0 * static_cast<double>(input.bytes()), [&](Kernels& kernels) {
    kernels.norm({.kind = NormKind::layer_norm,
                  .epsilon = 1e-5F,
                  .input = input,
                  .addend = branch,
                  .sum = sum,
                  .weight = weight,
                  .bias = bias,
                  .out = out,
                  .mean = mean,
                  .reciprocal_deviation = reciprocal});
  });
}

void bench_norm_backward(benchmark::State& state) {
  const Operand input(DType::bf16, kTokens, kHidden), gradient(DType::bf16, kTokens, kHidden);
  const Operand addend(DType::bf16, kTokens, kHidden), out(DType::bf16, kTokens, kHidden);
  const Operand weight(DType::bf16, 1, kHidden);
  const Operand mean(DType::fp32, 1, kTokens), reciprocal(DType::fp32, 1, kTokens);
  const Operand weight_gradient(DType::fp32, 1, kHidden), bias_gradient(DType::fp32, 1, kHidden);
  measure(state, 0, 4.0 * static_cast<double>(input.bytes()), [&](Kernels& kernels) {
    kernels.norm_backward({.kind = NormKind::layer_norm,
                           .input = input,
                           .weight = weight,
                           .mean = mean,
                           .reciprocal_deviation = reciprocal,
                           .out_gradient = gradient,
                           .addend = addend,
                           .input_gradient = out,
                           .weight_gradient = weight_gradient,
                           .bias_gradient = bias_gradient});
  });
}

void bench_gelu(benchmark::State& state) {
  const Operand x(DType::bf16, kTokens, 4 * kHidden), out(DType::bf16, kTokens, 4 * kHidden);
  measure(state, 0, 2.0 * static_cast<double>(x.bytes()), [&](Kernels& kernels) { kernels.gelu(x, out); });
}

void bench_gelu_backward(benchmark::State& state) {
  const Operand x(DType::bf16, kTokens, 4 * kHidden), gradient(DType::bf16, kTokens, 4 * kHidden);
  const Operand out(DType::bf16, kTokens, 4 * kHidden);
  measure(state, 0, 3.0 * static_cast<double>(x.bytes()),
          [&](Kernels& kernels) { kernels.gelu_backward(x, gradient, out); });
}

void bench_swiglu(benchmark::State& state) {
  const Operand x(DType::bf16, kTokens, 4 * kHidden), out(DType::bf16, kTokens, 2 * kHidden);
  measure(state, 0, static_cast<double>(x.bytes() + out.bytes()),
          [&](Kernels& kernels) { kernels.swiglu(x, out); });
}

void bench_swiglu_backward(benchmark::State& state) {
  const Operand x(DType::bf16, kTokens, 4 * kHidden), gradient(DType::bf16, kTokens, 2 * kHidden);
  const Operand out(DType::bf16, kTokens, 4 * kHidden);
  measure(state, 0, static_cast<double>(2 * x.bytes() + gradient.bytes()),
          [&](Kernels& kernels) { kernels.swiglu_backward(x, gradient, out); });
}

void bench_rope(benchmark::State& state) {
  const Operand x(DType::bf16, kTokens, kHidden);
  const Operand cosine(DType::fp32, kSequence, 32), sine(DType::fp32, kSequence, 32);
  measure(state, 0, 2.0 * static_cast<double>(x.bytes()), [&](Kernels& kernels) {
    kernels.rope({.x = x, .sequence = kSequence, .head_dimension = 64, .cosine = cosine, .sine = sine});
  });
}

void bench_column_sums(benchmark::State& state) {
  const Operand x(DType::bf16, kTokens, 4 * kHidden), gradient(DType::fp32, 1, 4 * kHidden);
  measure(state, 0, static_cast<double>(x.bytes()),
          [&](Kernels& kernels) { kernels.add_column_sums(x, gradient); });
}

void bench_add(benchmark::State& state) {
  const Operand a(DType::bf16, kTokens, kHidden), b(DType::bf16, kTokens, kHidden);
  measure(state, 0, 3.0 * static_cast<double>(a.bytes()), [&](Kernels& kernels) { kernels.add(a, b, b); });
}

void bench_cast(benchmark::State& state) {
  const Operand x(DType::fp32, kTokens, 12 * kHidden), out(DType::bf16, kTokens, 12 * kHidden);
  measure(state, 0, static_cast<double>(x.bytes() + out.bytes()),
          [&](Kernels& kernels) { kernels.cast(x, out); });
}

void bench_zero(benchmark::State& state) {
  const Operand x(DType::fp32, kTokens, 12 * kHidden);
  measure(state, 0, static_cast<double>(x.bytes()), [&](Kernels& kernels) { kernels.zero(x); });
}

std::vector<std::int32_t> tokens(std::int64_t count) {
  std::vector<std::int32_t> result;
  for (std::int64_t i = 0; i < count; ++i)
    result.push_back(static_cast<std::int32_t>(i * 7919 % kVocabulary));
  return result;
}

void bench_embedding(benchmark::State& state) {
  const Operand table(DType::bf16, kVocabulary, kHidden), positions(DType::bf16, kSequence, kHidden);
  const Operand out(DType::bf16, kTokens, kHidden);
  const auto ids = tokens(kTokens);
  measure(state, 0, 3.0 * static_cast<double>(out.bytes()),
          [&](Kernels& kernels) { kernels.embedding(ids, table, positions, kSequence, out); });
}

void bench_embedding_backward(benchmark::State& state) {
  const Operand table(DType::fp32, kVocabulary, kHidden), positions(DType::fp32, kSequence, kHidden);
  const Operand gradient(DType::bf16, kTokens, kHidden);
  const auto ids = tokens(kTokens);
  measure(state, 0, 9.0 * static_cast<double>(gradient.bytes()),
          [&](Kernels& kernels) { kernels.embedding_backward(ids, kSequence, gradient, table, positions); });
}

void bench_cross_entropy(benchmark::State& state) {
  const Operand logits(DType::bf16, kLossRows, kVocabulary), losses(DType::fp32, 1, kLossRows);
  const auto targets = tokens(kLossRows);
  measure(state, 0, 2.0 * static_cast<double>(logits.bytes()), [&](Kernels& kernels) {
    kernels.cross_entropy({.logits = logits, .targets = targets, .losses = losses, .gradient_scale = 1e-3F});
  });
}

void register_all() {
  constexpr DType bf16 = DType::bf16;
  constexpr DType fp32 = DType::fp32;
  static const std::vector<MatmulCase> products = {
      {"matmul/qkv", kTokens, 3 * kHidden, kHidden, false, false, false, bf16, bf16},
      {"matmul/up", kTokens, 4 * kHidden, kHidden, false, false, false, bf16, bf16},
      {"matmul/down", kTokens, kHidden, 4 * kHidden, false, false, false, bf16, bf16},
      {"matmul/out", kTokens, kHidden, kHidden, false, false, false, bf16, bf16},
      {"matmul/up_input_gradient", kTokens, kHidden, 4 * kHidden, false, true, false, bf16, bf16},
      {"matmul/down_input_gradient", kTokens, 4 * kHidden, kHidden, false, true, false, bf16, bf16},
      {"matmul/up_weight_gradient", kHidden, 4 * kHidden, kTokens, true, false, true, bf16, fp32},
      {"matmul/down_weight_gradient", 4 * kHidden, kHidden, kTokens, true, false, true, bf16, fp32},
      {"matmul/out_weight_gradient", kHidden, kHidden, kTokens, true, false, true, bf16, fp32},
      {"matmul/logits", kLossRows, kVocabulary, kHidden, false, true, false, bf16, bf16},
      {"matmul/logits_input_gradient", kLossRows, kHidden, kVocabulary, false, false, false, bf16, bf16},
      {"matmul/logits_weight_gradient", kVocabulary, kHidden, kLossRows, true, false, true, bf16, fp32},
      {"matmul/up_fp32", kTokens, 4 * kHidden, kHidden, false, false, false, fp32, fp32},
      {"matmul/up_weight_gradient_fp32", kHidden, 4 * kHidden, kTokens, true, false, true, fp32, fp32},
  };
  const auto add = [](const char* name, auto function) {
    benchmark::RegisterBenchmark(name, function)->UseRealTime()->Unit(benchmark::kMillisecond);
  };
  for (const MatmulCase& c : products) add(c.name, [&c](benchmark::State& state) { bench_matmul(state, c); });
  add("attention", bench_attention);
  add("attention_backward", bench_attention_backward);
  add("norm", bench_norm);
  add("norm_backward", bench_norm_backward);
  add("gelu", bench_gelu);
  add("gelu_backward", bench_gelu_backward);
  add("swiglu", bench_swiglu);
  add("swiglu_backward", bench_swiglu_backward);
  add("rope", bench_rope);
  add("add_column_sums", bench_column_sums);
  add("embedding", bench_embedding);
  add("embedding_backward", bench_embedding_backward);
  add("cross_entropy", bench_cross_entropy);
  add("add", bench_add);
  add("cast", bench_cast);
  add("zero", bench_zero);
}

}  // namespace
}  // namespace strata

int main(int argc, char** argv) {
  strata::register_all();
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
}
