// AdamW against a bare stream of the same 28 bytes per parameter: fp32 master, exp_avg and exp_avg_sq read
// and written, bf16 gradient read, bf16 parameter written. Both prefetch and store in the way that was found
// fastest. The two alternate on the same memory, an arena as a run has it, and the ratio is the median of the
// ratios of neighbours, so that another program on the machine disturbs both alike.
//   build/bench/bench_adamw [PARAMETERS [THREADS]]
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <vector>

#include <benchmark/benchmark.h>
#include <oneapi/tbb/blocked_range.h>
#include <oneapi/tbb/parallel_for.h>
#include <oneapi/tbb/task_arena.h>

#include "offload/arena.h"
#include "optim/adamw.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "bench/bench_adamw.cpp"
#include <hwy/foreach_target.h>  // IWYU pragma: keep

#include <hwy/cache_control.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace strata::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// Each array is read and written like AdamW does, with as little arithmetic as keeps the compiler honest.
/// Multiplying by `one` leaves the state as it is. REQUIRES: `elements` is a multiple of 64, pointers are
/// aligned to 64 bytes.
void stream(float* master, float* exp_avg, float* exp_avg_sq, const bfloat16* gradient, bfloat16* parameter,
            float one, std::int64_t elements) {
  const hn::ScalableTag<float> floats;
  const hn::RebindToUnsigned<decltype(floats)> words;
  const hn::RebindToSigned<decltype(floats)> integers;
  const hn::Rebind<std::uint16_t, decltype(floats)> halves;
  const auto factor = hn::Set(floats, one);
  constexpr std::int64_t kAhead = 256;
  for (std::int64_t i = 0; i < elements; i += static_cast<std::int64_t>(hn::Lanes(floats))) {
    hwy::Prefetch(master + i + kAhead);
    hwy::Prefetch(exp_avg + i + kAhead);
    hwy::Prefetch(exp_avg_sq + i + kAhead);
    hwy::Prefetch(gradient + i + kAhead);
    const auto g =
        hn::PromoteTo(words, hn::Load(halves, reinterpret_cast<const std::uint16_t*>(gradient) + i));
    const auto m = hn::Mul(hn::Load(floats, exp_avg + i), factor);
    const auto v = hn::Mul(hn::Load(floats, exp_avg_sq + i), factor);
    const auto p = hn::Mul(hn::Load(floats, master + i), factor);
    hn::Store(m, floats, exp_avg + i);
    hn::Store(v, floats, exp_avg_sq + i);
    hn::Store(p, floats, master + i);
    const auto out =
        hn::DemoteTo(halves, hn::BitCast(integers, hn::Xor(g, hn::ShiftRight<16>(hn::BitCast(words, p)))));
    if constexpr (hn::MaxLanes(halves) >= 8) {
      hn::Stream(out, halves, reinterpret_cast<std::uint16_t*>(parameter) + i);
    } else {
      hn::Store(out, halves, reinterpret_cast<std::uint16_t*>(parameter) + i);
    }
  }
  hwy::FlushStream();
}

}  // namespace strata::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace strata {
namespace {

HWY_EXPORT(stream);

constexpr double kBytesPerParameter = 28;
constexpr std::int64_t kChunk = 64 * 1024;

/// All arrays of `elements` parameters, first touched by the threads that work on them.
class State {
 public:
  explicit State(std::int64_t elements)
      : elements_(elements),
        arena_(elements * static_cast<Bytes>(3 * sizeof(float) + 2 * sizeof(bfloat16))),
        master_(reinterpret_cast<float*>(arena_.data())),
        exp_avg_(master_ + elements),
        exp_avg_sq_(exp_avg_ + elements),
        gradient_(reinterpret_cast<bfloat16*>(exp_avg_sq_ + elements)),
        parameter_(gradient_ + elements) {
    for_chunks([this](std::int64_t first, std::int64_t count) {
      for (std::int64_t i = first; i < first + count; ++i) {
        const float value = static_cast<float>(i % 1013) * 1e-3F - 0.5F;
        master_[i] = value;
        exp_avg_[i] = 0.1F * value;
        exp_avg_sq_[i] = 0.01F * value * value;
        gradient_[i] = bfloat16(value);
        parameter_[i] = bfloat16(value);
      }
    });
  }

  void run_adamw() {
    const auto size = static_cast<std::size_t>(elements_);
    adamw(coefficients({.learning_rate = 1e-4F, .weight_decay = 0.1F, .gradient_scale = 0.5F, .step = 10}),
          {.master = {master_, size},
           .exp_avg = {exp_avg_, size},
           .exp_avg_sq = {exp_avg_sq_, size},
           .gradient = gradient_,
           .gradient_dtype = DType::bf16,
           .parameter = parameter_});
  }

  void run_stream() {
    float one = 1;
    benchmark::DoNotOptimize(one);
    for_chunks([this, one](std::int64_t first, std::int64_t count) {
      HWY_DYNAMIC_DISPATCH(stream)
      (master_ + first, exp_avg_ + first, exp_avg_sq_ + first, gradient_ + first, parameter_ + first, one,
       count);
    });
  }

 private:
  template <typename Body>
  void for_chunks(const Body& body) const {
    oneapi::tbb::parallel_for(
        oneapi::tbb::blocked_range<std::int64_t>(0, (elements_ + kChunk - 1) / kChunk, 1),
        [&](const oneapi::tbb::blocked_range<std::int64_t>& chunks) {
          const std::int64_t first = chunks.begin() * kChunk;
          body(first, std::min(chunks.end() * kChunk, elements_) - first);
        });
  }

  std::int64_t elements_;
  Arena arena_;
  float *master_, *exp_avg_, *exp_avg_sq_;
  bfloat16 *gradient_, *parameter_;
};

template <typename Body>
double seconds_of(const Body& body) {
  const auto start = std::chrono::steady_clock::now();
  body();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

/// One iteration is an update and a stream, in alternating order; the reported time is the update's.
void adamw_against_stream(benchmark::State& state, std::int64_t elements, int threads) {
  oneapi::tbb::task_arena arena(threads);
  arena.execute([&] {
    State memory(elements);
    memory.run_adamw();
    memory.run_stream();
    std::vector<double> update_seconds, stream_seconds, ratios;
    bool update_first = true;
    for (auto iteration : state) {
      (void)iteration;
      double update = 0, bare = 0;
      if (update_first) update = seconds_of([&] { memory.run_adamw(); });
      bare = seconds_of([&] { memory.run_stream(); });
      if (!update_first) update = seconds_of([&] { memory.run_adamw(); });
      update_first = !update_first;
      state.SetIterationTime(update);
      update_seconds.push_back(update);
      stream_seconds.push_back(bare);
      ratios.push_back(bare / update);
    }
    const auto count = static_cast<double>(elements);
    state.counters["adamw_parameters_per_second"] = count / median(update_seconds);
    state.counters["stream_parameters_per_second"] = count / median(stream_seconds);
    state.counters["adamw_bytes_per_second"] = kBytesPerParameter * count / median(update_seconds);
    state.counters["rate_of_stream"] = median(ratios);
  });
}

}  // namespace
}  // namespace strata

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  const std::int64_t elements = (argc > 1 ? std::atoll(argv[1]) : 128LL * 1024 * 1024) / 64 * 64;
  const int threads = argc > 2 ? std::atoi(argv[2]) : 2;
  benchmark::RegisterBenchmark("adamw_against_stream", strata::adamw_against_stream, elements, threads)
      ->UseManualTime()
      ->Iterations(30)
      ->Unit(benchmark::kMillisecond);
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
#endif
