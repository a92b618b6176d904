// A GPU for programs that are linked with this folder in place of the CUDA runtime and cuBLASLt: its memory
// is the host's, its streams are threads. README.md says what is modelled. A test may change the machine
// while no stream works, and counts what it was asked for.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <string>

namespace strata::gpu_emulation {

inline constexpr std::size_t kAnyBytes = std::numeric_limits<std::size_t>::max();

struct Machine {
  /// As late as possible: a stream does nothing before somebody waits for it, on the host or in another
  /// stream. What lacks a wait then finds what was there before.
  bool lazy = false;
  /// False: what is issued is held against what CUDA and cuBLASLt take, and only copies are performed.
  bool computes = true;
  std::size_t device_bytes = std::size_t{4} << 30;
  /// Host memory that may be locked, in all and in one call.
  std::size_t lockable_bytes = kAnyBytes, largest_lock = kAnyBytes;
  int compute_capability = 90;
  /// Whether cuBLASLt adds a bias in its epilogue.
  bool adds_bias = true;
  /// And whether it applies GELU there.
  bool applies_gelu = true;
  /// What cuBLASLt has for each product: algorithm N begins its sums N places later in the depth, and needs
  /// a workspace of a 2^N-th. It proposes them in their order.
  int algorithms = 8;
  /// What a product takes, by its algorithm: then events tell that time and nothing else.
  std::function<double(int algorithm)> product_seconds = {};
  std::string name = "emulated GPU";
  std::size_t cublas_version = 130000;
};
Machine& machine();

/// Since the program began.
struct Counts {
  std::atomic<std::int64_t> kernels, products, copies;
  std::atomic<std::int64_t> float8_products;  ///< of the products
  std::atomic<std::int64_t> gelu_products;    ///< of the products, too
  std::atomic<std::int64_t> pageable_copies;  ///< between the device and host memory that is not locked
  std::atomic<std::int64_t> locked_bytes;     ///< now
  std::atomic<std::int64_t> registrations;    ///< cudaHostRegister's that succeeded
  std::atomic<std::int64_t> proposals;        ///< cuBLASLt was asked for more than one algorithm
  std::atomic<std::int64_t> first_proposals;  ///< products that it computed by the first
  std::atomic<std::int64_t> device_bytes, most_device_bytes;  ///< now; at most, since a test has set it
};
Counts& counts();

/// A mistake in what was issued, met when it is performed: from then on every wait fails, as on a GPU whose
/// kernel failed, until a test takes it.
void fail(const std::string& why);
std::string take_failure();

/// By what machine().product_seconds says events are later from now on.
void spend(double seconds);

/// Whether all of this memory is the device's.
bool is_on_device(const void* memory, std::size_t bytes);

}  // namespace strata::gpu_emulation
