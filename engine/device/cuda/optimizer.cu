// Updates and sums of squares with the bits of the CPU's optim/update.cpp and optim/gradient_norm.cpp, so
// that a tensor's update may run on either. An update rounds every operation by itself; a sum of squares adds
// doubles in the CPU's order.
#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "base/storage_type.h"
#include "engine/device/cuda/context.h"
#include "engine/device/cuda/element.cuh"
#include "engine/device/cuda/launch.cuh"
#include "engine/device/state_calls.h"
#include "optim/moment_codes.h"
#include "optim/stochastic_rounding.h"

namespace strata {
namespace {

constexpr int kUpdateThreads = 256;

template <typename Coefficients, int moment_count, typename Precision, typename Master, typename Stored>
struct Update {
  static constexpr int count = moment_count;
  static constexpr int kMemory = count > 0 ? count : 1;  ///< C++ has no arrays of nothing
  static constexpr bool kSplit = std::is_same_v<Master, Remainder>;
  /// Beside the master.
  static constexpr bool kParameter = !std::is_same_v<Precision, float> && !std::is_same_v<Master, bfloat16>;
  /// Elements of one thread: 16 bytes of the arrays with the largest ones.
  static constexpr int kRun =
      16 / static_cast<int>(std::max({sizeof(Precision), sizeof(Master), sizeof(Stored)}));
  using Parameter = Precision;
  using StoredMoment = Stored;

