// What a step asks of a GPU, counted on the emulated one (tests/gpu_emulation), which performs nothing. For
// each part of the model it counts kernels launched, bytes that they read and write, and FLOPs. It shows the
// least bytes beside them, and an estimate of the time. Prints a Markdown table for each run file:
//
//     build/bench/bench_launches [RUN.yaml...]
//
// Every activation that a backward pass needs is saved, as in a GPU's memory that has room. A call of
// attention counts as one launch, for it goes to cuDNN. Bytes are operands', once for each read and write;
// what kernels read again from caches and partial sums in scratch do not count.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <exception>
#include <iostream>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "engine/config/load.h"
#include "engine/config/run_config.h"
#include "engine/device/attention_calls.h"
#include "engine/device/cuda/cuda_device.h"
#include "engine/device/elementwise_calls.h"
#include "engine/device/state_calls.h"
#include "engine/model/compute.h"
#include "engine/model/model.h"
#include "engine/model/run_model.h"
#include "engine/run/execute/unit_share.h"
#include "tests/cuda_emulation/emulation.h"
#include "tests/gpu_emulation/emulated_gpu.h"

namespace strata {
namespace {

/// One H200 SXM. Published: 989 TFLOP/s in bf16 without sparsity and 4.8 TB/s (NVIDIA's data sheet of the
/// H200). The shares that kernels reach of these rates are assumptions until they are measured. Products have
/// the share that is reported of cuBLAS on an H100. Attention has FlashAttention-3's figures for causal heads
/// of 64 and 128 at 2k tokens (Shah et al. 2024).
constexpr double kProductFlops = 0.7 * 989e12;
constexpr double kAttentionFlops = 400e12, kAttentionBackwardFlops = 300e12;
constexpr double kBytesPerSecond = 0.85 * 4.8e12;
constexpr double kLaunchSeconds = 2.5e-6;  ///< assumed: a kernel takes no less when others follow it

struct Count {
  std::int64_t launches = 0;
  double bytes = 0, seconds = 0;

  Count& operator+=(const Count& other) {
    launches += other.launches;
    bytes += other.bytes;
    seconds += other.seconds;
    return *this;
  }
};

/// Operators of a part of a step, in the order of their first calls.
struct Part {
  std::string name;
  std::int64_t times;  ///< in a step
  std::vector<std::pair<std::string, Count>> counts = {};
  Count all = {};
  /// Products and attention alone, or updates: what is left if all else were done within them.
  Count least = {};

  void add(const std::string& operation, const Count& count, bool is_least) {
    const auto found = std::ranges::find(counts, operation, &std::pair<std::string, Count>::first);
    (found == counts.end() ? counts.emplace_back(operation, Count{}) : *found).second += count;
    all += count;
    if (is_least) least += count;
  }
};

/// A stream's kernels, but for attention, which the emulation has no cuDNN for.
class WithoutAttention final : public Kernels {
 public:
  explicit WithoutAttention(Kernels& kernels) : kernels_(kernels) {}

  void run(const KernelCall& call) override {
    if (call.as<AttentionForward>() != nullptr) {
      ++forward;
    } else if (call.as<AttentionBackward>() != nullptr) {
      ++backward;
    } else {
      if (const auto* zero = call.as<Zero>()) cleared += zero->x.elements() * size_of(zero->x.dtype);
      kernels_.run(call);
    }
  }

  std::int64_t forward = 0, backward = 0;  ///< calls of attention
  Bytes cleared = 0;

 private:
  Kernels& kernels_;
};

/// Memory for all regions that a pass touches, which nobody looks into.
class PassMemory {
 public:
  PassMemory(Device& device, const UnitPass& pass, const BegunGradients& begun) {
    std::array<Bytes, kRegions> bytes = {};
    for (const Region region : {Region::gradient, Region::shared_gradient})
      bytes[static_cast<std::size_t>(region)] = begun.of(region) * size_of(DType::fp32);
    for (const Segment& segment : pass.segments()) {
      for (const Segment::Step& step : segment.steps()) {
        for (const Segment::PlacedOperand& operand : step.operands) {
          Bytes& end = bytes[static_cast<std::size_t>(operand.region)];
          const Matrix& size = operand.size;
          end = std::max(end, operand.offset + size.rows * size.stride * size_of(size.dtype));
        }
      }
    }
    for (std::size_t region = 0; region < kRegions; ++region) {
      if (bytes[region] == 0) continue;
      pieces_.push_back(device.allocate(align_up(bytes[region])));
      memory_[static_cast<Region>(region)] = pieces_.back()->data();
    }
  }

  const UnitMemory& memory() const { return memory_; }

