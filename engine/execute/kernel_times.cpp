#include "engine/execute/kernel_times.h"

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
#include "engine/execute/measure.h"

namespace strata {
namespace {

constexpr int kRounds = 5;  // at most, behind one that warms up
constexpr double kEnoughSeconds = 5;

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
      Contents& contents = regions[static_cast<std::size_t>(operand.region)];
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

bool has_all(const KernelTimes& times, const UnitPass& pass) {
  return std::ranges::all_of(pass.segments(), [&](const Segment& segment) {
    return std::ranges::all_of(*segment.work(),
                               [&](const RepeatedCall& call) { return times.has(call.call); });
  });
}

void measure(Device& device, const UnitPass& pass, Bytes room, KernelTimes& times) {
  if (pass.is_empty() || has_all(times, pass)) return;
  const PassMemory memory(device, pass, room);
  const std::unique_ptr<Stream> stream = device.make_stream();
  std::map<std::string, std::pair<KernelWork, std::vector<double>>> seconds;
  double all_seconds = 0;
  for (int round = 0; round < 2 || (round <= kRounds && all_seconds < kEnoughSeconds); ++round) {
    for (const Segment& segment : pass.segments()) {
      for (const Segment::Step& step : segment.steps()) {
        const double taken = seconds_on_device(
            *stream, [&] { segment.run_step(step, stream->kernels(), memory.memory(), 1); });
        const KernelWork call = segment.work_of(step);
        all_seconds += taken;
        if (round > 0)
          seconds.try_emplace(call.name, call, std::vector<double>()).first->second.second.push_back(taken);
      }
    }
  }
  for (auto& [name, measured] : seconds) {
    auto& [call, all] = measured;
    const auto middle = all.begin() + std::ssize(all) / 2;
    std::ranges::nth_element(all, middle);
    if (!times.has(call)) times.add(call, *middle);
  }
}

}  // namespace

void measure_kernels(Device& device, const Model& model, DType precision, const MicrobatchShape& shape,
                     Bytes room, KernelTimes& times) {
  const std::shared_ptr<const UnitCompute> compute = unit_compute(model, precision, shape);
  std::set<std::size_t> kinds;
  for (const Unit& unit : model.units) kinds.insert(static_cast<std::size_t>(unit.kind));
  for (const std::size_t kind : kinds) {
    for (const UnitPasses::Level& level : compute->passes(kind).levels) {
      for (const UnitPass* pass :
           {&level.forward, &level.backward, &level.input_gradient, &level.weight_gradient})
        measure(device, *pass, room, times);
    }
  }
}

}  // namespace strata