  const std::uint32_t* skip;
  const Coefficients* step;
  Master* master;
  Stored* moments[kMemory];
  const Precision* gradient;
  Precision* parameter;
  std::int64_t elements;
  std::uint32_t unit, first;  ///< name the random bits
};

/// Adam's moments get the gradient; returns what a step is divided by. For AdamW and AdEMAMix.
template <typename Coefficients>
__device__ float adam_denominator(const Coefficients& s, float gradient, float& exp_avg, float& exp_avg_sq) {
  exp_avg = __fadd_rn(__fmul_rn(s.beta1, exp_avg), __fmul_rn(s.one_minus_beta1, gradient));
  exp_avg_sq =
      __fadd_rn(__fmul_rn(s.beta2, exp_avg_sq), __fmul_rn(s.one_minus_beta2, __fmul_rn(gradient, gradient)));
  return __fadd_rn(__fmul_rn(__fsqrt_rn(exp_avg_sq), s.inverse_correction2), s.epsilon);
}

/// See optim/update_rule.h for the formulas. Explicit roundings keep the compiler from fusing.
template <int count>
__device__ void update_element(const AdamWCoefficients& s, float stored_gradient, float& master,
                               float* moments) {
  float& exp_avg = moments[0];
  const float gradient = __fmul_rn(stored_gradient, s.gradient_scale);
  const float denominator = adam_denominator(s, gradient, exp_avg, moments[1]);
  master = __fsub_rn(__fmul_rn(s.keep, master), __fmul_rn(s.step_size, __fdiv_rn(exp_avg, denominator)));
}

template <int count>
__device__ void update_element(const AdemamixCoefficients& s, float stored_gradient, float& master,
                               float* moments) {
  float &exp_avg = moments[0], &exp_avg_slow = moments[2];
  const float gradient = __fmul_rn(stored_gradient, s.gradient_scale);
  const float denominator = adam_denominator(s, gradient, exp_avg, moments[1]);
  exp_avg_slow = __fadd_rn(__fmul_rn(s.beta3, exp_avg_slow), __fmul_rn(s.one_minus_beta3, gradient));
  const float mixture =
      __fadd_rn(__fmul_rn(exp_avg, s.inverse_correction1), __fmul_rn(s.alpha, exp_avg_slow));
  master = __fsub_rn(__fmul_rn(s.keep, master), __fmul_rn(s.learning_rate, __fdiv_rn(mixture, denominator)));
}

/// The gradient with what decays the weights, for SgdCoefficients and RootCoefficients.
template <typename Coefficients>
__device__ float decayed(const Coefficients& s, float stored_gradient, float master) {
  return __fadd_rn(__fmul_rn(stored_gradient, s.gradient_scale), __fmul_rn(s.weight_decay, master));
}

/// `count`: 1 with momentum, else 0.
template <int count>
__device__ void update_element(const SgdCoefficients& s, float stored_gradient, float& master,
                               float* moments) {
  float change = decayed(s, stored_gradient, master);
  if constexpr (count == 1) change = moments[0] = __fadd_rn(__fmul_rn(s.momentum, moments[0]), change);
  master = __fsub_rn(master, __fmul_rn(s.learning_rate, change));
}

template <int count>
__device__ void update_element(const LionCoefficients& s, float stored_gradient, float& master,
                               float* moments) {
  float& exp_avg = moments[0];
  const float gradient = __fmul_rn(stored_gradient, s.gradient_scale);
  const float direction = __fadd_rn(__fmul_rn(s.beta1, exp_avg), __fmul_rn(s.one_minus_beta1, gradient));
  exp_avg = __fadd_rn(__fmul_rn(s.beta2, exp_avg), __fmul_rn(s.one_minus_beta2, gradient));
  const float sign = (direction > 0 ? 1.0F : 0.0F) - (direction < 0 ? 1.0F : 0.0F);
  master = __fsub_rn(__fmul_rn(s.keep, master), __fmul_rn(s.learning_rate, sign));
}

/// `direction`: what stands in the gradient's place.
template <int count>
__device__ void update_element(const DirectionCoefficients& s, float direction, float& master,
                               float* /*none*/) {
  master = __fsub_rn(__fmul_rn(s.keep, master), __fmul_rn(s.learning_rate, direction));
}

/// `count`: 2 with momentum, else 1.
template <int count>
__device__ void update_element(const RootCoefficients& s, float stored_gradient, float& master,
                               float* moments) {
  float& squares = moments[count - 1];
  const float gradient = decayed(s, stored_gradient, master);
  squares =
      __fadd_rn(__fmul_rn(s.keep_squares, squares), __fmul_rn(s.add_square, __fmul_rn(gradient, gradient)));
  float change = __fdiv_rn(gradient, __fadd_rn(__fsqrt_rn(squares), s.epsilon));
  if constexpr (count == 2) change = moments[0] = __fadd_rn(__fmul_rn(s.momentum, moments[0]), change);
  master = __fsub_rn(master, __fmul_rn(s.learning_rate, change));
}

template <typename Precision>
__device__ float load_master(float master, const Precision& /*parameter*/) {
  return master;
}
__device__ float load_master(Remainder remainder, const bfloat16& parameter) {
  return join_master(parameter, remainder);
}
__device__ float load_master(bfloat16 master, const bfloat16& /*none beside it*/) {
  return to_float(master);
}

template <typename Precision>
__device__ void store_master(float value, std::uint32_t /*random*/, float& master, Precision& parameter) {
  master = value;
  parameter = from_float<Precision>(value);
}
__device__ void store_master(float value, std::uint32_t random, bfloat16& master, bfloat16& /*none*/) {
  master = round_stochastically(value, random_half_of_master(random));
}
__device__ void store_master(float value, std::uint32_t /*random*/, Remainder& remainder,
                             bfloat16& parameter) {
  // The GPU's NaN has all bits of its payload set, and its high half rounded up would be a zero.
  const SplitMaster halves = split_master(value == value ? value : std::bit_cast<float>(0x7fc00000U));
  parameter = halves.parameter;
  remainder = halves.remainder;
}

__device__ void store_moment(float value, std::uint32_t /*random*/, float& moment) {
  moment = value;
}
__device__ void store_moment(float value, std::uint32_t random, bfloat16& moment) {
  moment = round_stochastically(value, random);
}

/// Elements [first, first + run).
template <int run, typename Types>
__device__ void update_run(const Types& x, std::int64_t first) {
  const auto& s = *x.step;
  const auto gradient = load_run<run>(x.gradient + first);
  auto masters = load_run<run>(x.master + first);
  Run<typename Types::StoredMoment, run> stored[Types::kMemory];
#pragma unroll
  for (int k = 0; k < Types::count; ++k) stored[k] = load_run<run>(x.moments[k] + first);
  Run<typename Types::Parameter, run> parameter;
  if constexpr (Types::kSplit) parameter = load_run<run>(x.parameter + first);
  const std::uint32_t counter =
      rounding_key(s.rounding, x.unit) + x.first + static_cast<std::uint32_t>(first);
#pragma unroll
  for (int i = 0; i < run; ++i) {
    float master = load_master(masters.values[i], parameter.values[i]);
    float moments[Types::kMemory];
#pragma unroll
    for (int k = 0; k < Types::count; ++k) moments[k] = to_float(stored[k].values[i]);
    update_element<Types::count>(s, to_float(gradient.values[i]), master, moments);
    const std::uint32_t random = mix_bits(counter + static_cast<std::uint32_t>(i));
    store_master(master, random, masters.values[i], parameter.values[i]);
#pragma unroll
    for (int k = 0; k < Types::count; ++k)
      store_moment(moments[k], random_half(random, k), stored[k].values[i]);
  }
  store_run(masters, x.master + first);
#pragma unroll
  for (int k = 0; k < Types::count; ++k) store_run(stored[k], x.moments[k] + first);
  if constexpr (Types::kParameter) store_run(parameter, x.parameter + first);
}

/// As round_masters() of optim/update.h.
template <int run, typename Types>
__device__ void round_run(const Types& x, std::int64_t first) {
  if constexpr (Types::kParameter && !Types::kSplit) {
    using Parameter = typename Types::Parameter;
    const auto masters = load_run<run>(x.master + first);
    Run<Parameter, run> parameter;
#pragma unroll
    for (int i = 0; i < run; ++i) parameter.values[i] = from_float<Parameter>(masters.values[i]);
    store_run(parameter, x.parameter + first);
  }
}

template <int run, typename Types>
__device__ void perform_run(const Types& x, std::int64_t first) {
  if (*x.skip != 0) {
    round_run<run>(x, first);
  } else {
    update_run<run>(x, first);
  }
}

/// Blocks that a multiprocessor has at once. With three moments a thread needs more registers.
template <typename Types>
constexpr int kUpdateBlocks = Types::count > 2 ? 4 : 5;

/// `run`: Types::kRun if every array is aligned for it, or 1.
template <int run, typename Types>
__global__ void __launch_bounds__(kUpdateThreads, kUpdateBlocks<Types>) update_kernel(Types x) {
  const std::int64_t first = (std::int64_t{blockIdx.x} * kUpdateThreads + threadIdx.x) * run;
  if (first + run <= x.elements) {
    perform_run<run>(x, first);
  } else {
#pragma unroll 1  // the end: unrolled it would be most of the code
    for (std::int64_t i = first; i < x.elements; ++i) perform_run<1>(x, i);
  }
}

/// Starts the kernel whose threads have Types::kRun elements, if every array is aligned for it, or else that
/// whose threads have one.
template <typename Types>
void launch_runs(const CudaContext& context, const Types& x, bool aligned, void (*by_runs)(Types),
                 void (*by_elements)(Types)) {
  const std::int64_t run = aligned ? Types::kRun : 1;
  const std::int64_t blocks = divide_rounding_up(x.elements, kUpdateThreads * run);
  launch(aligned ? by_runs : by_elements, dim3(static_cast<unsigned>(blocks)), dim3(kUpdateThreads), 0,
         context.stream, x);
}

/// Without moments.
template <typename Types, typename Coefficients>
Types update_of(const ParameterUpdate& call, const Coefficients& step) {
  const OptimizerState& state = call.state;
  return {.skip = call.skip,
          .step = &step,
          .master = static_cast<decltype(Types::master)>(state.master),
          .moments = {},
          .gradient = static_cast<decltype(Types::gradient)>(state.gradient),
          .parameter = static_cast<decltype(Types::parameter)>(state.parameter),
          .elements = state.elements,
          .unit = state.unit,
          .first = static_cast<std::uint32_t>(state.first)};
}

template <int count, typename Precision, typename Master, typename Stored, typename Coefficients>
void update_of_types(const CudaContext& context, const ParameterUpdate& call, const Coefficients& step) {
  using Types = Update<Coefficients, count, Precision, Master, Stored>;
  const OptimizerState& state = call.state;
  auto x = update_of<Types>(call, step);
  constexpr int kRun = Types::kRun;
  bool aligned = is_aligned<kRun>(x.master) && is_aligned<kRun>(x.gradient) && is_aligned<kRun>(x.parameter);
  const Moments stepped = stepped_moments(state.rule);
  for (int k = 0; k < count; ++k) {
    x.moments[k] = static_cast<Stored*>(state.of(stepped.at(k)));
    aligned = aligned && is_aligned<kRun>(x.moments[k]);
  }
  launch_runs(context, x, aligned, update_kernel<kRun, Types>, update_kernel<1, Types>);
}

/// Moments in codes, and the stretch of their elements that a kernel changes.
template <int moment_count>
struct CodedMoments {
  static constexpr int count = moment_count;
  std::uint8_t* blocks[count];  ///< those that the elements lie in
  bfloat16* slow[count];        ///< null, or elements that are not coded
  MomentCodes codes[count];
  std::int64_t before;    ///< elements of the first block that lie before the stretch
  std::int64_t elements;  ///< of the stretch
  std::uint32_t unit, first;

