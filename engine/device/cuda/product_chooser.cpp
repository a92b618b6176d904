#include "engine/device/cuda/product_chooser.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <optional>
#include <set>

#include "base/error.h"
#include "base/nth.h"
#include "engine/device/cuda/cublas_lt_library.h"
#include "engine/device/cuda/cuda_error.h"
#include "engine/device/product_calls.h"

namespace strata {
namespace {

/// What cuBLASLt proposes behind its first few is rarely faster.
constexpr int kProposals = 8;
/// Each proposal is timed so often, by turns with the others, since a GPU's clock rate varies.
constexpr int kRounds = 7;
/// What is timed takes so long at least: events lie some microseconds beside what they enclose.
constexpr double kLongEnoughSeconds = 200e-6;
constexpr int kMostTimes = 50;

/// Keeps what cuBLASLt computes of the products that it gets, each once.
class CollectedProducts final : public Kernels {
 public:
  CollectedProducts(int device, CudaMatmul& matmul) : matmul_(matmul), float8_(device, matmul, unsaid_) {}
  std::vector<Product> take() { return std::move(products_); }

  void run(const KernelCall& call) override {
    const auto* product = call.as<Product>();
    if (product == nullptr) return;
    const bool rounds = product->rounding == Rounding::e4m3;
    const std::optional<Product> part = rounds ? float8_.in_library(*product) : matmul_.in_library(*product);
    if (part && known_.insert(column_major(*part)).second) products_.push_back(*part);
  }

