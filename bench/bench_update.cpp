// AdamW, or another update rule, against a bare stream of the same bytes per parameter. For AdamW they are 28
// with an fp32 master and fp32 moments, and 10.25 to 26 in the other formats. Master and moments are read and
// written, the bf16 gradient is read, and the bf16 parameter is written. If the parameter is half of the
// master it is read, too. Without a master there are gradient, parameter and moments.
//
// The bound is the fastest of several streams: without prefetches and with near and far ones, dealt in the
// update's chunks and as a half per thread. Where arrays start decides whether their lines collide in caches.
// So streams have several layouts, among them the update's and arrays without gaps. Update and stream
// alternate on the same memory, an arena as a run has it. The ratio is the median of the ratios of
// neighbours, so that another program on the machine disturbs both alike.
//   build/bench/bench_update [PARAMETERS [THREADS [wall|cpu [RULE]]]]
// With `cpu`, seconds are those of the process on its cores: on a machine that is busy with other things they
// say more than the wall's. RULE: adamw if left out, sgd_momentum, … (optim/update_rule.h).
#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <functional>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include "base/task_arena.h"
#include "engine/run/execute/measure.h"
#include "optim/moment_codes.h"
#include "optim/optimizer_state.h"
#include "optim/update_rule.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "bench/bench_update.cpp"
#include <hwy/foreach_target.h>  // IWYU pragma: keep

#include <hwy/cache_control.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace strata::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using Words = hn::ScalableTag<std::uint32_t>;

/// Elements between prefetches: a line of 16-bit elements, two lines of words.
constexpr std::int64_t kPrefetchStep = 32;

/// The lines that hold kPrefetchStep elements, `distance` elements ahead; none if it is 0.
template <class T>
HWY_INLINE void prefetch(const T* from, std::int64_t distance) {
  if (distance == 0) return;
  hwy::Prefetch(from + distance);
  if constexpr (sizeof(T) == 4) hwy::Prefetch(from + distance + kPrefetchStep / 2);
}

/// A vector of 4-byte or of 2-byte elements, widened.
template <class T>
HWY_INLINE hn::Vec<Words> load_words(const T* from) {
  if constexpr (sizeof(T) == 4) {
    return hn::Load(Words(), reinterpret_cast<const std::uint32_t*>(from));
  } else {
    const hn::Rebind<std::uint16_t, Words> halves;
    return hn::PromoteTo(Words(), hn::Load(halves, reinterpret_cast<const std::uint16_t*>(from)));
  }
}

/// `streamed`: past the caches, if the vector is large enough for that.
template <bool streamed, class T>
HWY_INLINE void store_words(hn::Vec<Words> words, T* to) {
  if constexpr (sizeof(T) == 4) {
    hn::Store(words, Words(), reinterpret_cast<std::uint32_t*>(to));
  } else {
    const hn::Rebind<std::uint16_t, Words> halves;
    const auto narrow = hn::DemoteTo(halves, hn::BitCast(hn::RebindToSigned<Words>(), words));
    auto* at = reinterpret_cast<std::uint16_t*>(to);
    if constexpr (streamed && hn::MaxLanes(halves) >= 8) {
      hn::Stream(narrow, halves, at);
    } else {
      hn::Store(narrow, halves, at);
    }
  }
}

/// Reads and writes a block's elements of a moment: `bytes`, which end with a word.
HWY_INLINE void stream_block(std::uint32_t zero, Bytes bytes, Bytes distance, std::uint8_t* block) {
  const hn::ScalableTag<std::uint8_t> d;
  const auto step = static_cast<Bytes>(hn::Lanes(d));
  const auto nothing = hn::BitCast(d, hn::Set(Words(), zero));
  if (distance > 0) hwy::Prefetch(block + distance);
  Bytes i = 0;
  for (; i + step <= bytes; i += step) hn::StoreU(hn::Add(hn::LoadU(d, block + i), nothing), d, block + i);
  for (std::uint32_t word = 0; i < bytes; i += Bytes{sizeof(word)}) {
    std::memcpy(&word, block + i, sizeof(word));
    word += zero;
    std::memcpy(block + i, &word, sizeof(word));
  }
}

