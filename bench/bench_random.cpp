// Random initial weights: one at a time by scalar code, in vectors on one thread, and in vectors on all. The
// three alternate, so that another program on the machine disturbs all alike; the ratios are medians of those
// of neighbours, of CPU seconds, and of wall time when all threads work.
//   build/bench/bench_random [NUMBERS [THREADS [ROUNDS]]]
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <ctime>
#include <functional>
#include <vector>

#include "base/normals.h"
#include "base/random.h"
#include "base/task_arena.h"
#include "base/topology.h"
#include "base/vector_target.h"

namespace strata {
namespace {

struct Seconds {
  double wall = 0, cpu = 0;
};

Seconds seconds_of(const std::function<void()>& work) {
  const auto now = [] {
    timespec time{};
    ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
    return Seconds{std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(),
                   static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec)};
  };
  const Seconds before = now();
  work();
  const Seconds after = now();
  return {after.wall - before.wall, after.cpu - before.cpu};
}

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

void measure(std::int64_t numbers, int threads, int rounds) {
  constexpr float kScale = 0.02F;
  constexpr std::int64_t kPiece = 256 * 1024;
  const CounterRandom random(1, 2);
  std::vector<float> out(static_cast<std::size_t>(numbers));
  TaskArena arena(threads);
  const auto fill = [&](std::int64_t first, std::int64_t last) {
    scaled_normals(1, 2, static_cast<std::uint64_t>(first), kScale,
                   {out.data() + first, static_cast<std::size_t>(last - first)});
  };
  std::vector<double> scalar_ns, vector_ns, cpu_ratio, wall_ratio;
  const double each = 1e9 / static_cast<double>(numbers);
  for (int round = 0; round < rounds; ++round) {
    const Seconds scalar = seconds_of([&] {
      for (std::size_t i = 0; i < out.size(); ++i) out[i] = kScale * random.normal(i);
    });
    const Seconds alone = seconds_of([&] { fill(0, numbers); });
    const Seconds all = seconds_of([&] {
      arena.for_ranges(numbers, kPiece,
                       [&](std::int64_t first, std::int64_t last, int) { fill(first, last); });
    });
    scalar_ns.push_back(scalar.cpu * each);
    vector_ns.push_back(alone.cpu * each);
    cpu_ratio.push_back(scalar.cpu / alone.cpu);
    wall_ratio.push_back(alone.wall / all.wall);
  }
  fmt::print("{}: scalar {:.1f} ns of CPU each, vectors {:.1f} ns, {:.2f} x as fast ({:.2f} to {:.2f})\n",
             name_of(vector_target()), median(scalar_ns), median(vector_ns), median(cpu_ratio),
             *std::ranges::min_element(cpu_ratio), *std::ranges::max_element(cpu_ratio));
  fmt::print("{} threads: {:.2f} x as fast as one by wall time ({:.2f} to {:.2f})\n", threads,
             median(wall_ratio), *std::ranges::min_element(wall_ratio),
             *std::ranges::max_element(wall_ratio));
}

}  // namespace
}  // namespace strata

int main(int argc, char** argv) {
  const auto argument = [&](int index, std::int64_t otherwise) {
    return argc > index ? std::atoll(argv[index]) : otherwise;
  };
  strata::measure(argument(1, 1 << 24), static_cast<int>(argument(2, strata::usable_cores())),
                  static_cast<int>(argument(3, 7)));
}