  CodedMoments(const OptimizerState& state, Moments moments)
      : before(state.first % kCodedBlock),
        elements(state.elements),
        unit(state.unit),
        first(static_cast<std::uint32_t>(state.first)) {
    for (int k = 0; k < count; ++k) {
      void* const memory = state.of(moments.at(k));
      const bool is_coded = state.format.format_of(moments.at(k)) == MomentFormat::coded;
      blocks[k] = is_coded ? static_cast<std::uint8_t*>(memory) : nullptr;
      slow[k] = is_coded ? nullptr : static_cast<bfloat16*>(memory);
      codes[k] = codes_of(moments.at(k));
    }
  }
  __host__ __device__ std::int64_t in_blocks() const {
    return divide_rounding_up(before + elements, kCodedBlock) * kCodedBlock;
  }
  unsigned thread_blocks() const {
    return static_cast<unsigned>(divide_rounding_up(in_blocks(), kUpdateThreads));
  }
};

__device__ float number_of_code(MomentCodes codes, std::uint8_t code, std::uint32_t exponent) {
  return codes == MomentCodes::squares ? decode_number<MomentCodes::squares>(code, exponent)
                                       : decode_number<MomentCodes::with_sign>(code, exponent);
}

__device__ std::uint8_t code_of_number(MomentCodes codes, float value, std::uint32_t exponent,
                                       std::uint32_t random) {
  return codes == MomentCodes::squares ? encode_number<MomentCodes::squares>(value, exponent, random)
                                       : encode_number<MomentCodes::with_sign>(value, exponent, random);
}

/// The largest magnitude of a group, whose elements neighbouring lanes have; infinite or NaN if one is.
__device__ float largest_of_group(float value) {
  std::uint32_t largest = std::bit_cast<std::uint32_t>(value) & 0x7fffffffU;
  for (int distance = static_cast<int>(kCodedGroup) / 2; distance > 0; distance /= 2)
    largest = std::max(largest, __shfl_xor_sync(0xffffffffU, largest, distance));
  return std::bit_cast<float>(largest);
}

/// A thread's element of whole blocks: change(its index in the stretch, its random word, its moments) if it
/// lies in that. All threads of a block must call this.
template <typename Moments, typename Change>
__device__ void change_moments(const Moments& x, std::uint32_t rounding, const Change& change) {
  const std::int64_t at = std::int64_t{blockIdx.x} * kUpdateThreads + threadIdx.x, i = at - x.before;
  const bool is_there = at < x.in_blocks();
  const std::int64_t code = coded_offset(at) + at % kCodedBlock;
  const std::int64_t exponent = coded_offset(at) + kCodedBlock + at % kCodedBlock / kCodedGroup;
  const bool is_changed = i >= 0 && i < x.elements;
  float values[Moments::count] = {};
#pragma unroll
  for (int k = 0; k < Moments::count; ++k) {
    if (x.slow[k] == nullptr) {
      if (is_there) values[k] = number_of_code(x.codes[k], x.blocks[k][code], x.blocks[k][exponent]);
    } else if (is_changed) {
      values[k] = to_float(x.slow[k][i]);
    }
  }
  const std::uint32_t random =
      mix_bits(rounding_key(rounding, x.unit) + x.first + static_cast<std::uint32_t>(i));
  if (is_changed) change(i, random, values);
#pragma unroll
  for (int k = 0; k < Moments::count; ++k) {
    if (x.slow[k] != nullptr) {
      if (is_changed) x.slow[k][i] = round_stochastically(values[k], random_half(random, k));
      continue;
    }
    const std::uint32_t of_group = group_exponent(largest_of_group(values[k]));
    if (!is_there) continue;
    x.blocks[k][code] = code_of_number(x.codes[k], values[k], of_group, random_half(random, k));
    if (at % kCodedGroup == 0) x.blocks[k][exponent] = static_cast<std::uint8_t>(of_group);
  }
}

template <typename Types>
__global__ void __launch_bounds__(kUpdateThreads)
    coded_update_kernel(Types x, CodedMoments<Types::count> moments) {
  if (*x.skip != 0) {
    const std::int64_t i = std::int64_t{blockIdx.x} * kUpdateThreads + threadIdx.x;
    if (i < x.elements) round_run<1>(x, i);
    return;
  }
  const auto& s = *x.step;
  change_moments(moments, s.rounding, [&](std::int64_t i, std::uint32_t random, float* values) {
    typename Types::Parameter parameter = {};
    if constexpr (Types::kSplit) parameter = x.parameter[i];
    float master = load_master(x.master[i], parameter);
    update_element<Types::count>(s, to_float(x.gradient[i]), master, values);
    store_master(master, random, x.master[i], parameter);
    if constexpr (Types::kParameter) x.parameter[i] = parameter;
  });
}

template <int count, typename Precision, typename Master, typename Coefficients>
void update_coded(const CudaContext& context, const ParameterUpdate& call, const Coefficients& step) {
  const OptimizerState& state = call.state;
  using Types = Update<Coefficients, count, Precision, Master, float>;
  const CodedMoments<count> moments(state, stepped_moments(state.rule));
  launch(coded_update_kernel<Types>, dim3(moments.thread_blocks()), dim3(kUpdateThreads), 0, context.stream,
         update_of<Types>(call, step), moments);
}

template <typename Master, typename Stored>
struct Average {
  const std::uint32_t* skip;
  const AverageCoefficients* step;
  const Master* master;
  const bfloat16* parameter;  ///< of a split master
  Stored* average;
  std::int64_t elements;
  std::uint32_t unit, first;  ///< name the random bits
};

/// As average() of optim/average.h.
template <typename Master, typename Stored>
__global__ void __launch_bounds__(kUpdateThreads) average_kernel(Average<Master, Stored> x) {
  const std::int64_t i = std::int64_t{blockIdx.x} * kUpdateThreads + threadIdx.x;
  if (*x.skip != 0 || x.step->weight == 0 || i >= x.elements) return;
  bfloat16 parameter = {};
  if constexpr (std::is_same_v<Master, Remainder>) parameter = x.parameter[i];
  const float before = to_float(x.average[i]);
  const float difference = __fsub_rn(load_master(x.master[i], parameter), before);
  const std::uint32_t counter = rounding_key(x.step->rounding, x.unit) + x.first;
  store_moment(__fadd_rn(before, __fmul_rn(x.step->weight, difference)),
               mix_bits(counter + static_cast<std::uint32_t>(i)) & 0xffffU, x.average[i]);
}

template <typename Master, typename Stored>
void average_of_types(const CudaContext& context, const ParameterUpdate& call) {
  const OptimizerState& state = call.state;
  const Average<Master, Stored> x = {.skip = call.skip,
                                     .step = call.average,
                                     .master = static_cast<const Master*>(state.master),
                                     .parameter = static_cast<const bfloat16*>(state.parameter),
                                     .average = static_cast<Stored*>(state.of(Moment::ema)),
                                     .elements = state.elements,
                                     .unit = state.unit,
                                     .first = static_cast<std::uint32_t>(state.first)};
  const std::int64_t blocks = divide_rounding_up(x.elements, kUpdateThreads);
  launch(average_kernel<Master, Stored>, dim3(static_cast<unsigned>(blocks)), dim3(kUpdateThreads), 0,
         context.stream, x);
}

void average_on_cuda(const CudaContext& context, const ParameterUpdate& call) {
  const auto with_master = [&](auto master) {
    if (call.state.format.average == MomentFormat::bf16) {
      average_of_types<decltype(master), bfloat16>(context, call);
    } else {
      average_of_types<decltype(master), float>(context, call);
    }
  };
  switch (call.state.format.master) {
    case MasterFormat::fp32:
      return with_master(float());
    case MasterFormat::split:
      return with_master(Remainder());
    case MasterFormat::none:
      return with_master(bfloat16());
  }
}

template <typename Precision, typename Stored>
struct Momentum {
  static constexpr int kRun = 16 / static_cast<int>(std::max(sizeof(Precision), sizeof(Stored)));

