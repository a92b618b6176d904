// The devices that tests of whole runs go through: the CPU, and a GPU if the program is built with CUDA. A
// test of a GPU that is not there is skipped and says why.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "engine/device/cpu/cpu_device.h"

namespace strata::test {

/// "cpu", and "cuda" if it is built.
std::vector<std::string> device_names();

/// Empty if the machine has the device.
std::string why_no_device(const std::string& name);

/// `options` are the CPU's, which may be a QueuedDevice (make_cpu_device()).
std::unique_ptr<Device> make_device(const std::string& name, const CpuDeviceOptions& options);

}  // namespace strata::test
