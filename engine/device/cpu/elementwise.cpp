// Kernels whose outputs depend on single elements: activations, addition, conversion, zeros.
#include <algorithm>
#include <cassert>
#include <cmath>
#include <cstring>

#include "base/storage_type.h"
#include "engine/device/cpu/context.h"
#include "engine/device/cpu/conversion.h"
#include "engine/device/cpu/targets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "engine/device/cpu/elementwise.cpp"
#include "hwy/foreach_target.h"
//
#include "engine/device/activation_calls.h"
#include "engine/device/cpu/vector-inl.h"
#include "engine/device/elementwise_calls.h"

HWY_BEFORE_NAMESPACE();
namespace strata::HWY_NAMESPACE {

// gelu(x) = x/2 · (1 + tanh(u)) = x · sigmoid(2u), u = sqrt(2/pi)·(x + 0.044715·x³): the latter form loses no
// digits.
constexpr float kLinear = 1.5957691216057308F;  // of 2u
constexpr float kCubic = 0.044715F * kLinear;

HWY_INLINE Float gelu_gate(Float x, Float square) {
  return sigmoid_of_negated(hn::Mul(x, hn::NegMulSub(square, broadcast(kCubic), broadcast(kLinear))));
}

/// A function's value and derivative.
struct AtPoint {
  Float value, derivative;
};

struct GeluTanh {
  static HWY_INLINE Float value(Float x) { return hn::Mul(x, gelu_gate(x, hn::Mul(x, x))); }
  static HWY_INLINE AtPoint at(Float x) {
    // From |x| = 16 on the gate is 0 or 1 and does not change, so x³, which may not be finite, has no part in
    // the slope.
    const Float square = hn::Min(broadcast(256.0F), hn::Mul(x, x));
    const Float gate = gelu_gate(x, square);
    const Float slope = hn::MulAdd(square, broadcast(3 * kCubic), broadcast(kLinear));
    const Float spread = hn::NegMulAdd(gate, gate, gate);
    return {hn::Mul(x, gate), hn::MulAdd(hn::Mul(x, spread), slope, gate)};
  }
};

struct Silu {
  static HWY_INLINE Float value(Float x) { return hn::Mul(x, sigmoid(x)); }
  static HWY_INLINE AtPoint at(Float x) {
    const Float s = sigmoid(x);
    const Float value = hn::Mul(x, s);
    // s + x·s·(1 - s)
    return {value, hn::MulAdd(value, hn::Sub(broadcast(1.0F), s), s)};
  }
};

struct Relu2 {
  /// A NaN stays.
  static HWY_INLINE Float positive(Float x) { return hn::IfThenZeroElse(hn::Lt(x, broadcast(0.0F)), x); }
  static HWY_INLINE Float value(Float x) { return hn::Mul(positive(x), positive(x)); }
  static HWY_INLINE AtPoint at(Float x) { return {value(x), hn::Add(positive(x), positive(x))}; }
};

/// Calls body with the functions of the kind.
template <typename Body>
HWY_INLINE void with_activation(Activation kind, const Body& body) {
  switch (kind) {
    case Activation::gelu_tanh:
      return body(GeluTanh());
    case Activation::silu:
      return body(Silu());
    case Activation::relu2:
      return body(Relu2());
  }
}

template <typename Function>
struct Value {
  HWY_INLINE Float operator()(Float x) const { return Function::value(x); }
};

template <typename Function>
struct Gradient {
  HWY_INLINE Float operator()(Float x, Float out_gradient) const {
    return hn::Mul(out_gradient, Function::at(x).derivative);
  }
};

struct MultiplyBy {
  float factor;
  HWY_INLINE Float operator()(Float x) const { return hn::Mul(x, broadcast(factor)); }
};

struct DivideBy {
  float divisor;
  HWY_INLINE Float operator()(Float x) const { return hn::Div(x, broadcast(divisor)); }
};

struct Add {
  HWY_INLINE Float operator()(Float a, Float b) const { return hn::Add(a, b); }
};

template <typename T, typename Function>
HWY_INLINE void map_rows(const Matrix& x, const Matrix& out, const Function& function) {
  for (std::int64_t row = 0; row < x.rows; ++row) map(x.row<T>(row), out.row<T>(row), x.columns, function);
}

template <typename T, typename Function>
HWY_INLINE void map_rows(const Matrix& x, const Matrix& y, const Matrix& out, const Function& function) {
  const std::int64_t step = lanes();
  for (std::int64_t row = 0; row < x.rows; ++row) {
    const T* first = x.row<T>(row);
    const T* second = y.row<T>(row);
    T* to = out.row<T>(row);
    std::int64_t i = 0;
    for (; i + kBatch * step <= x.columns; i += kBatch * step) {
      Float values[kBatch];
#pragma GCC unroll 4
      for (int j = 0; j < kBatch; ++j) {
        values[j] = function(load(first + i + j * step), load(second + i + j * step));
      }
#pragma GCC unroll 4
      for (int j = 0; j < kBatch; ++j) store(values[j], to + i + j * step);
    }
    for_vectors(x.columns - i, [&](auto access, std::int64_t k) HWY_ATTR {
      access.store(function(access.load(first + i + k), access.load(second + i + k)), to + i + k);
    });
  }
}

void activate(Activation kind, const Matrix& x, const Matrix& out) {
  with_activation(kind, [&]<typename Function>(Function) HWY_ATTR {
    with_storage_type(x.dtype, [&]<typename T>(T) HWY_ATTR { map_rows<T>(x, out, Value<Function>()); });
  });
}
void activate_backward(Activation kind, const Matrix& x, const Matrix& out_gradient,
                       const Matrix& x_gradient) {
  with_activation(kind, [&]<typename Function>(Function) HWY_ATTR {
    with_storage_type(x.dtype, [&]<typename T>(T) HWY_ATTR {
      map_rows<T>(x, out_gradient, x_gradient, Gradient<Function>());
    });
  });
}
/// x_gradient = activation'(x) · out_gradient, and out = activation(x).
void activate_again_backward(Activation kind, const Matrix& x, const Matrix& out_gradient,
                             const Matrix& x_gradient, const Matrix& out) {
  with_activation(kind, [&]<typename Function>(Function) HWY_ATTR {
    with_storage_type(x.dtype, [&]<typename T>(T) HWY_ATTR {
      for (std::int64_t row = 0; row < x.rows; ++row) {
        const T* from = x.row<T>(row);
        const T* gradient = out_gradient.row<T>(row);
        T* to_gradient = x_gradient.row<T>(row);
        T* to = out.row<T>(row);
        for_vectors(x.columns, [&](auto access, std::int64_t i) HWY_ATTR {
          const Float at = access.load(from + i);
          const Float g = access.load(gradient + i);
          access.store(Gradient<Function>()(at, g), to_gradient + i);
          access.store(Function::value(at), to + i);
        });
      }
    });
  });
}
void scale(float factor, const Matrix& x, const Matrix& out) {
  with_storage_type(x.dtype, [&]<typename T>(T) HWY_ATTR { map_rows<T>(x, out, MultiplyBy{factor}); });
}
void divide(float divisor, const Matrix& x, const Matrix& out) {
  with_storage_type(x.dtype, [&]<typename T>(T) HWY_ATTR { map_rows<T>(x, out, DivideBy{divisor}); });
}
void blend(float x_factor, const Matrix& x, float sums_factor, const Matrix& sums, const Matrix& out) {
  with_storage_type(x.dtype, [&]<typename T>(T) HWY_ATTR {
    for (std::int64_t row = 0; row < x.rows; ++row) {
      const T* from = x.row<T>(row);
      const float* added = sums.row<float>(row);
      T* to = out.row<T>(row);
      for_vectors(x.columns, [&](auto access, std::int64_t i) HWY_ATTR {
        access.store(hn::Add(hn::Mul(broadcast(x_factor), access.load(from + i)),
                             hn::Mul(broadcast(sums_factor), access.load(added + i))),
                     to + i);
      });
    }
  });
}
void add(const Matrix& a, const Matrix& b, const Matrix& out) {
  with_storage_type(a.dtype, [&]<typename T>(T) HWY_ATTR { map_rows<T>(a, b, out, Add()); });
}

template <typename T, typename Function>
HWY_INLINE void gate_rows(const Matrix& gate_up, const Matrix& out) {
  for (std::int64_t row = 0; row < out.rows; ++row) {
    const T* gate = gate_up.row<T>(row);
    const T* up = gate + out.columns;
    T* to = out.row<T>(row);
    for_vectors(out.columns, [&](auto access, std::int64_t i) HWY_ATTR {
      access.store(hn::Mul(Function::value(access.load(gate + i)), access.load(up + i)), to + i);
    });
  }
}

template <typename T, typename Function>
HWY_INLINE void gate_backward_rows(const Matrix& gate_up, const Matrix& out_gradient,
                                   const Matrix& gate_up_gradient, const Matrix& out) {
  const std::int64_t n = out_gradient.columns;
  for (std::int64_t row = 0; row < out_gradient.rows; ++row) {
    const T* gate = gate_up.row<T>(row);
    const T* gradient = out_gradient.row<T>(row);
    T* to = gate_up_gradient.row<T>(row);
    T* again = out ? out.row<T>(row) : nullptr;
    for_vectors(n, [&](auto access, std::int64_t i) HWY_ATTR {
      const Float x = access.load(gate + i);
      const AtPoint point = Function::at(x);
      const Float up = access.load(gate + n + i);
      const Float g = access.load(gradient + i);
      access.store(hn::Mul(hn::Mul(g, up), point.derivative), to + i);
      access.store(hn::Mul(g, point.value), to + n + i);
      if (again != nullptr) access.store(hn::Mul(Function::value(x), up), again + i);
    });
  }
}

void gate(Activation kind, const Matrix& gate_up, const Matrix& out) {
  with_activation(kind, [&]<typename Function>(Function) HWY_ATTR {
    with_storage_type(out.dtype, [&]<typename T>(T) HWY_ATTR { gate_rows<T, Function>(gate_up, out); });
  });
}
void gate_backward(Activation kind, const Matrix& gate_up, const Matrix& out_gradient,
                   const Matrix& gate_up_gradient, const Matrix& out) {
  with_activation(kind, [&]<typename Function>(Function) HWY_ATTR {
    with_storage_type(out_gradient.dtype, [&]<typename T>(T) HWY_ATTR {
      gate_backward_rows<T, Function>(gate_up, out_gradient, gate_up_gradient, out);
    });
  });
}

}  // namespace strata::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace strata {
namespace {

HWY_EXPORT(activate);
HWY_EXPORT(activate_backward);
HWY_EXPORT(activate_again_backward);
HWY_EXPORT(scale);
HWY_EXPORT(divide);
HWY_EXPORT(blend);
HWY_EXPORT(add);
HWY_EXPORT(gate);
HWY_EXPORT(gate_backward);

/// A matrix whose rows follow each other as one of rows of about a task's size, if that comes out even;
/// else itself.
std::int64_t balanced_columns(std::int64_t elements, std::int64_t columns) {
  std::int64_t width = columns;
  while (width > kTaskElements && width % 2 == 0) width /= 2;
  return elements % width == 0 ? width : columns;
}

Matrix reshaped(const Matrix& x, std::int64_t columns) {
  return {x.data, x.dtype, x.elements() / columns, columns};
}

/// Calls body on row ranges of the operands, which all have the first one's shape.
template <typename Body, typename... Operands>
void for_row_slices(CpuContext& context, const Body& body, const Matrix& first, const Operands&... operands) {
  const bool contiguous = first.contiguous() && (... && operands.contiguous());
  const std::int64_t columns = contiguous ? balanced_columns(first.elements(), first.columns) : first.columns;
  const std::int64_t rows = first.elements() / columns;
  context.pool.for_ranges(rows, rows_per_task(columns), [&](std::int64_t begin, std::int64_t end, int) {
    const auto slice = [&](const Matrix& x) {
      return (contiguous ? reshaped(x, columns) : x).row_slice(begin, end - begin);
    };
    body(slice(first), slice(operands)...);
  });
}

}  // namespace

