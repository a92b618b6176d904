// Every kernel of a device as FLOP/s or bytes/s, so that each can be held against the machine's limit. On the
// CPU the shapes are those of a GPT-2 124M step with 2048 tokens. On a GPU they are those of a Llama 8B step
// with 16384 tokens, further lengths and heads of attention, and the experts of Qwen3-30B-A3B.
// STRATA_BENCH_DEVICE is cpu (default) or cuda; STRATA_BENCH_THREADS sets the CPU's compute threads (default:
// one per core). Times are the device's own. With --benchmark_min_time=0.03 and without fp32 products
// (--benchmark_filter=-_fp32) a GPU takes less than a minute.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <cmath>
#include <iostream>
#include <string>
#include <utility>
#include <vector>

#include "bench/device.h"
#include "engine/device/direction.h"
#include "engine/device/kernel_calls.h"
#include "engine/device/newton_schulz.h"
#include "optim/update.h"

namespace strata {
namespace {

using bench::DeviceArray;
using bench::Operand;

constexpr DType kBf16 = DType::bf16;
constexpr DType kFp32 = DType::fp32;

struct AttentionCase {
  std::int64_t sequence, heads, kv_heads, head_dimension;
  std::int64_t documents = 1;  ///< of equal length in each sequence

  std::int64_t hidden() const { return heads * head_dimension; }
  std::int64_t kv() const { return kv_heads * head_dimension; }
  std::int64_t qkv() const { return hidden() + 2 * kv(); }
};

/// A layer of experts: each is a gated MLP.
struct ExpertShapes {
  std::int64_t count, per_token;
  std::int64_t hidden;
  std::int64_t width;  ///< columns of an expert's activation
};

struct Shapes {
  std::int64_t batch, sequence, hidden, heads, kv_heads;
  std::int64_t up;    ///< columns of the MLP's first product; in a gated MLP gate and up
  std::int64_t down;  ///< rows of the MLP's second product
  std::int64_t vocabulary;
  std::int64_t loss_rows;          ///< rows of logits that exist at once, as in engine/model
  std::int64_t update_parameters;  ///< of one optimizer update: a block's
  int most_calls;                  ///< per measurement
  ExpertShapes experts;