/// Each array is read and written like an update does, with as little arithmetic as keeps the compiler
/// honest. Adding `zero` leaves the state as it is. REQUIRES: the stretch is a multiple of 64 elements,
/// pointers are aligned to 64 bytes.
template <int moment_count, class Master, class Stored>
void stream_typed(const OptimizerState& state, std::uint32_t zero, std::int64_t distance) {
  constexpr bool kSplit = std::is_same_v<Master, Remainder>, kOwn = std::is_same_v<Master, bfloat16>;
  auto* master = static_cast<Master*>(state.master);
  std::array<Stored*, moment_count> moments = {};
  for (int k = 0; k < moment_count; ++k)
    moments[k] = static_cast<Stored*>(state.of(moments_of(state.rule).at(k)));
  const auto* gradient = static_cast<const bfloat16*>(state.gradient);
  auto* parameter = static_cast<bfloat16*>(state.parameter);
  constexpr bool kCoded = std::is_same_v<Stored, std::uint8_t>;
  const auto nothing = hn::Set(Words(), zero);
  for (std::int64_t i = 0; i < state.elements; i += static_cast<std::int64_t>(hn::Lanes(Words()))) {
    if (kCoded && i % kCodedBlock == 0) {
      for (int k = 0; k < moment_count; ++k) {
        const auto bytes_of = [&](std::int64_t elements) HWY_ATTR {
          return state.format.moment_bytes(moments_of(state.rule).at(k), elements);
        };
        stream_block(zero, bytes_of(kCodedBlock), bytes_of(distance),
                     reinterpret_cast<std::uint8_t*>(moments[k]) + bytes_of(i));
      }
    }
    if (i % kPrefetchStep == 0) {
      prefetch(master + i, distance);
      for (const Stored* moment : moments)
        if constexpr (!kCoded) prefetch(moment + i, distance);
      prefetch(gradient + i, distance);
      if constexpr (kSplit) prefetch(parameter + i, distance);
    }
    const auto g = hn::And(load_words(gradient + i), nothing);
    std::array<hn::Vec<Words>, moment_count> kept;
    for (int k = 0; k < moment_count; ++k)
      if constexpr (!kCoded) kept[k] = hn::Add(load_words(moments[k] + i), nothing);
    const auto p = hn::Add(load_words(master + i), g);
    auto out = hn::ShiftRight<16>(p);
    if constexpr (kSplit) out = hn::Add(load_words(parameter + i), g);
    for (int k = 0; k < moment_count; ++k)
      if constexpr (!kCoded) store_words<false>(kept[k], moments[k] + i);
    store_words<false>(p, master + i);
    if constexpr (!kOwn) store_words<!kSplit>(out, parameter + i);
  }
  hwy::FlushStream();
}

template <class Master, class Stored>
void stream_moments(const OptimizerState& state, std::uint32_t zero, std::int64_t distance) {
  switch (moments_of(state.rule).count()) {
    case 0:
      return stream_typed<0, Master, Stored>(state, zero, distance);
    case 1:
      return stream_typed<1, Master, Stored>(state, zero, distance);
    case 3:
      return stream_typed<3, Master, Stored>(state, zero, distance);
    default:
      return stream_typed<2, Master, Stored>(state, zero, distance);
  }
}

