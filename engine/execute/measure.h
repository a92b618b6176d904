// What measurements of a machine are made of: time on the host and on a device, and memory to work on.
// Waiting throws DeviceError where a device takes longer than two minutes.
#pragma once

#include <functional>

#include "engine/base/dtype.h"
#include "engine/device/device.h"
#include "offload/arena.h"

namespace strata {

double seconds_on_host(const std::function<void()>& work);
/// Of what `issue` issues to `stream`, by the device's clock.
double seconds_on_device(Stream& stream, const std::function<void()>& issue);

void wait_for(Event& event);
/// For all that the stream was given.
void wait_for_all(Stream& stream);

/// Random numbers of N(0, 1), over and over. Zeros would not do: a GPU draws less power on them, and runs
/// faster than it ever will.
void fill_with_numbers(Device& device, std::byte* memory, Bytes bytes, DType dtype);

/// An AdamW update as a host lane makes it: fp32 master and moments, bf16 gradient and parameter. The memory
/// is first touched by the threads of the arena that the caller runs in.
class HostUpdate {
 public:
  /// The fp32 state read and written, the gradient read, the parameter written.
  static constexpr double kBytesPerParameter = 28;

  struct Arrays {
    float *master, *exp_avg, *exp_avg_sq;
    bfloat16 *gradient, *parameter;
  };

  explicit HostUpdate(std::int64_t parameters);

  void run() const;
  const Arrays& arrays() const { return arrays_; }

 private:
  std::int64_t parameters_;
  Arena arena_;
  Arrays arrays_;
};

}  // namespace strata
