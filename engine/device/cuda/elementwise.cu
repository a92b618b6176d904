// Kernels whose every output element depends on the input elements at its own place only: activations, sums,
// casts. One kernel runs them all: a thread moves 16 bytes of each operand if all are aligned for that,
// and single elements otherwise.
#include <algorithm>
#include <array>
#include <cstdint>

#include "base/storage_type.h"
#include "engine/device/activation_calls.h"
#include "engine/device/cuda/context.h"
#include "engine/device/cuda/element.cuh"
#include "engine/device/cuda/launch.cuh"
#include "engine/device/elementwise_calls.h"

namespace strata {
namespace {

constexpr std::int64_t kElementThreads = 256;
constexpr int kElementBlocks = 5;  ///< on a multiprocessor: 48 registers are enough for every operation
constexpr std::int64_t kMostElementBlocksDown = 65535;

/// Operands of one shape. They may be the same memory if their elements are at the same places.
template <typename Operation, typename In, typename Out>
struct Elementwise {
  std::int64_t rows, columns;
  std::array<Rows<const In>, Operation::kInputs> inputs;
  std::array<Rows<Out>, Operation::kOutputs> outputs;
  Operation operation;
};

/// Reads every input before it writes an output.
template <int width, typename Operation, typename In, typename Out>
__device__ __forceinline__ void compute_run(const Elementwise<Operation, In, Out>& x, std::int64_t row,
                                            std::int64_t column) {
  std::array<Run<In, width>, Operation::kInputs> inputs;
#pragma unroll
  for (int i = 0; i < Operation::kInputs; ++i) inputs[i] = load_run<width>(x.inputs[i].row(row) + column);
  std::array<Run<Out, width>, Operation::kOutputs> outputs;
#pragma unroll
  for (int k = 0; k < width; ++k) {
    std::array<float, Operation::kInputs> values;
#pragma unroll
    for (int i = 0; i < Operation::kInputs; ++i) values[i] = to_float(inputs[i].values[k]);
    const std::array<float, Operation::kOutputs> results = x.operation.of(values);
#pragma unroll
    for (int i = 0; i < Operation::kOutputs; ++i) outputs[i].values[k] = from_float<Out>(results[i]);
  }
#pragma unroll
  for (int i = 0; i < Operation::kOutputs; ++i) store_run(outputs[i], x.outputs[i].row(row) + column);
}

template <int width, typename Operation, typename In, typename Out>
__global__ void __launch_bounds__(kElementThreads, kElementBlocks)
    elementwise_kernel(Elementwise<Operation, In, Out> x) {
  const std::int64_t column = (std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x) * width;
  const std::int64_t first_row = std::int64_t{blockIdx.y} * blockDim.y + threadIdx.y;
  for (std::int64_t row = first_row; row < x.rows; row += std::int64_t{gridDim.y} * blockDim.y) {
    if (column + width <= x.columns) {
      compute_run<width>(x, row, column);
    } else {
#pragma unroll 1  // the end of a row: unrolled it would be most of the code
      for (std::int64_t c = column; c < x.columns; ++c) compute_run<1>(x, row, c);
    }
  }
}

/// If the rows of all operands lie end to end they are one long row.
template <typename Operation, typename In, typename Out>
void join_rows(Elementwise<Operation, In, Out>& x) {
  const auto follow = [&](const auto& operand) { return operand.stride == x.columns; };
  if (x.rows != 1 && !(std::all_of(x.inputs.begin(), x.inputs.end(), follow) &&
                       std::all_of(x.outputs.begin(), x.outputs.end(), follow))) {
    return;
  }
  x.columns *= x.rows;
  x.rows = 1;
  for (auto& operand : x.inputs) operand.stride = 0;
  for (auto& operand : x.outputs) operand.stride = 0;
}

template <int width, typename Operation, typename In, typename Out>
void launch_elementwise(const CudaContext& context, const Elementwise<Operation, In, Out>& x) {
  const std::int64_t runs = divide_rounding_up(x.columns, width);
  std::int64_t across = 1;
  while (across < runs && across < kElementThreads) across *= 2;
  const std::int64_t down = x.rows == 1 ? 1 : kElementThreads / across;
  const dim3 grid(static_cast<unsigned>(divide_rounding_up(runs, across)),
                  static_cast<unsigned>(std::min(divide_rounding_up(x.rows, down), kMostElementBlocksDown)));
  const dim3 block(static_cast<unsigned>(across), static_cast<unsigned>(down));
  launch(elementwise_kernel<width, Operation, In, Out>, grid, block, 0, context.stream, x);
}

template <typename Operation, typename In, typename Out>
void run_elementwise(const CudaContext& context, Elementwise<Operation, In, Out> x) {
  if (x.rows == 0 || x.columns == 0) return;
  join_rows(x);
  constexpr int kWidth = 16 / std::max(sizeof(In), sizeof(Out));
  const auto aligned = [](const auto& operand) { return is_aligned<kWidth>(operand); };
  if (std::all_of(x.inputs.begin(), x.inputs.end(), aligned) &&
      std::all_of(x.outputs.begin(), x.outputs.end(), aligned)) {
    launch_elementwise<kWidth>(context, x);
  } else {
    launch_elementwise<1>(context, x);
  }
}

/// Inputs and outputs of one dtype and of the first output's shape.
template <typename Operation>
void run_elementwise(const CudaContext& context, const std::array<Matrix, Operation::kInputs>& inputs,
                     const std::array<Matrix, Operation::kOutputs>& outputs, Operation operation = {}) {
  with_storage_type(outputs[0].dtype, [&](auto element) {
    using T = decltype(element);
    Elementwise<Operation, T, T> x{outputs[0].rows, outputs[0].columns, {}, {}, operation};
    for (int i = 0; i < Operation::kInputs; ++i) x.inputs[i] = rows_of<const T>(inputs[i]);
    for (int i = 0; i < Operation::kOutputs; ++i) x.outputs[i] = rows_of<T>(outputs[i]);
    run_elementwise(context, x);
  });
}

__device__ float sigmoid(float x) {
  return 1.0F / (1.0F + expf(-x));
}

// gelu(x) = x/2 · (1 + tanh(u)) = x · sigmoid(2u) with u = sqrt(2/pi) · (x + 0.044715 x³).
constexpr float kTwiceGeluSlope = 1.5957691216057308F;
constexpr float kGeluCubic = 0.044715F;

__device__ float gelu_sigmoid(float x) {
  return sigmoid(kTwiceGeluSlope * (x + kGeluCubic * x * x * x));
}

struct GeluTanh {
  __device__ static float value(float x) { return x * gelu_sigmoid(x); }
  /// gradient · gelu'(x).
  __device__ static float gradient(float x, float gradient) {
    // Beyond this the derivative is 0 or 1 in fp32, and x² may not be finite. A NaN stays, and an infinity
    // becomes one.
    const float near = x > 16.0F ? 16.0F : x < -16.0F ? -16.0F : x;
    const float sigma = gelu_sigmoid(near);
    const float slope = kTwiceGeluSlope * (1.0F + 3.0F * kGeluCubic * near * near);
    return gradient * (sigma + x * sigma * (1.0F - sigma) * slope);
  }
};

struct Silu {
  __device__ static float value(float x) { return x * sigmoid(x); }
  /// gradient · silu'(x).
  __device__ static float gradient(float x, float gradient) {
    const float sigma = sigmoid(x);
    return gradient * sigma * (1.0F + x * (1.0F - sigma));
  }
};

struct Relu2 {
  /// A NaN stays.
  __device__ static float positive(float x) { return x < 0.0F ? 0.0F : x; }
  __device__ static float value(float x) { return positive(x) * positive(x); }
  /// gradient · relu2'(x).
  __device__ static float gradient(float x, float gradient) { return gradient * (2.0F * positive(x)); }
};

template <typename Function>
struct Activate {
  static constexpr int kInputs = 1, kOutputs = 1;
  __device__ static std::array<float, 1> of(const std::array<float, 1>& x) { return {Function::value(x[0])}; }
};

template <typename Function>
struct ActivateBackward {
  static constexpr int kInputs = 2, kOutputs = 1;
  __device__ static std::array<float, 1> of(const std::array<float, 2>& x_and_gradient) {
    const auto [x, gradient] = x_and_gradient;
    return {Function::gradient(x, gradient)};
  }
};

/// And the activation again.
template <typename Function>
struct ActivateAgainBackward {
  static constexpr int kInputs = 2, kOutputs = 2;
  __device__ static std::array<float, 2> of(const std::array<float, 2>& x_and_gradient) {
    const auto [x, gradient] = x_and_gradient;
    return {Function::gradient(x, gradient), Function::value(x)};
  }
};

template <typename Function>
struct Gate {
  static constexpr int kInputs = 2, kOutputs = 1;
  __device__ static std::array<float, 1> of(const std::array<float, 2>& gate_and_up) {
    const auto [gate, up] = gate_and_up;
    return {Function::value(gate) * up};
  }
};

template <typename Function>
struct GateBackward {
  static constexpr int kInputs = 3, kOutputs = 2;
  __device__ static std::array<float, 2> of(const std::array<float, 3>& gate_up_and_gradient) {
    const auto [gate, up, gradient] = gate_up_and_gradient;
    return {Function::gradient(gate, gradient * up), gradient * Function::value(gate)};
  }
};

/// And the gated activation again.
template <typename Function>
struct GateAgainBackward {
  static constexpr int kInputs = 3, kOutputs = 3;
  __device__ static std::array<float, 3> of(const std::array<float, 3>& gate_up_and_gradient) {
    const auto [gate, up, gradient] = gate_up_and_gradient;
    return {Function::gradient(gate, gradient * up), gradient * Function::value(gate),
            Function::value(gate) * up};
  }
};

/// Calls body with the functions of the kind.
template <typename Body>
void with_activation(Activation kind, const Body& body) {
  switch (kind) {
    case Activation::gelu_tanh:
      return body(GeluTanh());
    case Activation::silu:
      return body(Silu());
    case Activation::relu2:
      return body(Relu2());
  }
}

struct MultiplyBy {
  static constexpr int kInputs = 1, kOutputs = 1;
  float factor;
  __device__ std::array<float, 1> of(const std::array<float, 1>& x) const { return {factor * x[0]}; }
};

struct Add {
  static constexpr int kInputs = 2, kOutputs = 1;
  __device__ static std::array<float, 1> of(const std::array<float, 2>& x) { return {x[0] + x[1]}; }
};

template <typename T>
struct DivideBy {
  static constexpr int kInputs = 1, kOutputs = 1;
  const double* squares;
  float least;
  __device__ std::array<float, 1> of(const std::array<float, 1>& x) const {
    const float norm = to_float(from_float<T>(static_cast<float>(__dsqrt_rn(*squares))));
    return {__fdiv_rn(x[0], fmaxf(norm, least))};
  }
};

/// The elements of Blend.
template <typename T>
struct Blended {
  std::int64_t elements, columns;
  Rows<const T> x;
  Rows<const float> sums;
  Rows<T> out;
  float x_factor, sums_factor;
};

/// `run` elements of a row by each thread, of columns that are a multiple of them.
template <int run, typename T>
__global__ void __launch_bounds__(kElementThreads) blend_kernel(Blended<T> b) {
  const std::int64_t first = (std::int64_t{blockIdx.x} * kElementThreads + threadIdx.x) * run;
  if (first >= b.elements) return;
  const bool is_one_row = b.columns == b.elements;  // then no division takes longer than the memory
  const std::int64_t row = is_one_row ? 0 : first / b.columns;
  const std::int64_t column = is_one_row ? first : first % b.columns;
  const auto x = load_run<run>(b.x.row(row) + column);
  const auto sums = load_run<run>(b.sums.row(row) + column);
  Run<T, run> out;
#pragma unroll
  for (int i = 0; i < run; ++i) {
    const float of_x = __fmul_rn(b.x_factor, to_float(x.values[i]));
    out.values[i] = from_float<T>(__fadd_rn(of_x, __fmul_rn(b.sums_factor, sums.values[i])));
  }
  store_run(out, b.out.row(row) + column);
}

struct Copy {
  static constexpr int kInputs = 1, kOutputs = 1;
  __device__ static std::array<float, 1> of(const std::array<float, 1>& x) { return x; }
};

struct SetZero {
  static constexpr int kInputs = 0, kOutputs = 1;
  __device__ static std::array<float, 1> of(const std::array<float, 0>&) { return {0.0F}; }
};

Matrix left_half(const Matrix& x) {
  return x.column_slice(0, x.columns / 2);
}
Matrix right_half(const Matrix& x) {
  return x.column_slice(x.columns / 2, x.columns / 2);
}

}  // namespace

void run_on_cuda(const CudaContext& context, const ActivationForward& call) {
  with_activation(call.kind, [&](auto function) {
    run_elementwise<Activate<decltype(function)>>(context, {call.x}, {call.out});
  });
}
void run_on_cuda(const CudaContext& context, const ActivationBackward& call) {
  with_activation(call.kind, [&](auto function) {
    using Function = decltype(function);
    if (call.out) {
      run_elementwise<ActivateAgainBackward<Function>>(context, {call.x, call.out_gradient},
                                                       {call.x_gradient, call.out});
    } else {
      run_elementwise<ActivateBackward<Function>>(context, {call.x, call.out_gradient}, {call.x_gradient});
    }
  });
}
void run_on_cuda(const CudaContext& context, const GatedForward& call) {
  with_activation(call.kind, [&](auto function) {
    run_elementwise<Gate<decltype(function)>>(context, {left_half(call.gate_up), right_half(call.gate_up)},
                                              {call.out});
  });
}
void run_on_cuda(const CudaContext& context, const GatedBackward& call) {
  with_activation(call.kind, [&](auto function) {
    using Function = decltype(function);
    const Matrix gate = left_half(call.gate_up), up = right_half(call.gate_up);
    const Matrix gate_gradient = left_half(call.gate_up_gradient),
                 up_gradient = right_half(call.gate_up_gradient);
    if (call.out) {
      run_elementwise<GateAgainBackward<Function>>(context, {gate, up, call.out_gradient},
                                                   {gate_gradient, up_gradient, call.out});
    } else {
      run_elementwise<GateBackward<Function>>(context, {gate, up, call.out_gradient},
                                              {gate_gradient, up_gradient});
    }
  });
}
void run_on_cuda(const CudaContext& context, const Scale& call) {
  run_elementwise<MultiplyBy>(context, {call.x}, {call.out}, {call.factor});
}
void run_on_cuda(const CudaContext& context, const DivideByNorm& call) {
  with_storage_type(call.x.dtype, [&](auto element) {
    using T = decltype(element);
    run_elementwise(context, Elementwise<DivideBy<T>, T, T>{call.x.rows,
                                                            call.x.columns,
                                                            {rows_of<const T>(call.x)},
                                                            {rows_of<T>(call.out)},
                                                            {call.squares, call.least}});
  });
}
void run_on_cuda(const CudaContext& context, const Blend& call) {
  if (call.x.elements() == 0) return;
  with_storage_type(call.x.dtype, [&](auto element) {
    using T = decltype(element);
    const bool joined = call.x.contiguous() && call.sums.contiguous() && call.out.contiguous();
    const Blended<T> blended = {.elements = call.x.elements(),
                                .columns = joined ? call.x.elements() : call.x.columns,
                                .x = rows_of<const T>(call.x),
                                .sums = rows_of<const float>(call.sums),
                                .out = rows_of<T>(call.out),
                                .x_factor = call.x_factor,
                                .sums_factor = call.sums_factor};
    constexpr int kMost = 16 / sizeof(float);
    with_run<kMost>(
        blended.columns,
        [&](auto run) {
          const std::int64_t blocks = divide_rounding_up(blended.elements, kElementThreads * run);
          launch(blend_kernel<run, T>, dim3(static_cast<unsigned>(blocks)), dim3(kElementThreads), 0,
                 context.stream, blended);
        },
        blended.x, blended.sums, blended.out);
  });
}
void run_on_cuda(const CudaContext& context, const Addition& call) {
  const auto& [a, b, out] = call;
  run_elementwise<Add>(context, {a, b}, {out});
}
void run_on_cuda(const CudaContext& context, const Cast& call) {
  const auto& [x, out] = call;
  with_storage_type(x.dtype, [&](auto in) {
    with_storage_type(out.dtype, [&](auto element) {
      using In = decltype(in);
      using Out = decltype(element);
      run_elementwise(context, Elementwise<Copy, In, Out>{
                                   x.rows, x.columns, {rows_of<const In>(x)}, {rows_of<Out>(out)}, {}});
    });
  });
}
void run_on_cuda(const CudaContext& context, const Zero& call) {
  const auto& [x] = call;
  run_elementwise<SetZero>(context, {}, {x});
}

}  // namespace strata
