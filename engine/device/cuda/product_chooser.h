// Times cuBLASLt's first proposals for the products of a run, with memory and a stream of its own.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "engine/device/cuda/cuda_stream.h"
#include "engine/device/cuda/float8_product.h"
#include "engine/device/product_calls.h"
#include "engine/device/product_chooser.h"

namespace strata {

/// The number of the algorithm that computes a product. `seconds` has each algorithm's repeated times, in the
/// order of the library's preference. The first is taken whose median is at most the fastest's upper
/// quartile, or at most 1 % above the fastest's median. Times that a clock cannot tell apart must not decide
/// bits. REQUIRES: each algorithm has the same number of times, one at least.
std::size_t fastest_of(const std::vector<std::vector<double>>& seconds);

class CudaProductChooser final : public ProductChooser {
 public:
  /// `stream` is the device's and used by nobody else. What is chosen goes to `chosen`, which outlives this
  /// object.
  CudaProductChooser(int device, std::unique_ptr<CudaStream> stream, MatmulAlgorithms& chosen,
                     const CallsOfRun& calls);

  const std::vector<std::string>& names() const override { return names_; }
  Bytes bytes(std::size_t number) const override;
  std::string fastest(std::size_t number, std::byte* memory) override;
  bool use(std::size_t number, const std::string& algorithm) override;

 private:
  /// A product of the run whose operands lie in memory that was given for it.
  struct Placed {
    Product product;
    CodeScales scales = {};  ///< of operands that are codes
  };
  static Placed placed(std::byte* memory, Product product);
  /// False if it cannot be started.
  bool multiply(const Placed& placed, const MatmulAlgorithm& algorithm);
  /// What the product takes, made `times` times in a row, in all.
  double seconds_of(const Placed& placed, const MatmulAlgorithm& algorithm, int times);

  int device_;
  std::unique_ptr<CudaStream> stream_;
  MatmulAlgorithms& chosen_;
  const MatmulAlgorithms none_chosen_ = {};
  CudaMatmul matmul_;
  std::vector<std::string> names_;
  std::vector<Product> products_;  ///< as the run makes them; of codes if they are multiplied so
};

}  // namespace strata
