#include "engine/run/execute/kernel_times.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/nth.h"
#include "engine/model/model.h"
#include "engine/run/execute/measure.h"

namespace strata {
namespace {

/// The most calls of a pass in a row that are measured, after one that warms up. All passes are measured
/// again and again until calls have taken kEnoughSeconds, since a machine's speed varies from second to
/// second.
constexpr int kRounds = 5;
constexpr double kEnoughSeconds = 5;
constexpr int kMostSweeps = 50;

/// Memory for all regions of a pass, with numbers; tokens and other indices are 0.
class PassMemory {
 public:
  /// Throws DeviceError if that is more than `room`.
  PassMemory(Device& device, const UnitPass& pass, Bytes room) {
    struct Contents {
      Bytes bytes = 0;
      DType dtype = DType::fp32;  ///< two numbers of 16 bits are one of 32, too
    };
    std::array<Contents, kRegions> regions = {};
    for_each_operand(pass, [&](const Segment::PlacedOperand& operand) {
      Contents& contents = nth(regions, operand.region);
      contents.bytes = std::max(contents.bytes, operand.offset + bytes_of(operand.size));
      if (size_of(operand.size.dtype) < size_of(contents.dtype)) contents.dtype = operand.size.dtype;
    });
    Bytes all = 0;
    for (const Contents& contents : regions) all += align_up(contents.bytes);
    if (all > room)
      throw DeviceError(fmt::format("a pass of the model needs {}, and {} are free", format_bytes(all),
                                    format_bytes(room)));
    for (std::size_t region = 0; region < kRegions; ++region) {
      const auto& [bytes, dtype] = regions[region];
      if (bytes == 0) continue;
      pieces_.push_back(device.allocate(align_up(bytes)));
      memory_[static_cast<Region>(region)] = pieces_.back()->data();
      fill_with_numbers(device, pieces_.back()->data(), bytes, dtype);
    }
    for_each_operand(pass, [&](const Segment::PlacedOperand& operand) {
      if (operand.has_indices)
        fill_with_zeros(device, memory_[operand.region] + operand.offset, bytes_of(operand.size));
    });
  }

  const UnitMemory& memory() const { return memory_; }

 private:
  static Bytes bytes_of(const Matrix& size) { return size.rows * size.stride * size_of(size.dtype); }

  template <typename Visit>
  static void for_each_operand(const UnitPass& pass, const Visit& visit) {
    for (const Segment& segment : pass.segments()) {
      for (const Segment::Step& step : segment.steps()) {
        for (const Segment::PlacedOperand& operand : step.operands)
          if (operand.size.columns > 0) visit(operand);
      }
    }
  }

  std::vector<std::unique_ptr<DeviceMemory>> pieces_;
  UnitMemory memory_;
};

/// What calls took, sweep after sweep.
class Sweeps {
 public:
  /// Calls that are known are not measured. REQUIRES: `known` outlives it.
  Sweeps(Device& device, const KernelTimes& known) : device_(device), known_(known) {}

  /// Measures a pass, if it has calls that no other pass of the sweep had.
  void measure(const UnitPass& pass, Bytes room) {
    if (pass.is_empty() || was_measured(pass)) return;
    const PassMemory memory(device_, pass, room);
    const std::unique_ptr<Stream> stream = device_.make_stream();
    double in_pass = 0;
    for (int round = 0; round < 2 || (round <= kRounds && in_pass < kEnoughSeconds); ++round) {
      for (const Segment& segment : pass.segments()) {
        for (const Segment::Step& step : segment.steps()) {
          const double taken = seconds_on_device(
              *stream, [&] { segment.run_step(step, stream->kernels(), memory.memory(), 1); });
          in_pass += taken;
          if (round == 0) continue;
          const KernelWork call = segment.work_of(step);
          Samples& samples = samples_.try_emplace(call.name, call).first->second;
          samples.seconds.push_back(taken);
          samples.sweep = sweep_;
        }
      }
    }
    all_seconds_ += in_pass;
  }

  /// Ends a sweep; whether another one is to follow.
  bool go_on() { return ++sweep_ < kMostSweeps && all_seconds_ < kEnoughSeconds; }

  /// Adds the median of each call that was not known.
  void add_to(KernelTimes& times) {
    for (auto& [name, samples] : samples_) {
      const auto middle = samples.seconds.begin() + std::ssize(samples.seconds) / 2;
      std::ranges::nth_element(samples.seconds, middle);
      if (!times.has(samples.call)) times.add(samples.call, *middle);
    }
  }

 private:
  struct Samples {
    explicit Samples(KernelWork work) : call(std::move(work)) {}

    KernelWork call;
    std::vector<double> seconds = {};
    int sweep = -1;  ///< the last in which it was measured
  };

  bool was_measured(const UnitPass& pass) const {
    return std::ranges::all_of(pass.segments(), [&](const Segment& segment) {
      return std::ranges::all_of(*segment.work(), [&](const RepeatedCall& call) {
        const auto found = samples_.find(call.call.name);
        return known_.has(call.call) || (found != samples_.end() && found->second.sweep == sweep_);
      });
    });
  }

  Device& device_;
  const KernelTimes& known_;
  std::map<std::string, Samples> samples_;
  int sweep_ = 0;
  double all_seconds_ = 0;
};

}  // namespace

void measure_kernels(Device& device, const Model& model, DType precision, const MicrobatchShape& shape,
                     Bytes room, KernelTimes& times) {
  const std::shared_ptr<const UnitCompute> compute = unit_compute(model, precision, shape);
  std::set<std::size_t> kinds;
  for (const Unit& unit : model.units) kinds.insert(unit.kind);
  Sweeps sweeps(device, times);
  do {
    for (const std::size_t kind : kinds) {
      for (const UnitPasses::Level& level : compute->passes(kind).levels) {
        for (const UnitPass* pass :
             {&level.forward, &level.backward, &level.input_gradient, &level.weight_gradient})
          sweeps.measure(*pass, room);
      }
    }
  } while (sweeps.go_on());
  sweeps.add_to(times);
}

}  // namespace strata
