// AdamW against a bare stream of the same 28 bytes per parameter: fp32 master, exp_avg and exp_avg_sq read
// and written, bf16 gradient read, bf16 parameter written. Both prefetch and store in the way that was found
// fastest. The two alternate on the same memory, an arena as a run has it, and the ratio is the median of the
// ratios of neighbours, so that another program on the machine disturbs both alike.
//   build/bench/bench_adamw [PARAMETERS [THREADS]]
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <vector>

#include <benchmark/benchmark.h>

#include "engine/base/task_arena.h"
#include "engine/execute/measure.h"

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

/// Reads and writes what the update does.
void run_stream(const HostUpdate::Arrays& arrays, std::int64_t elements) {
  volatile float unknown_to_the_compiler = 1;
  const float one = unknown_to_the_compiler;
  constexpr std::int64_t kChunk = 64 * 1024;
  for_ranges(
      (elements + kChunk - 1) / kChunk, 1, [&](std::int64_t first_chunk, std::int64_t last_chunk, int) {
        const std::int64_t first = first_chunk * kChunk;
        HWY_DYNAMIC_DISPATCH(stream)
        (arrays.master + first, arrays.exp_avg + first, arrays.exp_avg_sq + first, arrays.gradient + first,
         arrays.parameter + first, one, std::min(last_chunk * kChunk, elements) - first);
      });
}

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

/// One iteration is an update and a stream, in alternating order; the reported time is the update's.
void adamw_against_stream(benchmark::State& state, std::int64_t elements, int threads) {
  TaskArena(threads).execute([&] {
    const HostUpdate memory(elements);
    memory.run();
    run_stream(memory.arrays(), elements);
    std::vector<double> update_seconds, stream_seconds, ratios;
    bool update_first = true;
    for (auto iteration : state) {
      (void)iteration;
      double update = 0, bare = 0;
      if (update_first) update = seconds_on_host([&] { memory.run(); });
      bare = seconds_on_host([&] { run_stream(memory.arrays(), elements); });
      if (!update_first) update = seconds_on_host([&] { memory.run(); });
      update_first = !update_first;
      state.SetIterationTime(update);
      update_seconds.push_back(update);
      stream_seconds.push_back(bare);
      ratios.push_back(bare / update);
    }
    const auto count = static_cast<double>(elements);
    state.counters["adamw_parameters_per_second"] = count / median(update_seconds);
    state.counters["stream_parameters_per_second"] = count / median(stream_seconds);
    state.counters["adamw_bytes_per_second"] =
        HostUpdate::kBytesPerParameter * count / median(update_seconds);
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