  std::int64_t tokens() const { return batch * sequence; }
  std::int64_t head_dimension() const { return hidden / heads; }
  std::int64_t kv() const { return kv_heads * head_dimension(); }
  std::int64_t qkv() const { return hidden + 2 * kv(); }
};

constexpr Shapes kGpt2Small = {.batch = 4,
                               .sequence = 512,
                               .hidden = 768,
                               .heads = 12,
                               .kv_heads = 12,
                               .up = 4 * 768,
                               .down = 4 * 768,
                               .vocabulary = 50257,
                               .loss_rows = 640,
                               .update_parameters = 12 * 768 * 768,
                               .most_calls = 1,
                               .experts = {.count = 8, .per_token = 2, .hidden = 768, .width = 384}};
constexpr Shapes kLlama8B = {.batch = 8,
                             .sequence = 2048,
                             .hidden = 4096,
                             .heads = 32,
                             .kv_heads = 8,
                             .up = 2 * 14336,
                             .down = 14336,
                             .vocabulary = 128256,
                             .loss_rows = 2048,
                             .update_parameters = 4096 * (2 * 4096 + 2 * 1024 + 3 * 14336),
                             .most_calls = 10,
                             .experts = {.count = 128, .per_token = 8, .hidden = 2048, .width = 768}};

Device& device() {
  static const std::unique_ptr<Device> instance = bench::make_device_from_environment();
  return *instance;
}

const Shapes& shapes() {
  return device().host_addressable() ? kGpt2Small : kLlama8B;
}

Operand operand(DType dtype, std::int64_t rows, std::int64_t columns) {
  return {device(), dtype, rows, columns};
}
/// [tokens, columns] in bf16.
Operand activation(std::int64_t columns) {
  return operand(kBf16, shapes().tokens(), columns);
}
Operand vector_of(DType dtype, std::int64_t columns) {
  return operand(dtype, 1, columns);
}

/// Per measurement, of a call that takes `seconds`: as many as keep a GPU from waiting for the host.
int calls_of(double seconds) {
  constexpr double kLongEnoughSeconds = 10e-3;
  return static_cast<int>(std::clamp(kLongEnoughSeconds / seconds, 1.0, 1.0 * shapes().most_calls));
}

template <typename Call>
void measure(benchmark::State& state, double operations, double bytes, const Call& call) {
  const std::unique_ptr<Stream> stream = device().make_stream();
  Kernels& kernels = stream->kernels();
  call(kernels);  // scratch is set up by the first call
  wait_for_all(*stream);
  const int calls = calls_of(seconds_on_device(*stream, [&] { call(kernels); }));
  while (state.KeepRunningBatch(calls)) {
    state.SetIterationTime(seconds_on_device(*stream, [&] {
      for (int i = 0; i < calls; ++i) call(kernels);
    }));
  }
  using benchmark::Counter;
  const auto rate = [](double amount) { return Counter(amount, Counter::kIsIterationInvariantRate); };
  if (operations > 0) state.counters["FLOPS"] = rate(operations);
  if (bytes > 0) state.counters["bytes/s"] = rate(bytes);
}

template <typename Call>
void measure_operations(benchmark::State& state, double operations, const Call& call) {
  measure(state, operations, 0, call);
}
template <typename Call>
void measure_bytes(benchmark::State& state, double bytes, const Call& call) {
  measure(state, 0, bytes, call);
}

struct MatmulCase {
  std::string name;
  std::int64_t m, n, k;
  bool transpose_a = false, transpose_b = false, accumulate = false;
  DType dtype = kBf16, out = kBf16;
};

void bench_matmul(benchmark::State& state, const MatmulCase& c) {
  const Operand a = operand(c.dtype, c.transpose_a ? c.k : c.m, c.transpose_a ? c.m : c.k);
  const Operand b = operand(c.dtype, c.transpose_b ? c.n : c.k, c.transpose_b ? c.k : c.n);
  const Operand out = operand(c.out, c.m, c.n);
  const double operations =
      2.0 * static_cast<double>(c.m) * static_cast<double>(c.n) * static_cast<double>(c.k);
  measure_operations(state, operations, [&](Kernels& kernels) {
    kernels.run(Product{.a = a,
                        .transpose_a = c.transpose_a,
                        .b = b,
                        .transpose_b = c.transpose_b,
                        .out = out,
                        .accumulate = c.accumulate});
  });
}

std::vector<AttentionCase> attention_cases() {
  const Shapes& s = shapes();
  const AttentionCase of_step = {s.sequence, s.heads, s.kv_heads, s.head_dimension()};
  AttentionCase in_documents = of_step;
  in_documents.documents = 4;
  if (device().host_addressable()) return {of_step, in_documents};
  return {of_step,           in_documents,      {4096, 32, 8, 128}, {8192, 32, 8, 128}, {16384, 32, 8, 128},
          {2048, 32, 8, 64}, {8192, 32, 8, 64}, {2048, 16, 8, 256}, {8192, 16, 8, 256}};
}

AttentionShape shape_of(const AttentionCase& c) {
  return {.batch = shapes().tokens() / c.sequence,
          .sequence = c.sequence,
          .heads = c.heads,
          .kv_heads = c.kv_heads,
          .head_dimension = c.head_dimension,
          .scale = 1 / std::sqrt(static_cast<float>(c.head_dimension))};
}

std::vector<std::int32_t> places(const AttentionCase& c) {
  std::vector<std::int32_t> places;
  for (std::int64_t token = 0; token < shapes().tokens(); ++token)
    places.push_back(static_cast<std::int32_t>(token % (c.sequence / c.documents)));
  return places;
}

/// Counts the operations of `products` causal matrix products, of queries with keys of their documents.
double attention_operations(int products, const AttentionCase& c) {
  const std::int64_t length = c.sequence / c.documents;
  return products * static_cast<double>(shapes().tokens()) * static_cast<double>(length * c.hidden());
}

/// What attention reads and writes; query, key and value lie in one fused matrix.
struct AttentionOperands {
  explicit AttentionOperands(const AttentionCase& c)
      : fused(activation(c.qkv())),
        out(activation(c.hidden())),
        log_sum_exp(operand(kFp32, shapes().tokens() / c.sequence * c.heads, c.sequence)),
        query(fused.matrix().column_slice(0, c.hidden())),
        key(fused.matrix().column_slice(c.hidden(), c.kv())),
        value(fused.matrix().column_slice(c.hidden() + c.kv(), c.kv())),
        in_documents(device(), strata::places(c)),
        places(c.documents > 1 ? in_documents.span() : Places()) {}
  Operand fused, out, log_sum_exp;
  Matrix query, key, value;
  DeviceArray<std::int32_t> in_documents;
  Places places;
};

void bench_attention(benchmark::State& state, const AttentionCase& c) {
  const AttentionOperands x(c);
  measure_operations(state, attention_operations(2, c), [&](Kernels& kernels) {
    kernels.run(AttentionForward{.shape = shape_of(c),
                                 .query = x.query,
                                 .key = x.key,
                                 .value = x.value,
                                 .out = x.out,
                                 .log_sum_exp = x.log_sum_exp,
                                 .places = x.places});
  });
}

void bench_attention_backward(benchmark::State& state, const AttentionCase& c) {
  const AttentionOperands x(c), gradient(c);
  measure_operations(state, attention_operations(5, c), [&](Kernels& kernels) {
    kernels.run(AttentionBackward{.shape = shape_of(c),
                                  .query = x.query,
                                  .key = x.key,
                                  .value = x.value,
                                  .out = x.out,
                                  .log_sum_exp = x.log_sum_exp,
                                  .out_gradient = gradient.out,
                                  .query_gradient = gradient.query,
                                  .key_gradient = gradient.key,
                                  .value_gradient = gradient.value,
                                  .places = x.places});
  });
}

/// Rows of tokens that experts compute, an equal number each, and where each expert's rows begin.
std::int64_t expert_rows() {
  return shapes().tokens() * shapes().experts.per_token;
}
DeviceArray<std::int32_t> expert_offsets() {
  const std::int64_t count = shapes().experts.count;
  std::vector<std::int32_t> offsets;
  for (std::int64_t expert = 0; expert <= count; ++expert)
    offsets.push_back(static_cast<std::int32_t>(expert_rows() * expert / count));
  return {device(), offsets};
}

/// Each row's product with its expert's [columns, depth] matrix, transposed.
void bench_grouped_product(benchmark::State& state, std::int64_t columns, std::int64_t depth) {
  const Operand a = operand(kBf16, expert_rows(), depth), out = operand(kBf16, expert_rows(), columns);
  const Operand b = operand(kBf16, shapes().experts.count * columns, depth);
  const auto offsets = expert_offsets();
  measure_operations(state, 2.0 * static_cast<double>(expert_rows() * columns) * static_cast<double>(depth),
                     [&](Kernels& kernels) {
                       kernels.run(GroupedProduct{
                           .offsets = offsets.span(), .a = a, .b = b, .transpose_b = true, .out = out});
                     });
}

/// The gradient of each expert's [rows, columns] matrix.
void bench_grouped_weight_gradient(benchmark::State& state, std::int64_t rows, std::int64_t columns) {
  const Operand a = operand(kBf16, expert_rows(), rows), b = operand(kBf16, expert_rows(), columns);
  const Operand gradient = operand(kFp32, shapes().experts.count * rows, columns);
  const auto offsets = expert_offsets();
  measure_operations(
      state, 2.0 * static_cast<double>(expert_rows() * columns) * static_cast<double>(rows),
      [&](Kernels& kernels) {
        kernels.run(GroupedWeightGradient{.offsets = offsets.span(), .a = a, .b = b, .gradient = gradient});
      });
}

void bench_norm(benchmark::State& state, NormKind kind) {
  const std::int64_t hidden = shapes().hidden, tokens = shapes().tokens();
  const bool layer = kind == NormKind::layer_norm;
  const Operand input = activation(hidden), branch = activation(hidden), sum = activation(hidden),
                out = activation(hidden);
  const Operand weight = vector_of(kBf16, hidden), bias = vector_of(kBf16, hidden);
  const Operand mean = vector_of(kFp32, tokens), reciprocal = vector_of(kFp32, tokens);
  measure_bytes(state, 4 * input.bytes(), [&](Kernels& kernels) {
    kernels.run(NormForward{.kind = kind,
                            .epsilon = 1e-5F,
                            .input = input,
                            .addend = branch,
                            .sum = sum,
                            .weight = weight,
                            .bias = layer ? bias.matrix() : Matrix(),
                            .out = out,
                            .mean = layer ? mean.matrix() : Matrix(),
                            .reciprocal_deviation = reciprocal});
  });
}

void bench_norm_backward(benchmark::State& state, NormKind kind) {
  const std::int64_t hidden = shapes().hidden, tokens = shapes().tokens();
  const bool layer = kind == NormKind::layer_norm;
  const Operand input = activation(hidden), gradient = activation(hidden), addend = activation(hidden),
                out = activation(hidden);
  const Operand weight = vector_of(kBf16, hidden);
  const Operand mean = vector_of(kFp32, tokens), reciprocal = vector_of(kFp32, tokens);
  const Operand weight_gradient = vector_of(kFp32, hidden), bias_gradient = vector_of(kFp32, hidden);
  measure_bytes(state, 4 * input.bytes(), [&](Kernels& kernels) {
    kernels.run(NormBackward{.kind = kind,
                             .input = input,
                             .weight = weight,
                             .mean = layer ? mean.matrix() : Matrix(),
                             .reciprocal_deviation = reciprocal,
                             .out_gradient = gradient,
                             .addend = addend,
                             .input_gradient = out,
                             .weight_gradient = weight_gradient,
                             .bias_gradient = layer ? bias_gradient.matrix() : Matrix()});
  });
}

void bench_gelu(benchmark::State& state) {
  const Operand x = activation(shapes().down), out = activation(shapes().down);
  measure_bytes(state, 2 * x.bytes(), [&](Kernels& kernels) {
    kernels.run(ActivationForward{Activation::gelu_tanh, x, out});
  });
}

void bench_gelu_backward(benchmark::State& state) {
  const Operand x = activation(shapes().down), gradient = activation(shapes().down),
                out = activation(shapes().down);
  measure_bytes(state, 3 * x.bytes(), [&](Kernels& kernels) {
    kernels.run(ActivationBackward{Activation::gelu_tanh, x, gradient, out});
  });
}

void bench_swiglu(benchmark::State& state) {
  const Operand x = activation(shapes().up), out = activation(shapes().up / 2);
  measure_bytes(state, x.bytes() + out.bytes(), [&](Kernels& kernels) {
    kernels.run(GatedForward{Activation::silu, x, out});
  });
}

void bench_swiglu_backward(benchmark::State& state) {
  const Operand x = activation(shapes().up), gradient = activation(shapes().up / 2),
                out = activation(shapes().up);
  measure_bytes(state, 2 * x.bytes() + gradient.bytes(), [&](Kernels& kernels) {
    kernels.run(GatedBackward{Activation::silu, x, gradient, out});
  });
}

void bench_rope(benchmark::State& state) {
  const Shapes& s = shapes();
  const Operand x = activation(s.hidden);
  const Operand cosine = operand(kFp32, s.sequence, s.head_dimension() / 2),
                sine = operand(kFp32, s.sequence, s.head_dimension() / 2);
  measure_bytes(state, 2 * x.bytes(), [&](Kernels& kernels) {
    kernels.run(Rope{.x = x,
                     .sequence = s.sequence,
                     .head_dimension = s.head_dimension(),
                     .cosine = cosine,
                     .sine = sine});
  });
}

void bench_column_sums(benchmark::State& state) {
  const Operand x = activation(shapes().down), gradient = vector_of(kFp32, shapes().down);
  measure_bytes(state, x.bytes(), [&](Kernels& kernels) { kernels.run(ColumnSum{x, gradient}); });
}

void bench_add(benchmark::State& state) {
  const Operand a = activation(shapes().hidden), b = activation(shapes().hidden);
  measure_bytes(state, 3 * a.bytes(), [&](Kernels& kernels) { kernels.run(Addition{a, b, b}); });
}

void bench_cast(benchmark::State& state) {
  const Operand x = operand(kFp32, shapes().tokens(), 12 * shapes().hidden),
                out = activation(12 * shapes().hidden);
  measure_bytes(state, x.bytes() + out.bytes(), [&](Kernels& kernels) { kernels.run(Cast{x, out}); });
}

void bench_zero(benchmark::State& state) {
  const Operand x = operand(kFp32, shapes().tokens(), 12 * shapes().hidden);
  measure_bytes(state, x.bytes(), [&](Kernels& kernels) { kernels.run(Zero{x}); });
}

DeviceArray<std::int32_t> tokens(std::int64_t count) {
  std::vector<std::int32_t> result;
  for (std::int64_t i = 0; i < count; ++i)
    result.push_back(static_cast<std::int32_t>(i * 7919 % shapes().vocabulary));
  return {device(), result};
}

void bench_embedding(benchmark::State& state) {
  const Shapes& s = shapes();
  const Operand table = operand(kBf16, s.vocabulary, s.hidden),
                positions = operand(kBf16, s.sequence, s.hidden);
  const Operand out = activation(s.hidden);
  const auto ids = tokens(s.tokens());
  measure_bytes(state, 3 * out.bytes(), [&](Kernels& kernels) {
    kernels.run(EmbeddingForward{ids.span(), table, positions, s.sequence, out});
  });
}

void bench_embedding_backward(benchmark::State& state) {
  const Shapes& s = shapes();
  const Operand table = operand(kFp32, s.vocabulary, s.hidden),
                positions = operand(kFp32, s.sequence, s.hidden);
  const Operand gradient = activation(s.hidden);
  const auto ids = tokens(s.tokens());
  measure_bytes(state, 9 * gradient.bytes(), [&](Kernels& kernels) {
    kernels.run(EmbeddingBackward{.tokens = ids.span(),
                                  .sequence = s.sequence,
                                  .out_gradient = gradient,
                                  .table_gradient = table,
                                  .positions_gradient = positions});
  });
}

void bench_cross_entropy(benchmark::State& state) {
  const Shapes& s = shapes();
  const Operand logits = operand(kBf16, s.loss_rows, s.vocabulary), losses = vector_of(kFp32, s.loss_rows);
  const auto targets = tokens(s.loss_rows);
  measure_bytes(state, 2 * logits.bytes(), [&](Kernels& kernels) {
    kernels.run(
        CrossEntropy{.logits = logits, .targets = targets.span(), .losses = losses, .gradient_scale = 1e-3F});
  });
}

void bench_adamw(benchmark::State& state, const StateFormat& format) {
  const std::int64_t count = shapes().update_parameters;
  const Operand master = vector_of(format.master == MasterFormat::fp32 ? kFp32 : kBf16, count);
  const auto moment_of_adam = [&](Moment moment) {
    return vector_of(kBf16, format.moment_bytes(moment, count) / size_of(kBf16));
  };
  const Operand exp_avg = moment_of_adam(Moment::exp_avg), exp_avg_sq = moment_of_adam(Moment::exp_avg_sq);
  const Operand gradient = vector_of(kBf16, count), parameter = vector_of(kBf16, count);
  const UpdateCoefficients step =
      coefficients({.policy = {.weight_decay = 0.1F}, .learning_rate = 1e-4F, .step = 10});
  const DeviceArray<UpdateCoefficients> steps(device(), {step});
  const DeviceArray<std::uint32_t> skip(device(), {0});
  const std::unique_ptr<Stream> stream = device().make_stream();
  stream->kernels().run(Zero{exp_avg_sq});  // squares are not negative
  wait_for_all(*stream);
  const OptimizerState all = {.precision = kBf16,
                              .format = format,
                              .elements = count,
                              .master = master.matrix().data,
                              .moments = {exp_avg.matrix().data, exp_avg_sq.matrix().data},
                              .gradient = gradient.matrix().data,
                              .parameter = parameter.matrix().data};
  measure_bytes(state, static_cast<double>(format.update_bytes(kBf16, count)), [&](Kernels& kernels) {
    kernels.run(ParameterUpdate{.skip = skip.data(), .step = steps.data(), .state = all});
  });
}

void bench_sum_of_squares(benchmark::State& state) {
  const Operand x = vector_of(kBf16, shapes().update_parameters);
  const DeviceArray<double> sum(device(), {0});
  measure_bytes(state, x.bytes(), [&](Kernels& kernels) { kernels.run(SumOfSquares{x, sum.data()}); });
}

/// Muon's of one matrix.
void bench_newton_schulz(benchmark::State& state, std::int64_t rows, std::int64_t columns) {
  const Operand matrix = operand(kBf16, rows, columns);
  const Operand workspace = vector_of(kFp32, orthogonalize_bytes(rows, columns) / size_of(kFp32));
  measure_operations(state, orthogonalize_flops(rows, columns), [&](Kernels& kernels) {
    orthogonalize(kernels, matrix, static_cast<std::byte*>(workspace.matrix().data));
  });
}

/// Adafactor's of one matrix, whose gradient four kernels read and one writes.
void bench_adafactor(benchmark::State& state, std::int64_t rows, std::int64_t columns) {
  const Operand gradient = operand(kBf16, rows, columns), factors = vector_of(kFp32, rows + columns);
  const Operand workspace =
      vector_of(kFp32, direction_bytes(UpdateRule::adafactor, rows, columns) / size_of(kFp32));
  const DeviceArray<UpdateCoefficients> steps(
      device(), {coefficients({.policy = {.rule = UpdateRule::adafactor, .settings = {.epsilon = 1e-30}}})});
  const DeviceArray<std::uint32_t> skip(device(), {0});
  const DirectionRule rule = {.rule = UpdateRule::adafactor,
                              .skip = skip.data(),
                              .step = steps.data(),
                              .factors = static_cast<float*>(factors.matrix().data)};
  constexpr double kPasses = 5;
  measure_bytes(state, kPasses * gradient.bytes(), [&](Kernels& kernels) {
    find_direction(kernels, rule, gradient, static_cast<std::byte*>(workspace.matrix().data));
  });
}

std::vector<MatmulCase> matmul_cases() {
  const Shapes& s = shapes();
  const std::int64_t tokens = s.tokens(), hidden = s.hidden;
  const auto forward = [](std::string name, std::int64_t m, std::int64_t n, std::int64_t k) {
    return MatmulCase{.name = std::move(name), .m = m, .n = n, .k = k};
  };
  const auto input_gradient = [](std::string name, std::int64_t m, std::int64_t n, std::int64_t k) {
    return MatmulCase{.name = std::move(name), .m = m, .n = n, .k = k, .transpose_b = true};
  };
  const auto weight_gradient = [](std::string name, std::int64_t m, std::int64_t n, std::int64_t k) {
    return MatmulCase{.name = std::move(name),
                      .m = m,
                      .n = n,
                      .k = k,
                      .transpose_a = true,
                      .accumulate = true,
                      .out = kFp32};
  };
  std::vector<MatmulCase> cases = {
      forward("matmul/qkv", tokens, s.qkv(), hidden),
      forward("matmul/up", tokens, s.up, hidden),
      forward("matmul/down", tokens, hidden, s.down),
      forward("matmul/out", tokens, hidden, hidden),
      input_gradient("matmul/up_input_gradient", tokens, hidden, s.up),
      input_gradient("matmul/down_input_gradient", tokens, s.down, hidden),
      weight_gradient("matmul/up_weight_gradient", hidden, s.up, tokens),
      weight_gradient("matmul/down_weight_gradient", s.down, hidden, tokens),
      weight_gradient("matmul/out_weight_gradient", hidden, hidden, tokens),
      input_gradient("matmul/logits", s.loss_rows, s.vocabulary, hidden),
      forward("matmul/logits_input_gradient", s.loss_rows, hidden, s.vocabulary),
      weight_gradient("matmul/logits_weight_gradient", s.vocabulary, hidden, s.loss_rows),
  };
  for (std::size_t i = 0, count = cases.size(); i < count; ++i) {
    MatmulCase fp32 = cases[i];
    fp32.name += "_fp32";
    fp32.dtype = fp32.out = kFp32;
    cases.push_back(fp32);
  }
  return cases;
}

void register_all() {
  const auto add = [](const char* name, auto function) {
    benchmark::RegisterBenchmark(name, function)->UseManualTime()->Unit(benchmark::kMillisecond);
  };
  for (const MatmulCase& c : matmul_cases())
    add(c.name.c_str(), [c](benchmark::State& state) { bench_matmul(state, c); });
  const auto norm = [](auto function, NormKind kind) {
    return [=](benchmark::State& state) { function(state, kind); };
  };
  for (const AttentionCase& c : attention_cases()) {
    std::string of = std::to_string(c.sequence) + "x" + std::to_string(c.head_dimension);
    if (c.documents > 1) of += "_in_" + std::to_string(c.documents) + "_documents";
    add(("attention/" + of).c_str(), [c](benchmark::State& state) { bench_attention(state, c); });
    add(("attention_backward/" + of).c_str(),
        [c](benchmark::State& state) { bench_attention_backward(state, c); });
  }
  const ExpertShapes& experts = shapes().experts;
  const auto grouped = [](auto function, std::int64_t first, std::int64_t second) {
    return [=](benchmark::State& state) { function(state, first, second); };
  };
  add("grouped/up", grouped(bench_grouped_product, 2 * experts.width, experts.hidden));
  add("grouped/down", grouped(bench_grouped_product, experts.hidden, experts.width));
  add("grouped/up_weight_gradient",
      grouped(bench_grouped_weight_gradient, 2 * experts.width, experts.hidden));
  add("grouped/down_weight_gradient", grouped(bench_grouped_weight_gradient, experts.hidden, experts.width));
  add("norm", norm(bench_norm, NormKind::layer_norm));
  add("norm_backward", norm(bench_norm_backward, NormKind::layer_norm));
  add("rms_norm", norm(bench_norm, NormKind::rms_norm));
  add("rms_norm_backward", norm(bench_norm_backward, NormKind::rms_norm));
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
  const auto adamw = [](const StateFormat& format) {
    return [=](benchmark::State& state) { bench_adamw(state, format); };
  };
  add("adamw", adamw({}));
  add("adamw_split_master", adamw({.master = MasterFormat::split}));
  add("adamw_bf16_moments", adamw({.moments = MomentFormat::bf16}));
  add("adamw_without_master", adamw({.master = MasterFormat::none}));
  add("adamw_smallest_state", adamw({.master = MasterFormat::split, .moments = MomentFormat::bf16}));
  add("sum_of_squares", bench_sum_of_squares);
  for (const std::int64_t columns : {shapes().hidden, shapes().down}) {
    const std::string size = std::to_string(shapes().hidden) + "x" + std::to_string(columns);
    add(("newton_schulz/" + size).c_str(),
        [columns](benchmark::State& state) { bench_newton_schulz(state, shapes().hidden, columns); });
    add(("adafactor/" + size).c_str(),
        [columns](benchmark::State& state) { bench_adafactor(state, shapes().hidden, columns); });
  }
}

}  // namespace
}  // namespace strata

int main(int argc, char** argv) try {
  strata::register_all();
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
} catch (const strata::DeviceError& error) {
  std::cerr << "bench_kernels: " << error.what() << '\n';
  return 1;
}
