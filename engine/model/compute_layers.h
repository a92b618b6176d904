// Linear and norm layers over tensors of a flat parameter: where they lie is found once by HF name, then
// every call is arithmetic on offsets. They are all that distinguishes the families' parameters. Values;
// usable from any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string_view>

#include "engine/device/kernels.h"
#include "engine/model/model.h"

namespace strata {

/// A unit's flat parameter (in `dtype`) and its fp32 gradient of the same layout; the gradient is null in a
/// forward.
struct FlatParameter {
  std::byte* parameter = nullptr;
  float* gradient = nullptr;
  DType dtype = DType::fp32;

  Matrix value(std::int64_t offset, std::int64_t rows, std::int64_t columns) const {
    return {parameter + offset * size_of(dtype), dtype, rows, columns};
  }
  Matrix gradient_of(std::int64_t offset, std::int64_t rows, std::int64_t columns) const {
    return {gradient + offset, DType::fp32, rows, columns};
  }
};

/// How HF stores a matrix: torch's Linear as [outputs, inputs], GPT-2's Conv1D as [inputs, outputs].
enum class WeightOrder : std::uint8_t { linear, conv1d };

/// y = x · W (+ b) for x of [tokens, inputs].
struct LinearLayer {
  std::int64_t inputs = 0;
  std::int64_t outputs = 0;
  WeightOrder order = WeightOrder::linear;
  std::int64_t weight = 0;           ///< offset in the flat parameter
  std::optional<std::int64_t> bias;  ///< offset, if there is one

  /// `accumulate` adds to what `out` holds: the residual stream.
  void forward(Kernels& kernels, const FlatParameter& flat, const Matrix& x, const Matrix& out,
               bool accumulate = false) const;
  /// Adds the gradients of weight and bias.
  void add_gradients(Kernels& kernels, const FlatParameter& flat, const Matrix& x,
                     const Matrix& out_gradient) const;
  /// Overwrites x_gradient.
  void input_gradient(Kernels& kernels, const FlatParameter& flat, const Matrix& out_gradient,
                      const Matrix& x_gradient) const;
  /// Counts one product with `tokens` rows; a backward pass has two such.
  double flops(std::int64_t tokens) const;

 private:
  Matrix weight_of(const FlatParameter& flat) const;
};

/// Row statistics that a norm's backward needs, fp32 [1, rows] each; RMSNorm has no mean.
struct NormStatistics {
  Matrix mean, reciprocal_deviation;

  NormStatistics rows(std::int64_t first, std::int64_t count) const {
    return {mean ? mean.column_slice(first, count) : Matrix{},
            reciprocal_deviation.column_slice(first, count)};
  }
};

struct NormLayer {
  NormKind kind = NormKind::rms_norm;
  float epsilon = 0;
  std::int64_t columns = 0;
  std::int64_t weight = 0;           ///< offset in the flat parameter
  std::optional<std::int64_t> bias;  ///< offset, if there is one

  /// out = norm(x); out may be x.
  void forward(Kernels& kernels, const FlatParameter& flat, const Matrix& x, const Matrix& out,
               const NormStatistics& statistics) const;
  /// sum = x + residual, out = norm(sum); out may be x.
  void forward_sum(Kernels& kernels, const FlatParameter& flat, const Matrix& x, const Matrix& residual,
                   const Matrix& sum, const Matrix& out, const NormStatistics& statistics) const;
  /// x_gradient = gradient through the norm (+ residual_gradient); adds the gradients of weight and bias.
  /// x_gradient may be out_gradient or residual_gradient.
  void backward(Kernels& kernels, const FlatParameter& flat, const Matrix& x,
                const NormStatistics& statistics, const Matrix& out_gradient, const Matrix& residual_gradient,
                const Matrix& x_gradient) const;
};

/// The tensor whose HF name is `name`, or ends with `.name`. REQUIRES: there is one.
const TensorSpec& find_tensor(const Unit& unit, std::string_view name);

/// The layer made of the adjacent matrices `name.weight` (and `name.bias`, if the unit has them), in this
/// order.
LinearLayer find_linear(const Unit& unit, WeightOrder order, std::initializer_list<std::string_view> names);

NormLayer find_norm(const Unit& unit, const Architecture& architecture, std::string_view name);

}  // namespace strata