void activate_tile(Activation kind, const Matrix& x, const Matrix& out) {
  HWY_DYNAMIC_DISPATCH(activate)(kind, x, out);
}

void run_on_cpu(CpuContext& context, const ActivationForward& call) {
  for_row_slices(
      context, [&](const Matrix& x, const Matrix& out) { activate_tile(call.kind, x, out); }, call.x,
      call.out);
}

void run_on_cpu(CpuContext& context, const ActivationBackward& call) {
  if (call.out) {
    return for_row_slices(
        context,
        [&](const Matrix& x, const Matrix& out_gradient, const Matrix& x_gradient, const Matrix& out) {
          HWY_DYNAMIC_DISPATCH(activate_again_backward)(call.kind, x, out_gradient, x_gradient, out);
        },
        call.x, call.out_gradient, call.x_gradient, call.out);
  }
  for_row_slices(
      context,
      [&](const Matrix& x, const Matrix& out_gradient, const Matrix& x_gradient) {
        HWY_DYNAMIC_DISPATCH(activate_backward)(call.kind, x, out_gradient, x_gradient);
      },
      call.x, call.out_gradient, call.x_gradient);
}

void run_on_cpu(CpuContext& context, const Scale& call) {
  for_row_slices(
      context,
      [&](const Matrix& x, const Matrix& out) {
        HWY_DYNAMIC_DISPATCH(scale)
        (call.factor, x, out);
      },
      call.x, call.out);
}

