#include "engine/run/execute/machine.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <limits>
#include <optional>
#include <thread>
#include <vector>

#include "base/arena.h"
#include "base/host_memory.h"
#include "base/nth.h"
#include "base/task_arena.h"
#include "engine/device/product_calls.h"
#include "engine/model/model.h"
#include "engine/run/execute/largest_products.h"
#include "engine/run/execute/measure.h"

namespace strata {
namespace {

/// Trials that all ranks begin together.
class Trials {
 public:
  /// Null: of one rank.
  explicit Trials(Communicator* ranks) : ranks_(ranks) {}

  /// Units of work per second of a rank: the best of a few trials behind one that warms up. What all ranks do
  /// in a trial takes as long as the slowest of them: one that has a shared core to itself is not the
  /// measure.
  double best_rate(double work, const std::function<double()>& seconds) const {
    seconds();
    double best = 0;
    for (int trial = 0; trial < kTrials; ++trial) best = std::max(best, rate_of_trial(work, seconds));
    return best;
  }

  /// Seconds of an exchange between ranks, which all of them make equally often: the best of a few trials of
  /// `times` exchanges, behind one that warms up.
  double best_exchange(int times, const std::function<void()>& exchange) const {
    exchange();
    double best = std::numeric_limits<double>::infinity();
    for (int trial = 0; trial < kTrials; ++trial) {
      of_all(0, ReduceOp::max);  // all begin
      const double seconds = seconds_on_host([&] {
        for (int time = 0; time < times; ++time) exchange();
      });
      best = std::min(best, of_all(seconds, ReduceOp::max) / times);
    }
    return best;
  }

 private:
  static constexpr int kTrials = 3;

  /// Short work is done again until the trial lasts, or often, if the device does not tell how long.
  double rate_of_trial(double work, const std::function<double()>& seconds) const {
    constexpr double kLeastSeconds = 0.008;
    constexpr int kMostOften = 256;
    of_all(0, ReduceOp::max);  // all begin
    double done = 0, taken = 0;
    for (int times = 0; times < kMostOften && taken < kLeastSeconds; ++times) {
      taken += seconds();
      done += work;
    }
    const double ranks = ranks_ == nullptr ? 1 : ranks_->size();
    return of_all(done, ReduceOp::sum) / ranks / of_all(taken, ReduceOp::max);
  }

  /// Returns when all ranks have come here.
  double of_all(double value, ReduceOp op) const {
    if (ranks_ != nullptr) ranks_->all_reduce(&value, &value, 1, Element::fp64, op);
    return value;
  }