void stream(const OptimizerState& state, std::uint32_t zero, std::int64_t distance) {
  with_state_types(state.precision, state.format,
                   [&]<class Master, class Stored>(auto, Master, Stored) HWY_ATTR {
                     if (state.format.moments == MomentFormat::coded)
                       return stream_moments<Master, std::uint8_t>(state, zero, distance);
                     stream_moments<Master, Stored>(state, zero, distance);
                   });
}

}  // namespace strata::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace strata {
namespace {

HWY_EXPORT(stream);

/// A way to go over the memory of an update.
struct Streaming {
  OptimizerState state;       ///< in some layout
  std::int64_t distance = 0;  ///< of prefetches, in elements; 0: none
  std::int64_t chunk = 0;     ///< elements of one task, a multiple of 64
};

/// Reads and writes what the update does.
void run_stream(const Streaming& way) {
  volatile std::uint32_t unknown_to_the_compiler = 0;
  const std::uint32_t zero = unknown_to_the_compiler;
  const std::int64_t elements = way.state.elements;
  for_ranges((elements + way.chunk - 1) / way.chunk, 1,
             [&](std::int64_t first_chunk, std::int64_t last_chunk, int) {
               const std::int64_t first = first_chunk * way.chunk;
               const std::int64_t last = std::min(last_chunk * way.chunk, elements);
               HWY_DYNAMIC_DISPATCH(stream)(way.state.part(first, last - first), zero, way.distance);
             });
}

double cpu_seconds(const std::function<void()>& work) {
  const auto now = [] {
    std::timespec time = {};
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
    return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
  };
  const double start = now();
  work();
  return now() - start;
}

using Seconds = double (*)(const std::function<void()>&);

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

/// The fastest of `ways` by the least of three tries.
Streaming fastest_of(const std::vector<Streaming>& ways, Seconds seconds_of) {
  Streaming fastest;
  double least = std::numeric_limits<double>::infinity();
  for (int round = 0; round < 3; ++round) {
    for (const Streaming& way : ways) {
      const double seconds = seconds_of([&] { run_stream(way); });
      if (seconds < least) {
        least = seconds;
        fastest = way;
      }
    }
  }
  return fastest;
}

/// The fastest stream: first the way of going over the memory in the update's layout, then the layout.
Streaming fastest_stream(const HostUpdate& memory, int threads, Seconds seconds_of) {
  constexpr Bytes kPhase = HostUpdate::kPhase;
  const std::int64_t share = (memory.state().elements + threads * 64 - 1) / (threads * 64) * 64;
  std::vector<Streaming> ways;
  for (const std::int64_t distance : {0, 256, 512, 1024}) {
    for (const std::int64_t chunk : {std::int64_t{64 * 1024}, share})
      ways.push_back({memory.state(), distance, chunk});
  }
  const Streaming best = fastest_of(ways, seconds_of);
  ways = {best};
  for (const Bytes phase : {Bytes{0}, kAlignment, 7 * kAlignment, Bytes{4096}, 5 * kPhase, 16 * kPhase})
    ways.push_back({memory.with_phase(phase), best.distance, best.chunk});
  return fastest_of(ways, seconds_of);
}

/// One iteration is an update and a stream, in alternating order; the reported time is the update's.
void update_against_stream(benchmark::State& state, std::int64_t elements, int threads, Seconds seconds_of,
                           UpdateRule rule, const StateFormat& format) {
  TaskArena(threads).execute([&] {
    const HostUpdate memory(elements, rule, format);
    memory.run();
    const Streaming streamed = fastest_stream(memory, threads, seconds_of);
    std::vector<double> update_seconds, stream_seconds, ratios;
    bool update_first = true;
    for (auto iteration : state) {
      (void)iteration;
      double update = 0, bare = 0;
      if (update_first) update = seconds_of([&] { memory.run(); });
      bare = seconds_of([&] { run_stream(streamed); });
      if (!update_first) update = seconds_of([&] { memory.run(); });
      update_first = !update_first;
      state.SetIterationTime(update);
      update_seconds.push_back(update);
      stream_seconds.push_back(bare);
      ratios.push_back(bare / update);
    }
    const auto count = static_cast<double>(elements);
    const std::string name(name_of(rule));
    state.counters[name + "_parameters_per_second"] = count / median(update_seconds);
    state.counters["stream_parameters_per_second"] = count / median(stream_seconds);
    state.counters[name + "_bytes_per_second"] = memory.bytes() / median(update_seconds);
    state.counters["rate_of_stream"] = median(ratios);
  });
}

}  // namespace
}  // namespace strata

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  const std::int64_t elements = (argc > 1 ? std::atoll(argv[1]) : 128LL * 1024 * 1024) / 64 * 64;
  const int threads = argc > 2 ? std::atoi(argv[2]) : 2;
  const bool cpu = argc > 3 && std::string_view(argv[3]) == "cpu";
  const strata::Seconds seconds_of = cpu ? strata::cpu_seconds : strata::seconds_on_host;
  const std::string_view word = argc > 4 ? argv[4] : "adamw";
  const auto rule = std::ranges::find(strata::kUpdateRules, word,
                                      [](strata::UpdateRule each) { return strata::name_of(each); });
  if (rule == strata::kUpdateRules.end()) {
    fmt::print(stderr, "there is no update rule '{}'\n", word);
    return 2;
  }
  for (const strata::MasterFormat master :
       {strata::MasterFormat::fp32, strata::MasterFormat::split, strata::MasterFormat::none}) {
    for (const strata::MomentFormat moments :
         {strata::MomentFormat::fp32, strata::MomentFormat::bf16, strata::MomentFormat::coded}) {
      const std::string name = fmt::format("{}_against_stream/master_{}/moments_{}", word,
                                           strata::name_of(master), strata::name_of(moments));
      benchmark::RegisterBenchmark(name.c_str(), strata::update_against_stream, elements, threads, seconds_of,
                                   *rule, strata::StateFormat{.master = master, .moments = moments})
          ->UseManualTime()
          ->Iterations(30)
          ->Unit(benchmark::kMillisecond);
    }
  }
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
#endif