void run_on_cpu(CpuContext& context, const Blend& call) {
  for_row_slices(
      context,
      [&](const Matrix& x, const Matrix& sums, const Matrix& out) {
        HWY_DYNAMIC_DISPATCH(blend)
        (call.x_factor, x, call.sums_factor, sums, out);
      },
      call.x, call.sums, call.out);
}

void run_on_cpu(CpuContext& context, const DivideByNorm& call) {
  const float norm = with_storage_type(call.x.dtype, [&]<typename T>(T) {
    return static_cast<float>(T(static_cast<float>(std::sqrt(*call.squares))));
  });
  for_row_slices(
      context,
      [&](const Matrix& x, const Matrix& out) {
        HWY_DYNAMIC_DISPATCH(divide)
        (std::max(norm, call.least), x, out);
      },
      call.x, call.out);
}

void run_on_cpu(CpuContext& context, const Addition& call) {
  const auto& [a, b, out] = call;
  for_row_slices(
      context,
      [](const Matrix& a, const Matrix& b, const Matrix& out) {
        HWY_DYNAMIC_DISPATCH(add)
        (a, b, out);
      },
      a, b, out);
}

void run_on_cpu(CpuContext& context, const Cast& call) {
  const auto& [x, out] = call;
  for_row_slices(context, convert, x, out);
}