 private:
  CudaMatmul& matmul_;
  SlowPaths unsaid_;  ///< the run's own kernels say it
  CudaFloat8Product float8_;
  std::set<ColumnMajorProduct> known_;
  std::vector<Product> products_;
};

/// What the scales of a and b take.
constexpr Bytes kScaleBytes = 2 * kAlignment;

Bytes extent(const Matrix& matrix) {
  return align_up(matrix.rows * matrix.stride * size_of(matrix.dtype)) + kAlignment;
}

/// The part of every name that says what computes.
std::string name_of_device(int device, Bytes workspace) {
  cudaDeviceProp properties{};
  check_cuda(cudaGetDeviceProperties(&properties, device), "the GPU's properties cannot be read");
  return fmt::format(
      "{} with {} processors, cuBLASLt {}, workspace of {}: ", static_cast<const char*>(properties.name),
      properties.multiProcessorCount, cublas_lt().version(), workspace);
}

constexpr std::size_t kWordDigits = 16;

std::string to_text(const MatmulAlgorithm& algorithm) {
  std::string text;
  for (const std::uint64_t word : algorithm) text += fmt::format("{:016x}", word);
  return text;
}

std::optional<MatmulAlgorithm> algorithm_from(const std::string& text) {
  MatmulAlgorithm algorithm{};
  if (text.size() != algorithm.size() * kWordDigits) return std::nullopt;
  const char* next = text.data();
  for (std::uint64_t& word : algorithm) {
    const auto [end, error] = std::from_chars(next, next + kWordDigits, word, 16);
    if (error != std::errc() || end != next + kWordDigits) return std::nullopt;
    next = end;
  }
  return algorithm;
}

}  // namespace

std::size_t fastest_of(const std::vector<std::vector<double>>& seconds) {
  constexpr double kNoise = 0.01;
  const auto quantile = [](std::vector<double> times, std::size_t quarters) {
    std::ranges::sort(times);
    return times[(times.size() - 1) * quarters / 4];
  };
  std::vector<double> medians;
  medians.reserve(seconds.size());
  for (const std::vector<double>& times : seconds) medians.push_back(quantile(times, 2));
  const auto fastest = index_of(medians, std::ranges::min_element(medians));
  const double limit = std::max(quantile(seconds[fastest], 3), medians[fastest] * (1 + kNoise));
  return static_cast<std::size_t>(
      std::ranges::find_if(medians, [&](double median) { return median <= limit; }) - medians.begin());
}

CudaProductChooser::CudaProductChooser(int device, std::unique_ptr<CudaStream> stream,
                                       MatmulAlgorithms& chosen, const CallsOfRun& calls)
    : device_(device), stream_(std::move(stream)), chosen_(chosen), matmul_(device, none_chosen_) {
  CollectedProducts collected(device, matmul_);
  calls(collected);
  products_ = collected.take();
  const std::string of_device = name_of_device(device, matmul_.workspace_bytes());
  for (const Product& product : products_) names_.push_back(of_device + print(column_major(product)));
}

Bytes CudaProductChooser::bytes(std::size_t number) const {
  const Product& product = products_[number];
  return extent(product.a) + extent(product.b) + extent(product.out) + extent(product.bias) +
         extent(product.addend) + extent(product.activated) + kScaleBytes;
}

/// One after another, no more aligned than they were, and behind them scales.
CudaProductChooser::Placed CudaProductChooser::placed(std::byte* memory, Product product) {
  for (Matrix* matrix :
       {&product.a, &product.b, &product.out, &product.bias, &product.addend, &product.activated}) {
    if (!*matrix) continue;
    const int alignment = known_alignment(matrix->data);
    matrix->data = memory + alignment % kAlignment;
    memory += extent(*matrix);
  }
  auto* const scale = reinterpret_cast<float*>(memory);
  return {product, {.a = scale, .b = scale + kAlignment / sizeof(float)}};
}

bool CudaProductChooser::multiply(const Placed& placed, const MatmulAlgorithm& algorithm) {
  return matmul_.multiply_by(stream_->handle(), placed.product, algorithm, placed.scales);
}

std::string CudaProductChooser::fastest(std::size_t number, std::byte* memory) {
  use_device(device_);
  const Placed product = placed(memory, products_[number]);
  std::vector<MatmulAlgorithm> algorithms = matmul_.proposals(column_major(product.product), kProposals);
  const MatmulAlgorithm first = algorithms.front();
  std::erase_if(algorithms, [&](const MatmulAlgorithm& algorithm) { return !multiply(product, algorithm); });
  if (algorithms.size() < 2) return to_text(algorithms.empty() ? first : algorithms.front());
  const double once = seconds_of(product, algorithms.front(), 1);
  const int times =
      static_cast<int>(std::clamp(kLongEnoughSeconds / std::max(once, 1e-9), 1.0, 1.0 * kMostTimes));
  std::vector<std::vector<double>> seconds(algorithms.size());
  for (int round = 0; round < kRounds; ++round) {
    for (std::size_t i = 0; i < algorithms.size(); ++i)
      seconds[i].push_back(seconds_of(product, algorithms[i], times));
  }
  return to_text(algorithms[fastest_of(seconds)]);
}

double CudaProductChooser::seconds_of(const Placed& placed, const MatmulAlgorithm& algorithm, int times) {
  constexpr double kLongestSeconds = 120;
  const std::unique_ptr<Event> start = stream_->make_event(), end = stream_->make_event();
  stream_->record(*start);
  for (int i = 0; i < times; ++i) {
    if (!multiply(placed, algorithm))
      throw DeviceError("a matrix product that was computed before could not be started again");
  }
  stream_->record(*end);
  if (!end->wait(kLongestSeconds))
    throw DeviceError("the GPU did not finish a matrix product within two minutes; is it shared or broken?");
  return end->seconds_since(*start);
}

bool CudaProductChooser::use(std::size_t number, const std::string& algorithm) {
  use_device(device_);
  const ColumnMajorProduct problem = column_major(products_[number]);
  const std::optional<MatmulAlgorithm> known = algorithm_from(algorithm);
  if (!known || !matmul_.takes(problem, *known)) return false;
  chosen_.insert_or_assign(problem, *known);
  return true;
}

}  // namespace strata
