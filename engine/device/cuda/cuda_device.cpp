#include "engine/device/cuda/cuda_device.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "base/error.h"
#include "engine/device/cuda/cuda_error.h"
#include "engine/device/cuda/cuda_stream.h"
#include "engine/device/cuda/numa.h"
#include "engine/device/cuda/product_chooser.h"
#include "engine/device/cuda/versions.h"

namespace strata {
namespace {

/// The build has code for this compute capability and later ones.
constexpr int kOldestMajor = 8;

int attribute(cudaDeviceAttr which, int device) {
  int value = 0;
  check_cuda(cudaDeviceGetAttribute(&value, which, device), "the GPU's properties cannot be read");
  return value;
}

std::string describe(int device) {
  cudaDeviceProp properties{};
  check_cuda(cudaGetDeviceProperties(&properties, device), "the GPU's properties cannot be read");
  const double gibibytes = static_cast<double>(properties.totalGlobalMem) / static_cast<double>(GiB);
  return fmt::format("{}, {:.0f} GiB", static_cast<const char*>(properties.name), std::round(gibibytes));
}

std::string pci_bus_id(int device) {
  std::array<char, 32> text{};
  check_cuda(cudaDeviceGetPCIBusId(text.data(), static_cast<int>(text.size()), device),
             "the GPU's place on the PCI bus cannot be read");
  return text.data();
}

}  // namespace

std::string why_no_cuda_device(int index) {
  int driver = 0;
  int runtime = 0;
  if (cudaDriverGetVersion(&driver) != cudaSuccess || driver == 0) {
    return "this machine has no NVIDIA driver: install one, or set device.kind to cpu";
  }
  cudaRuntimeGetVersion(&runtime);
  int count = 0;
  const cudaError_t status = cudaGetDeviceCount(&count);
  cudaGetLastError();
  if (status == cudaErrorInsufficientDriver) {
    return fmt::format(
        "the NVIDIA driver is for CUDA {} and this build needs CUDA {}: update the driver, or set "
        "device.kind to cpu",
        cuda_version_text(driver), cuda_version_text(runtime));
  }
  if (status == cudaErrorNoDevice || (status == cudaSuccess && count == 0)) {
    return "the NVIDIA driver finds no GPU: check nvidia-smi and CUDA_VISIBLE_DEVICES, or set device.kind to "
           "cpu";
  }
  if (status != cudaSuccess) {
    return fmt::format("the NVIDIA driver fails ({}): check nvidia-smi, or set device.kind to cpu",
                       cudaGetErrorString(status));
  }
  if (index < 0 || index >= count) {
    return fmt::format("there is no GPU {}: this machine shows {}; check CUDA_VISIBLE_DEVICES", index, count);
  }
  const int major = attribute(cudaDevAttrComputeCapabilityMajor, index);
  if (major < kOldestMajor) {
    return fmt::format(
        "GPU {} ({}) has compute capability {}.{} and this build needs {}.0: set device.kind to cpu", index,
        describe(index), major, attribute(cudaDevAttrComputeCapabilityMinor, index), kOldestMajor);
  }
  return {};
}

int cuda_devices() {
  int count = 0;
  const cudaError_t status = cudaGetDeviceCount(&count);
  cudaGetLastError();
  return status == cudaSuccess ? count : 0;
}

CudaDevice::CudaDevice(int index, const CudaLocking& locking) : index_(index), locking_(locking) {
  if (std::string why = why_no_cuda_device(index); !why.empty()) throw DeviceError(why);
  use_device(index);
  name_ = describe(index);
  numa_node_ = numa_node_of_pci(pci_bus_id(index));
}

std::unique_ptr<DeviceMemory> CudaDevice::allocate(Bytes bytes) {
  return std::make_unique<CudaMemory>(index_, bytes);
}

std::unique_ptr<PinnedHostMemory> CudaDevice::pin(std::span<std::byte> host) {
  prefer_numa_node(host, numa_node_);
  touch_pages(host);
  return std::make_unique<CudaPinnedMemory>(index_, host, locking_, host_ranges_, slow_paths_);
}

std::unique_ptr<Stream> CudaDevice::make_stream() {
  return make_cuda_stream();
}

std::unique_ptr<CudaStream> CudaDevice::make_cuda_stream() {
  return std::make_unique<CudaStream>(index_, host_ranges_, locking_.staging_bytes, chosen_, slow_paths_);
}

std::unique_ptr<ProductChooser> CudaDevice::product_chooser(const CallsOfRun& calls) {
  return std::make_unique<CudaProductChooser>(index_, make_cuda_stream(), chosen_, calls);
}

Bytes CudaDevice::available_bytes() const {
  use_device(index_);
  std::size_t free = 0;
  std::size_t total = 0;
  check_cuda(cudaMemGetInfo(&free, &total), "the GPU's free memory is unknown");
  return static_cast<Bytes>(free);
}

}  // namespace strata