 private:
  std::vector<std::unique_ptr<DeviceMemory>> pieces_;
  UnitMemory memory_;
};

class Counter {
 public:
  explicit Counter(Device& device)
      : device_(device), stream_(device.make_stream()), kernels_(stream_->kernels()) {}

  /// A pass that finds the gradients of `begun` empty.
  Part count(const std::string& name, std::int64_t times, const UnitPass& pass,
             const BegunGradients& begun = {}) {
    Part part{name, times};
    const PassMemory memory(device_, pass, begun);
    // Without exchanges a pass is one segment.
    const Segment& segment = pass.segments().front();
    const Bytes cleared = kernels_.cleared;
    Count clearing = count(0, 0, [&] { segment.clear(kernels_, memory.memory(), begun); });
    clearing.bytes = static_cast<double>(kernels_.cleared - cleared);
    clearing.seconds = std::max(clearing.seconds, clearing.bytes / kBytesPerSecond);
    if (clearing.launches > 0) part.add("clear", clearing, false);
    for (const Segment::Step& step : segment.steps()) {
      const KernelWork work = segment.work_of(step);
      const auto issue = [&] { segment.run_step(step, kernels_, memory.memory(), 1, begun); };
      part.add(std::string(step.rule->name()), count(traffic_of(step, begun), work.flops, issue),
               work.flops > 0);
    }
    return part;
  }

  /// What a unit's step needs beside its passes, if all of it is on the GPU.
  Part count_update(const std::string& name, std::int64_t times, const Unit& unit, const UnitShare& share,
                    DType precision) {
    Part part{name, times};
    const std::int64_t elements = unit.elements;
    const std::unique_ptr<DeviceMemory> memory = device_.allocate(align_up(elements * 4));
    std::byte* at = memory->data();
    const Matrix sums(at, DType::fp32, 1, elements), rounded(at, precision, 1, elements);
    const auto bytes_of_all = [&](std::int64_t each) { return static_cast<double>(elements * each); };
    const Bytes element = size_of(precision);
    part.add("cast_gradient",
             count(bytes_of_all(4 + element), 0,
                   [&] {
                     kernels_.run(Cast{sums, rounded});
                   }),
             false);
    part.add("sum_of_squares",
             count(bytes_of_all(element), 0,
                   [&] {
                     kernels_.run(SumOfSquares{rounded, reinterpret_cast<double*>(at), false});
                   }),
             false);
    for (const UpdatedPart& updated : share.parts) {
      const OptimizerState state{.precision = precision,
                                 .elements = updated.count,
                                 .master = at,
                                 .moments = {at, at},
                                 .gradient = at,
                                 .parameter = at};
      // Read: gradient, master, two moments. Written: parameter, master, moments.
      const auto bytes = static_cast<double>(updated.count * (2 * element + 6 * 4));
      part.add("adamw",
               count(bytes, 0,
                     [&] {
                       kernels_.run(ParameterUpdate{.skip = reinterpret_cast<std::uint32_t*>(at),
                                                    .step = reinterpret_cast<UpdateCoefficients*>(at),
                                                    .state = state});
                     }),
               true);
    }
    return part;
  }

 private:
  static double traffic_of(const Segment::Step& step, const BegunGradients& begun) {
    const Touches touches = step.rule->touches();
    double bytes = 0;
    for (std::size_t i = 0; i < step.operands.size(); ++i) {
      const Matrix& size = step.operands[i].size;
      const auto once = static_cast<double>(size.elements() * size_of(size.dtype));
      const bool is_first = begun.of(step.operands[i].region) > 0 && (step.first_gradients >> i & 1U) != 0;
      bytes += touches[i] == Touch::updates && !is_first ? 2 * once : once;
    }
    return bytes;
  }

  /// What `issue` issues.
  template <typename Issue>
  Count count(double bytes, double flops, const Issue& issue) {
    const auto issued = [&] {
      return cuda_emulation::launches() + gpu_emulation::counts().products + kernels_.forward +
             kernels_.backward;
    };
    const std::int64_t before = issued(), forward = kernels_.forward, backward = kernels_.backward;
    issue();
    const double rate = kernels_.backward > backward ? kAttentionBackwardFlops
                        : kernels_.forward > forward ? kAttentionFlops
                                                     : kProductFlops;
    const std::int64_t launches = issued() - before;
    return {
        launches, bytes,
        std::max({flops / rate, bytes / kBytesPerSecond, static_cast<double>(launches) * kLaunchSeconds})};
  }