  Communicator* ranks_;
};

/// At most `bytes`, and no more than a small container can spare.
Bytes spared(Bytes bytes) {
  return std::min(bytes, usable_memory() / 16);
}

/// As many as the models train, within limits: fewer tell little, and more take long. The most without
/// models.
std::int64_t updated_parameters(std::span<const ProductsOf> models) {
  constexpr std::int64_t kLeast = 64 * 1024, kMost = 16 * 1024 * 1024;
  if (models.empty()) return kMost;
  std::int64_t trained = 0;
  for (const ProductsOf& of : models) trained += of.model.trained_parameters();
  return std::clamp(align_up(trained), kLeast, kMost);
}

/// Bytes per second of AdamW on the host.
double host_memory_rate(const Trials& trials, int threads, std::int64_t most_parameters) {
  const std::int64_t parameters = spared(16 * most_parameters) / 16;
  TaskArena arena(threads);
  std::optional<HostUpdate> update;
  arena.execute([&] { update.emplace(parameters); });
  return trials.best_rate(update->bytes(), [&] {
    double seconds = 0;
    arena.execute([&] { seconds = seconds_on_host([&] { update->run(); }); });
    return seconds;
  });
}

double rate_of(Device& device, const Trials& trials, const ProductShape& shape) {
  const Bytes b = align_up(shape.a_bytes()), out = b + align_up(shape.b_bytes());
  const std::unique_ptr<DeviceMemory> memory = device.allocate(out + align_up(shape.out_bytes()));
  fill_with_numbers(device, memory->data(), out, shape.operands);
  const auto matrix = [&](Bytes at, DType dtype, std::int64_t rows, std::int64_t columns, bool transposed) {
    return Matrix(memory->data() + at, dtype, transposed ? columns : rows, transposed ? rows : columns);
  };
  const Product product{.a = matrix(0, shape.operands, shape.m, shape.k, shape.transpose_a),
                        .transpose_a = shape.transpose_a,
                        .b = matrix(b, shape.operands, shape.k, shape.n, shape.transpose_b),
                        .transpose_b = shape.transpose_b,
                        .out = matrix(out, shape.out, shape.m, shape.n, false),
                        .rounding = shape.rounding};
  const std::unique_ptr<Stream> stream = device.make_stream();
  return trials.best_rate(
      shape.flops(), [&] { return seconds_on_device(*stream, [&] { stream->kernels().run(product); }); });
}

ProductShape square_product(std::int64_t side, const Precision& precision) {
  return {.m = side,
          .n = side,
          .k = side,
          .transpose_b = true,
          .operands = precision.storage,
          .out = precision.storage,
          .rounding = precision.products};
}

/// The side of the largest square product that is tried.
std::int64_t largest_side(const Device& device) {
  return device.host_addressable() ? 2048 : 8192;
}

/// Large enough to fill the device, small enough to take some milliseconds.
std::int64_t filling_side(const Device& device) {
  constexpr unsigned kFewCores = 8;
  const bool has_few_cores = device.host_addressable() && std::thread::hardware_concurrency() <= kFewCores;
  return has_few_cores ? 1024 : largest_side(device);
}

double product_rate(Device& device, const Trials& trials, const Precision& precision,
                    std::span<const ProductsOf> models) {
  constexpr std::size_t kOfModels = 3;
  double best = rate_of(device, trials, square_product(filling_side(device), precision));
  const ProductShape largest = square_product(largest_side(device), precision);
  const Bytes most = largest.a_bytes() + largest.b_bytes() + largest.out_bytes();
  for (const ProductShape& shape : largest_products(models, kOfModels, most))
    best = std::max(best, rate_of(device, trials, shape));
  return best;
}

}  // namespace

double product_rate(Device& device, const Precision& precision) {
  return product_rate(device, Trials(nullptr), precision, {});
}

MachineRates measure_machine(Device& device, const Precision& precision, const LinkLimit& link, int threads,
                             std::span<const ProductsOf> models, Communicator* ranks) {
  const Trials trials(ranks);
  const std::unique_ptr<Stream> stream = device.make_stream();
  MachineRates rates;
  rates.cores_copy = device.host_addressable();
  rates.flops_per_second = product_rate(device, trials, precision, models);
  const std::int64_t parameters = updated_parameters(models);
  rates.memory_bytes_per_second = host_memory_rate(trials, threads, parameters);
  const Bytes copied = spared(4 * parameters);
  Arena host(copied);
  const std::unique_ptr<PinnedHostMemory> pinned = device.pin(host.memory());
  const std::unique_ptr<DeviceMemory> memory = device.allocate(copied);
  const auto rate = [&](std::optional<double> limit, const std::function<void()>& copy) {
    if (limit) return *limit;
    return trials.best_rate(static_cast<double>(copied), [&] { return seconds_on_device(*stream, copy); });
  };
  rates.h2d_bytes_per_second =
      rate(link.to_device, [&] { stream->copy_to_device(memory->data(), host.data(), copied); });
  rates.d2h_bytes_per_second =
      rate(link.to_host, [&] { stream->copy_to_host(host.data(), memory->data(), copied); });
  if (rates.cores_copy) {
    rates.cores = threads;
    rates.copy_bytes_per_second = trials.best_rate(static_cast<double>(copied), [&] {
      return seconds_on_host([&] { std::memcpy(memory->data(), host.data(), copied); });
    });
  }
  return rates;
}

namespace {

/// What an exchange of one group takes.
struct Ring {
  double latency_seconds = 0;  ///< of all its steps
  double bytes_per_second = 0;
};

Ring measure_ring(const Trials& trials, Communicator& ranks) {
  const auto size = static_cast<std::size_t>(ranks.size());
  const auto seconds_of = [&](std::size_t bytes, int times) {
    const std::vector<std::byte> sent(bytes);
    std::vector<std::byte> received(bytes * size);
    return trials.best_exchange(
        times, [&] { ranks.all_gather(sent.data(), received.data(), bytes, Element::byte); });
  };
  const std::size_t large = static_cast<std::size_t>(spared(64 * MiB)) / size;
  const double latency = seconds_of(sizeof(double), 64), seconds = seconds_of(large, 2);
  const double sent = static_cast<double>(large * (size - 1));
  return {.latency_seconds = latency, .bytes_per_second = sent / std::max(seconds - latency, seconds / 2)};
}

}  // namespace

RankLinks measure_links(Communicator& world, Communicator& node) {
  const Trials trials(&world);
  const double on_node = node.size(), nodes = world.size() / on_node;
  RankLinks links;
  double inside_seconds = 0;
  if (node.size() > 1) {
    const Ring inside = measure_ring(trials, node);
    inside_seconds = inside.latency_seconds;
    links.inside_latency = inside_seconds / (on_node - 1);
    links.inside_bytes_per_second = inside.bytes_per_second;
  }
  if (world.size() == node.size()) return links;
  const Ring all = measure_ring(trials, world);
  links.node_ranks = node.size();
  links.across_latency = std::max(0.0, all.latency_seconds - inside_seconds) / (nodes - 1);
  links.across_bytes_per_second = all.bytes_per_second / on_node;  // as exchange_rate() reads it
  return links;
}

}  // namespace strata
