#include "tests/support/devices.h"

#include "tests/support/queued_device.h"

#ifdef STRATA_CUDA
#include "engine/device/cuda/cuda_device.h"
#endif

namespace strata::test {

#ifdef STRATA_CUDA

std::vector<std::string> device_names() {
  return {"cpu", "cuda"};
}

std::string why_no_device(const std::string& name) {
  return name == "cuda" ? why_no_cuda_device() : "";
}

std::unique_ptr<Device> make_device(const std::string& name, const CpuDeviceOptions& options) {
  if (name == "cuda") return std::make_unique<CudaDevice>();
  return make_cpu_device(options);
}

#else

std::vector<std::string> device_names() {
  return {"cpu"};
}

std::string why_no_device(const std::string& name) {
  return name == "cuda" ? "this program was built without CUDA" : "";
}

std::unique_ptr<Device> make_device(const std::string& /*name*/, const CpuDeviceOptions& options) {
  return make_cpu_device(options);
}

#endif

}  // namespace strata::test