  Device& device_;
  std::unique_ptr<Stream> stream_;
  WithoutAttention kernels_;
};

std::string row(const std::string& name, std::int64_t times, const Count& all, const Count& least) {
  constexpr double kGiB = 1024.0 * 1024 * 1024;
  return fmt::format("| {} | {} | {} | {} | {:.3f} | {:.3f} | {:.2f} |\n", name, times, all.launches,
                     least.launches, all.bytes / kGiB, least.bytes / kGiB, all.seconds * 1e3);
}

/// Those that the unit's first backward pass of a step finds empty. A tied head comes before the embedding.
BegunGradients gradients_begun_by(const Model& model, std::size_t number) {
  const Unit& unit = model.units[number];
  const bool is_shared = std::ranges::any_of(
      model.units, [&](const Unit& other) { return other.shares == static_cast<std::int32_t>(number); });
  return {
      .gradient = is_shared ? 0 : unit.elements,
      .shared_gradient = unit.shares < 0 ? 0 : model.units[static_cast<std::size_t>(unit.shares)].elements};
}

void print(const std::string& run_file, Counter& counter) {
  RunConfig config = load_run_config(run_file);
  config.device.kind = DeviceKind::cuda;
  const Model model = model_of_run(architecture_of_run(model_config_of_run_file(config), config), config);
  const MicrobatchShape shape{config.train.microbatch, config.data.sequence_length};
  const std::int64_t microbatches = config.train.batch / config.train.microbatch;
  const auto compute = unit_compute(model, config.precision(), shape);
  const std::vector<UnitShare> shares = shares_of(model, Strategy(), 0);
  const auto blocks = static_cast<std::int64_t>(model.units.size()) - 2;

  std::vector<Part> parts;
  const auto count_unit = [&](const std::string& name, std::size_t number, std::int64_t times) {
    const Unit& unit = model.units[number];
    const UnitPasses::Level& level = compute->passes(unit).saving_all();
    if (!level.forward.is_empty() && number + 1 < model.units.size())
      parts.push_back(counter.count(name + ", forward", times * microbatches, level.forward));
    if (!level.backward.is_empty()) {
      const BegunGradients begun = gradients_begun_by(model, number);
      parts.push_back(counter.count(name + ", first backward", times, level.backward, begun));
      if (microbatches > 1)
        parts.push_back(counter.count(name + ", backward", times * (microbatches - 1), level.backward));
    }
    if (unit.elements > 0)
      parts.push_back(
          counter.count_update(name + ", update", times, unit, shares[number], config.precision()));
  };
  count_unit("embedding", 0, 1);
  count_unit("block", 1, blocks);
  count_unit("head", model.units.size() - 1, 1);

  std::cout << fmt::format(
      "\n## {}\n{} blocks, {} microbatches of {} x {} tokens, {}.\n\n"
      "| part | in a step | launches | least | GiB | least | ms, estimated "
      "|\n|---|---|---|---|---|---|---|\n",
      run_file, blocks, microbatches, shape.batch, shape.sequence, name_of(config.precision()));
  Count step, least;
  for (const Part& part : parts) {
    std::cout << row(part.name, part.times, part.all, part.least);
    for (std::int64_t i = 0; i < part.times; ++i) {
      step += part.all;
      least += part.least;
    }
  }
  std::cout << row("step", 1, step, least);
  const auto tokens = static_cast<double>(microbatches * shape.tokens());
  std::cout << fmt::format(
      "\nEstimated: {:.1f} ms, {:.0f} tokens/s; in the least {:.1f} ms; FLOPs alone, at 989 TFLOP/s, {:.1f} "
      "ms.\n",
      step.seconds * 1e3, tokens / step.seconds, least.seconds * 1e3,
      training_flops(model, shape, microbatches) / 989e12 * 1e3);
  std::cout << "\n| part | operator | launches | GiB | ms, estimated |\n|---|---|---|---|---|\n";
  for (const Part& part : parts) {
    for (const auto& [operation, count] : part.counts)
      std::cout << fmt::format("| {} | {} | {} | {:.3f} | {:.3f} |\n", part.name, operation, count.launches,
                               count.bytes / (1024.0 * 1024 * 1024), count.seconds * 1e3);
  }
}

}  // namespace
}  // namespace strata

int main(int arguments, char** argument) {
  using namespace strata;
  try {
    gpu_emulation::machine().computes = false;
    gpu_emulation::machine().device_bytes = std::size_t{1} << 40;
    CudaDevice device;
    Counter counter(device);
    for (int i = 1; i < arguments; ++i) print(argument[i], counter);
    if (const std::string failure = gpu_emulation::take_failure(); !failure.empty())
      throw DeviceError("a GPU would not take it: " + failure);
  } catch (const std::exception& error) {
    std::cerr << error.what() << '\n';
    return 2;
  }
}