  const std::uint32_t* skip;
  const DirectionCoefficients* step;
  const Precision* gradient;
  Precision* direction;
  Stored* buffer;
  std::int64_t elements;
  std::uint32_t unit, first;  ///< name the random bits
};

/// As mix_momentum() of optim/momentum.h: changes the buffer, and gives the direction.
template <typename Precision>
__device__ Precision mix_element(const DirectionCoefficients& s, Precision stored_gradient, float& buffer) {
  const float gradient = __fmul_rn(to_float(stored_gradient), s.gradient_scale);
  buffer = __fadd_rn(buffer, __fmul_rn(s.new_part, __fsub_rn(gradient, buffer)));
  const float direction = __fsub_rn(buffer, __fmul_rn(s.new_part, __fsub_rn(buffer, gradient)));
  return from_float<Precision>(__fdiv_rn(direction, s.gradient_scale));
}

/// Elements [first, first + run).
template <int run, typename Types>
__device__ void mix_run(const Types& x, std::int64_t first) {
  const auto& s = *x.step;
  auto gradients = load_run<run>(x.gradient + first);
  auto buffers = load_run<run>(x.buffer + first);
  const std::uint32_t counter =
      rounding_key(s.rounding, x.unit) + x.first + static_cast<std::uint32_t>(first);
#pragma unroll
  for (int i = 0; i < run; ++i) {
    float buffer = to_float(buffers.values[i]);
    gradients.values[i] = mix_element(s, gradients.values[i], buffer);
    store_moment(buffer, random_half(mix_bits(counter + static_cast<std::uint32_t>(i)), 0),
                 buffers.values[i]);
  }
  store_run(gradients, x.direction + first);
  store_run(buffers, x.buffer + first);
}

template <typename Types>
__global__ void __launch_bounds__(kUpdateThreads) coded_momentum_kernel(Types x, CodedMoments<1> moments) {
  if (*x.skip != 0) return;
  change_moments(moments, x.step->rounding, [&](std::int64_t i, std::uint32_t /*random*/, float* buffer) {
    x.direction[i] = mix_element(*x.step, x.gradient[i], *buffer);
  });
}

/// `run`: Types::kRun if every array is aligned for it, or 1.
template <int run, typename Types>
__global__ void __launch_bounds__(kUpdateThreads) momentum_kernel(Types x) {
  if (*x.skip != 0) return;
  const std::int64_t first = (std::int64_t{blockIdx.x} * kUpdateThreads + threadIdx.x) * run;
  if (first + run <= x.elements) {
    mix_run<run>(x, first);
  } else {
#pragma unroll 1  // the end: unrolled it would be most of the code
    for (std::int64_t i = first; i < x.elements; ++i) mix_run<1>(x, i);
  }
}

/// Without the buffer.
template <typename Types>
Types momentum_of(const MomentumMix& call) {
  const OptimizerState& state = call.state;
  return {.skip = call.skip,
          .step = &call.step->direction,  // only an address, in the device's memory
          .gradient = static_cast<decltype(Types::gradient)>(state.gradient),
          .direction = static_cast<decltype(Types::direction)>(call.direction.data),
          .buffer = nullptr,
          .elements = state.elements,
          .unit = state.unit,
          .first = static_cast<std::uint32_t>(state.first)};
}

template <typename Precision>
void mix_coded(const CudaContext& context, const MomentumMix& call) {
  using Types = Momentum<Precision, float>;
  const CodedMoments<1> moments(call.state, Moments{kMixedMoment});
  launch(coded_momentum_kernel<Types>, dim3(moments.thread_blocks()), dim3(kUpdateThreads), 0, context.stream,
         momentum_of<Types>(call), moments);
}

template <typename Precision, typename Stored>
void mix_of_types(const CudaContext& context, const MomentumMix& call) {
  using Types = Momentum<Precision, Stored>;
  auto x = momentum_of<Types>(call);
  x.buffer = static_cast<Stored*>(call.state.of(kMixedMoment));
  constexpr int kRun = Types::kRun;
  const bool aligned =
      is_aligned<kRun>(x.gradient) && is_aligned<kRun>(x.direction) && is_aligned<kRun>(x.buffer);
  launch_runs(context, x, aligned, momentum_kernel<kRun, Types>, momentum_kernel<1, Types>);
}

constexpr std::int64_t kBlock = 64 * 1024;  ///< elements of one partial sum, as in optim/gradient_norm.cpp
constexpr int kAccumulators = 32;           ///< of a block: element i goes to accumulator i mod 32
constexpr int kSquareThreads = 256;
constexpr int kLoads = 16;  ///< elements that a thread has in flight
constexpr int kTile = kSquareThreads * kLoads;

/// The part of a tile that a thread loads: every kSquareThreads-th run.
template <int run, typename T>
struct TilePart {
  static constexpr int kRuns = kLoads / run;
  Bits<T, run> runs[kRuns] = {};