void run_on_cpu(CpuContext& context, const Zero& call) {
  const auto& [x] = call;
  for_row_slices(
      context,
      [](const Matrix& x) {
        for (std::int64_t row = 0; row < x.rows; ++row) {
          std::memset(x.row_slice(row, 1).data, 0, static_cast<std::size_t>(x.columns * size_of(x.dtype)));
        }
      },
      x);
}

void run_on_cpu(CpuContext& context, const GatedForward& call) {
  assert(call.gate_up.columns == 2 * call.out.columns);
  context.pool.for_ranges(
      call.out.rows, rows_per_task(call.out.columns), [&](std::int64_t begin, std::int64_t end, int) {
        HWY_DYNAMIC_DISPATCH(gate)
        (call.kind, call.gate_up.row_slice(begin, end - begin), call.out.row_slice(begin, end - begin));
      });
}

void run_on_cpu(CpuContext& context, const GatedBackward& call) {
  assert(call.gate_up.columns == 2 * call.out_gradient.columns);
  const std::int64_t rows = call.out_gradient.rows;
  context.pool.for_ranges(
      rows, rows_per_task(call.out_gradient.columns), [&](std::int64_t begin, std::int64_t end, int) {
        const auto part = [&](const Matrix& x) { return x.row_slice(begin, end - begin); };
        HWY_DYNAMIC_DISPATCH(gate_backward)
        (call.kind, part(call.gate_up), part(call.out_gradient), part(call.gate_up_gradient),
         call.out ? part(call.out) : Matrix());
      });
}

}  // namespace strata
#endif
