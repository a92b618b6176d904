// What measurements of a machine are made of: time on the host and on a device, and memory to work on.
// Waiting throws DeviceError if a device takes longer than two minutes.
#pragma once

#include <functional>

#include "base/arena.h"
#include "base/dtype.h"
#include "engine/device/device.h"
#include "optim/optimizer_state.h"
#include "optim/state_format.h"
#include "optim/update_rule.h"

namespace strata {

double seconds_on_host(const std::function<void()>& work);
/// Times what `issue` issues to `stream`, by the device's clock.
double seconds_on_device(Stream& stream, const std::function<void()>& issue);

void wait_for(Event& event);
/// Waits for all that the stream was given.
void wait_for_all(Stream& stream);

/// Random numbers of N(0, 1), over and over. Zeros would not do: a GPU draws less power on them, and runs
/// faster than it ever will.
void fill_with_numbers(Device& device, std::byte* memory, Bytes bytes, DType dtype);
void fill_with_zeros(Device& device, std::byte* memory, Bytes bytes);

/// An update of bf16 parameters as a host lane makes it. The memory is first touched by the threads of the
/// arena that the caller runs in.
class HostUpdate {
 public:
  /// What each array starts behind the end of the one before. Without it, arrays of 2^26 elements start at
  /// addresses that agree in all bits by which first-level caches look up lines, and drive out each other's.
  static constexpr Bytes kPhase = 4096 + 13 * kAlignment;

  /// Keeps the rule's moments, whatever format.kept says.
  explicit HostUpdate(std::int64_t parameters, UpdateRule rule = UpdateRule::adamw,
                      const StateFormat& format = {});

  void run() const;
  /// Bytes that run() reads and writes.
  double bytes() const;
  const OptimizerState& state() const { return state_; }
  /// The same memory with other phases: each array starts `phase` behind the end of the one before.
  /// REQUIRES: a multiple of kAlignment, 0 to 16 * kPhase. The values are not those of an update.
  OptimizerState with_phase(Bytes phase) const;

 private:
  Arena arena_;
  OptimizerState state_;
};

}  // namespace strata
