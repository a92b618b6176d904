// Would ranks of one host exchange values faster through windows of shared memory than by copies that the
// kernel makes from one process's memory to the other's (CMA)? MPI uses such copies for long messages. Two
// processes do the same with each other's 32 MiB at once. Prints a table.
//   build/bench/bench_shared_memory [ROUNDS]
// A round makes each call once, one after the other. A call's time is that of the slower process.
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <functional>
#include <new>
#include <string>
#include <thread>
#include <vector>

#include "collectives/process_memory.h"
#include "collectives/reduce.h"

namespace strata {
namespace {

constexpr std::size_t kCount = std::size_t{8} << 20, kMostScratch = std::size_t{1} << 20;  // values

[[noreturn]] void fail(const std::string& what) {
  fmt::print(stderr, "bench_shared_memory: {}\n", what);
  std::_Exit(1);
}

float* map(int visibility, int advice) {
  constexpr std::size_t kBytes = (kCount + kMostScratch) * sizeof(float);
  void* memory = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, visibility | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) fail("no memory");
  madvise(memory, kBytes, advice);
  return static_cast<float*>(memory);
}

/// By process. It is mapped before there are two, so that both have it, or each its own, at one address.
struct Memory {
  Memory(int visibility, int advice)
      : values{map(visibility, advice), map(visibility, advice)},
        results{map(visibility, advice), map(visibility, advice)} {}
  std::array<float*, 2> values, results;  ///< a scratch lies behind the results
};

struct Pair {
  std::atomic<int>& arrivals;
  std::size_t self;
  pid_t peer;
  int meetings = 0;

  void meet() {
    const int all = 2 * ++meetings;
    for (++arrivals; arrivals < all;) std::this_thread::yield();
  }
  void copy_from_peer(const float* from, float* to, std::size_t bytes) const {
    read_memory(peer, reinterpret_cast<std::uintptr_t>(from), reinterpret_cast<std::byte*>(to), bytes);
  }
};

struct Way {
  std::string name;
  float expected;  ///< in the whole result
  std::function<void()> call;
  std::vector<double> milliseconds = {};

  double median() {
    std::sort(milliseconds.begin(), milliseconds.end());
    return milliseconds[milliseconds.size() / 2];
  }
};

void fold(std::vector<const void*> sources, float* result, std::size_t count) {
  reduce(sources, result, count, Element::fp32, ReduceOp::sum, Stores::past_caches);
}

/// All values of process p are p + 1.
std::vector<Way> ways_in(const Memory& memory, const float* window, const Pair& pair) {
  const float *own = memory.values[pair.self], *others = memory.values[1 - pair.self];
  float *result = memory.results[pair.self], *scratch = result + kCount;
  const float own_value = 1.0F + static_cast<float>(pair.self), other_value = 3 - own_value;
  std::vector<Way> ways = {
      {"copy of own values", own_value, [=] { fold({own}, result, kCount); }},
      {"copy from the peer's window", other_value, [=] { fold({window}, result, kCount); }},
  };
  ways.push_back({"sum with the peer's window", 3, [=] { fold({own, window}, result, kCount); }});
  for (const std::size_t kib : {64, 256, 512, 1024, 4096}) {
    const std::size_t bytes = kib << 10, count = bytes / sizeof(float);
    const auto copy = [=, &pair] {
      for (std::size_t at = 0; at < kCount; at += count) pair.copy_from_peer(others + at, result + at, bytes);
    };
    const auto sum = [=, &pair] {
      for (std::size_t at = 0; at < kCount; at += count) {
        pair.copy_from_peer(others + at, scratch, bytes);
        fold({own + at, scratch}, result + at, count);
      }
    };
    ways.push_back({fmt::format("copy by CMA, {} KiB at once", kib), other_value, copy});
    ways.push_back({fmt::format("sum by CMA to scratch, {} KiB at once", kib), 3, sum});
  }
  return ways;
}

void measure(int rounds) {
  const std::array memories = {Memory(MAP_PRIVATE, MADV_NOHUGEPAGE), Memory(MAP_PRIVATE, MADV_HUGEPAGE),
                               Memory(MAP_SHARED, MADV_NORMAL)};
  auto& arrivals = *new (map(MAP_SHARED, MADV_NORMAL)) std::atomic<int>(0);
  const pid_t parent = getpid(), child = fork();
  if (child < 0) fail("no second process");
  alarm(300);                                 // ends a process that waits for the other in vain
  prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY);  // lets the other read, if that has to be allowed
  Pair pair{arrivals, child == 0 ? 1U : 0U, child == 0 ? parent : child};
  std::vector<std::vector<Way>> ways;
  for (const Memory& memory : memories) {
    std::fill_n(memory.values[pair.self], kCount, 1.0F + static_cast<float>(pair.self));
    std::fill_n(memory.results[pair.self], kCount + kMostScratch, 0.0F);
    ways.push_back(ways_in(memory, memories.back().values[1 - pair.self], pair));
  }
  for (int i = 0; i < rounds * static_cast<int>(ways[0].size() * ways.size()); ++i) {
    const auto m = static_cast<std::size_t>(i) % ways.size();
    Way& way = ways[m][static_cast<std::size_t>(i) / ways.size() % ways[m].size()];
    pair.meet();
    const auto begin = std::chrono::steady_clock::now();
    way.call();
    pair.meet();
    const std::chrono::duration<double, std::milli> taken = std::chrono::steady_clock::now() - begin;
    way.milliseconds.push_back(taken.count());
    if (memories[m].results[pair.self][kCount - 1] != way.expected) fail("wrong result: " + way.name);
  }
  if (pair.self != 0) return;
  fmt::print("| ms | private, 4 KiB pages | private, huge pages | shared windows |\n|---|---|---|---|\n");
  for (std::size_t w = 0; w < ways[0].size(); ++w)
    fmt::print("| {} | {:.2f} | {:.2f} | {:.2f} |\n", ways[0][w].name, ways[0][w].median(),
               ways[1][w].median(), ways[2][w].median());
}

}  // namespace
}  // namespace strata

int main(int argc, char** argv) {
  strata::measure(argc > 1 ? std::max(1, std::atoi(argv[1])) : 15);
}