  __device__ static int offset(int i) { return (i * kSquareThreads + static_cast<int>(threadIdx.x)) * run; }

  /// Zeros beyond the end.
  __device__ void load(const T* from, std::int64_t available) {
#pragma unroll
    for (int i = 0; i < kRuns; ++i) {
      if (offset(i) + run <= available) {
        runs[i] = load_bits<run>(from + offset(i));
      } else {
        Run<T, run> end = {};
#pragma unroll
        for (int k = 0; k < run; ++k) {
          if (offset(i) + k < available) end.values[k] = from[offset(i) + k];
        }
        runs[i] = std::bit_cast<Bits<T, run>>(end);
      }
    }
  }
  __device__ void store(T (&tile)[kTile]) const {
#pragma unroll
    for (int i = 0; i < kRuns; ++i)
      *reinterpret_cast<Run<T, run>*>(tile + offset(i)) = std::bit_cast<Run<T, run>>(runs[i]);
  }
};

/// partial[b] = sum of squares of block b. The first warp adds, a lane per accumulator, while the loads of
/// the next tile by all warps are under way. Zeros beyond the end change nothing: no sum is ever -0.
template <int run, typename T>
__global__ void __launch_bounds__(kSquareThreads, 4)
    block_squares_kernel(const T* values, std::int64_t elements, double* partial) {
  alignas(16) __shared__ T tiles[2][kTile];
  const T* from = values + blockIdx.x * kBlock;
  const std::int64_t available = std::min(std::int64_t{kBlock}, elements - blockIdx.x * kBlock);
  TilePart<run, T> loaded;
  loaded.load(from, available);
  double sum = 0;
  for (std::int64_t first = 0; first < available; first += kTile) {
    T(&tile)[kTile] = tiles[first / kTile % 2];
    loaded.store(tile);
    loaded.load(from + first + kTile, available - first - kTile);
    __syncthreads();  // also: the first warp is done with the other tile, which is written next
    if (threadIdx.x < kAccumulators) {
#pragma unroll 16
      for (int i = 0; i < kTile; i += kAccumulators) {
        const auto value = static_cast<double>(to_float(tile[i + threadIdx.x]));
        sum += value * value;  // exact in double, so that fusing it changes nothing
      }
    }
  }
  if (threadIdx.x >= kAccumulators) return;
  for (int width = kAccumulators / 2; width > 0; width /= 2) {
    sum += __shfl_down_sync(0xffffffffU, sum, static_cast<unsigned>(width));
  }
  if (threadIdx.x == 0) partial[blockIdx.x] = sum;
}

constexpr int kTreeThreads = 512;

/// Node `index` of the 2^level nodes of a level: blocks [begin, end).
struct TreeNode {
  __device__ TreeNode(std::int64_t blocks, int level, std::int64_t index) : begin(0), end(blocks) {
    for (int bit = level - 1; bit >= 0; --bit) (index >> bit & 1 ? begin : end) = middle();
  }
  __device__ std::int64_t middle() const { return begin + (end - begin) / 2; }
  std::int64_t begin, end;
};

/// Adds partial sums in the tree of TBB's deterministic reduction, which halves ranges down to one block. A
/// node's sum takes the place of its first block's.
__global__ void __launch_bounds__(kTreeThreads)
    tree_sum_kernel(double* partial, std::int64_t blocks, int levels, double* sum, bool accumulate) {
  for (int level = levels - 1; level >= 0; --level) {
    for (std::int64_t index = threadIdx.x; index < std::int64_t{1} << level; index += kTreeThreads) {
      const TreeNode node(blocks, level, index);
      if (node.end - node.begin > 1) partial[node.begin] += partial[node.middle()];
    }
    __syncthreads();
  }
  if (threadIdx.x != 0) return;
  const double added = blocks > 0 ? partial[0] : 0.0;
  *sum = accumulate ? *sum + added : added;
}

template <typename T>
void sum_of_squares_of_type(const CudaContext& context, const SumOfSquares& call) {
  const auto& [x, sum, accumulate] = call;
  const std::int64_t blocks = divide_rounding_up(x.columns, kBlock);
  std::byte* scratch = context.scratch.at_least(scratch_on_cuda(call));
  auto* partial = reinterpret_cast<double*>(scratch);
  if (blocks > 0) {
    const auto* values = x.row<const T>(0);
    constexpr int kRun = 16 / sizeof(T);
    launch(is_aligned<kRun>(values) ? block_squares_kernel<kRun, T> : block_squares_kernel<1, T>,
           dim3(static_cast<unsigned>(blocks)), dim3(kSquareThreads), 0, context.stream, values, x.columns,
           partial);
  }
  int levels = 0;
  while (std::int64_t{1} << levels < blocks) ++levels;
  launch(tree_sum_kernel, dim3(1), dim3(kTreeThreads), 0, context.stream, partial, blocks, levels, sum,
         accumulate);
}

}  // namespace

void run_on_cuda(const CudaContext& context, const ParameterUpdate& call) {
  if (call.state.elements == 0) return;
  with_rule(call.state.rule, [&](auto rule) {
    with_state_types(call.state.precision, call.state.format, [&](auto precision, auto master, auto moment) {
      constexpr int kCount = stepped_moments(decltype(rule)::value).count();
      // If there are none, one type stands for both.
      using Stored = std::conditional_t<kCount == 0, float, decltype(moment)>;
      // Only an address, in the device's memory.
      const auto& step = call.step->template of<decltype(rule)::value>();
      if constexpr (kCount > 0 && std::is_same_v<Stored, float>) {
        if (call.state.format.moments == MomentFormat::coded)
          return update_coded<kCount, decltype(precision), decltype(master)>(context, call, step);
      }
      update_of_types<kCount, decltype(precision), decltype(master), Stored>(context, call, step);
    });
  });
  if (call.average != nullptr && call.state.of(Moment::ema) != nullptr) average_on_cuda(context, call);
}

void run_on_cuda(const CudaContext& context, const MomentumMix& call) {
  if (call.state.elements == 0) return;
  with_storage_type(call.state.precision, [&](auto precision) {
    switch (call.state.format.moments) {
      case MomentFormat::fp32:
        return mix_of_types<decltype(precision), float>(context, call);
      case MomentFormat::bf16:
        return mix_of_types<decltype(precision), bfloat16>(context, call);
      case MomentFormat::coded:
        return mix_coded<decltype(precision)>(context, call);
    }
  });
}

Bytes scratch_on_cuda(const SumOfSquares& call) {
  return std::max<Bytes>(1, divide_rounding_up(call.x.columns, kBlock)) * static_cast<Bytes>(sizeof(double));
}

void run_on_cuda(const CudaContext& context, const SumOfSquares& call) {
  with_storage_type(call.x.dtype,
                    [&](auto element) { sum_of_squares_of_type<decltype(element)>(context, call); });
}

}  // namespace strata
