// The collectives of MpiCommunicator beside those of MPI, and how much of one hides behind computing. Prints
// tables.
//   mpirun -n RANKS build/bench/bench_collectives [ROUNDS]
// A round makes each call once, one after the other; ratios are of neighbours in a round, since other work on
// the machine changes from round to round. A call's time is that of its slowest rank. MiB are those of the
// longer side: received by all_gather, sent to reduce_scatter.
#include <fmt/format.h>
#include <mpi.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "collectives/mpi_world.h"

namespace strata {
namespace {

using Clock = std::chrono::steady_clock;
using Values = std::vector<float>;

struct Way {
  std::string name;
  std::function<void()> call;
};

double seconds_of(const std::function<void()>& call) {
  MPI_Barrier(MPI_COMM_WORLD);
  const auto begin = Clock::now();
  call();
  double seconds = std::chrono::duration<double>(Clock::now() - begin).count();
  MPI_Allreduce(MPI_IN_PLACE, &seconds, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
  return seconds;
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

std::string summary(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return fmt::format("{:.2f} ({:.2f} to {:.2f})", values[values.size() / 2], values[values.size() / 10],
                     values[values.size() - 1 - values.size() / 10]);
}

/// The usual ring, for fp32: partial sums travel, and each hop adds a rank's values.
void ring_reduce_scatter(const Values& send, Values& receive, int rank, int size) {
  constexpr std::size_t kSegment = (std::size_t{512} << 10) / sizeof(float);
  static Values partial, incoming;
  const std::size_t count = receive.size();
  partial.resize(count);
  incoming.resize(count);
  const int next = (rank + 1) % size, before = (rank + size - 1) % size;
  const std::size_t segments = (count + kSegment - 1) / kSegment;
  const auto part = [&](int steps) {
    return send.data() + static_cast<std::size_t>((rank + 2 * size - steps) % size) * count;
  };
  const auto length = [&](std::size_t segment) {
    return static_cast<int>(std::min(kSegment, count - segment * kSegment));
  };
  std::vector<MPI_Request> sends(segments), receives(segments);
  for (int step = 1; step < size; ++step) {
    const float* from = step == 1 ? part(1) : partial.data();
    const float* own = part(step + 1);
    float* sum = step + 1 == size ? receive.data() : partial.data();
    for (std::size_t s = 0; s < segments; ++s) {
      MPI_Irecv(incoming.data() + s * kSegment, length(s), MPI_FLOAT, before, 1, MPI_COMM_WORLD,
                &receives[s]);
      MPI_Isend(from + s * kSegment, length(s), MPI_FLOAT, next, 1, MPI_COMM_WORLD, &sends[s]);
    }
    for (std::size_t s = 0; s < segments; ++s) {
      MPI_Wait(&receives[s], MPI_STATUS_IGNORE);
      MPI_Wait(&sends[s], MPI_STATUS_IGNORE);
      const std::size_t end = s * kSegment + static_cast<std::size_t>(length(s));
      for (std::size_t i = s * kSegment; i < end; ++i) sum[i] = incoming[i] + own[i];
    }
  }
}

/// A line of the table: the ways in turn; the first is ours.
void compare(int rank, int rounds, const std::string& operation, int mebibytes,
             const std::vector<Way>& ways) {
  std::vector<std::vector<double>> seconds(ways.size());
  for (const Way& way : ways) seconds_of(way.call);
  for (int round = 0; round < rounds; ++round)
    for (std::size_t w = 0; w < ways.size(); ++w) seconds[w].push_back(seconds_of(ways[w].call));
  if (rank > 0) return;
  fmt::print("| {} | {} | {:.2f} |", operation, mebibytes, 1e3 * median(seconds[0]));
  for (std::size_t w = 1; w < ways.size(); ++w) {
    std::vector<double> ratios;
    for (std::size_t i = 0; i < seconds[w].size(); ++i) ratios.push_back(seconds[w][i] / seconds[0][i]);
    fmt::print(" {}: {:.2f} ms, {} |", ways[w].name, 1e3 * median(seconds[w]), summary(ratios));
  }
  fmt::print("\n");
  std::fflush(stdout);
}

void compare_all(Communicator& group, int rounds) {
  const int rank = group.rank(), size = group.size();
  if (rank == 0)
    fmt::print("| | MiB | ours ms | other ms, other / ours: median (10 % to 90 %) |\n|---|---|---|---|\n");
  for (const int mebibytes : {1, 8, 64}) {
    const std::size_t part =
        (static_cast<std::size_t>(mebibytes) << 20) / sizeof(float) / static_cast<std::size_t>(size);
    const int count = static_cast<int>(part), all = count * size;
    Values whole(static_cast<std::size_t>(all), 1), other(whole), own(part, 1);
    compare(rank, rounds, "all_gather", mebibytes,
            {{"ours", [&] { group.all_gather(own.data(), whole.data(), part, Element::fp32); }},
             {"MPI_Allgather", [&] {
                MPI_Allgather(own.data(), count, MPI_FLOAT, whole.data(), count, MPI_FLOAT, MPI_COMM_WORLD);
              }}});
    compare(rank, rounds, "reduce_scatter", mebibytes,
            {{"ours", [&] { group.reduce_scatter(whole.data(), own.data(), part, Element::fp32); }},
             {"MPI_Reduce_scatter_block",
              [&] {
                MPI_Reduce_scatter_block(whole.data(), own.data(), count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
              }},
             {"ring", [&] { ring_reduce_scatter(whole, own, rank, size); }}});
    compare(rank, rounds, "all_reduce", mebibytes,
            {{"ours", [&] { group.all_reduce(whole.data(), other.data(), whole.size(), Element::fp32); }},
             {"MPI_Allreduce",
              [&] { MPI_Allreduce(whole.data(), other.data(), all, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD); }}});
  }
  float one = 1;
  compare(
      rank, 5 * rounds, "all_reduce of one fp32", 0,
      {{"ours", [&] { group.all_reduce(&one, &one, 1, Element::fp32); }},
       {"MPI_Allreduce", [&] { MPI_Allreduce(MPI_IN_PLACE, &one, 1, MPI_FLOAT, MPI_MAX, MPI_COMM_WORLD); }}});
}

/// Arithmetic in registers; the same instructions wherever it is called.
[[gnu::noinline]] double compute(std::int64_t iterations) {
  double values[8] = {1, 2, 3, 4, 5, 6, 7, 8};
  for (std::int64_t i = 0; i < iterations; ++i)
    for (double& value : values) value = value * 0.999999 + 1e-6;
  double sum = 0;
  for (const double value : values) sum += value;
  return sum;
}

void measure_overlap(Communicator& group, int rounds) {
  constexpr std::int64_t kTrial = 20'000'000;
  constexpr double kSeconds = 0.3;
  volatile double result = 0;
  const double trial = seconds_of([&] { result = compute(kTrial); });
  const auto iterations = static_cast<std::int64_t>(kSeconds / trial * kTrial);
  const std::size_t part = (std::size_t{64} << 20) / sizeof(float) / static_cast<std::size_t>(group.size());
  Values whole(part * static_cast<std::size_t>(group.size())), own(part, 1);
  const auto gather = [&] { group.all_gather(own.data(), whole.data(), part, Element::fp32); };
  const auto calculate = [&] { result = compute(iterations); };
  std::vector<double> computing, gathering, ratios;
  for (int round = 0; round < rounds; ++round) {
    const double compute_seconds = seconds_of(calculate), gather_seconds = seconds_of(gather);
    const double both = seconds_of([&] {
      std::thread thread(gather);
      calculate();
      thread.join();
    });
    computing.push_back(compute_seconds);
    gathering.push_back(gather_seconds);
    ratios.push_back(both / std::max(compute_seconds, gather_seconds));
  }
  if (group.rank() > 0) return;
  fmt::print(
      "\nOverlap: computing {:.0f} ms, all_gather of 64 MiB {:.1f} ms, both at once / the longer: {}\n",
      1e3 * median(computing), 1e3 * median(gathering), summary(ratios));
}

}  // namespace
}  // namespace strata

int main(int argc, char** argv) {
  const int rounds = argc > 1 ? std::atoi(argv[1]) : 15;
  int provided = 0;
  // MPI's own collectives are called from this thread, beside the communicator's.
  MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
  if (provided != MPI_THREAD_MULTIPLE) {
    fmt::print(stderr, "bench_collectives needs an MPI with MPI_THREAD_MULTIPLE\n");
    return 1;
  }
  {
    strata::MpiWorld world;
    const auto group = world.communicator();
    strata::compare_all(*group, rounds);
    strata::measure_overlap(*group, rounds);
  }
  MPI_Finalize();
}
