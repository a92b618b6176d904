// Compiled once per instruction set by foreach_target, as update_kernel.cpp: the same operations on all, so
// the same bits, and stretches shorter than a vector go through a buffer.
#include "optim/momentum.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <type_traits>

#include "base/storage_type.h"
#include "optim/state_parts.h"
#include "optim/stochastic_rounding.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "optim/momentum.cpp"
#include <hwy/foreach_target.h>  // IWYU pragma: keep

#include <hwy/highway.h>

#include "base/storage_vectors-inl.h"
#include "optim/state_vectors-inl.h"

HWY_BEFORE_NAMESPACE();
namespace strata::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using FloatTag = hn::ScalableTag<float>;
using FloatVector = hn::Vec<FloatTag>;

/// Where two vectors of elements are.
template <class Precision, class Stored>
struct MomentumAt {
  const Precision* gradient;
  Precision* direction;
  Stored* buffer;
  std::uint32_t counter;  ///< names the random bits of the first element

  MomentumAt from(std::int64_t i) const {
    return {gradient + i, direction + i, buffer + i, counter + static_cast<std::uint32_t>(i)};
  }
};

/// Changes the buffer, and gives the direction.
HWY_INLINE FloatVector mixed(const DirectionCoefficients& s, FloatVector stored_gradient,
                             FloatVector& buffer) {
  const FloatTag d;
  const auto part = hn::Set(d, s.new_part), scale = hn::Set(d, s.gradient_scale);
  const auto gradient = hn::Mul(stored_gradient, scale);
  buffer = hn::Add(buffer, hn::Mul(part, hn::Sub(gradient, buffer)));
  return hn::Div(hn::Sub(buffer, hn::Mul(part, hn::Sub(buffer, gradient))), scale);
}

template <class Precision, class Stored>
HWY_INLINE void mix(const DirectionCoefficients& s, const MomentumAt<Precision, Stored>& at) {
  const FloatTag d;
  constexpr Order kOrder = Order::in_turn;
  const auto gradient = load_two<kOrder>(d, at.gradient);
  auto buffer = load_two<kOrder>(d, at.buffer);
  const FloatVector first = mixed(s, gradient.first, buffer.first);
  const Two<FloatVector> direction = {first, mixed(s, gradient.second, buffer.second)};
  if constexpr (std::is_same_v<Stored, float>) {
    store_floats<kOrder>(d, buffer, at.buffer);
  } else {
    store_rounded<false, kOrder, 0>(d, buffer, random_bits<kOrder>(d, at.counter), at.buffer);
  }
  if constexpr (std::is_same_v<Precision, float>) {
    store_floats<kOrder>(d, direction, at.direction);
  } else {
    store_two<Stores::cached, false, kOrder>(d, direction, at.direction);
  }
}

/// At most two vectors of elements: through a buffer.
template <class Precision, class Stored>
void mix_partial(const DirectionCoefficients& s, const MomentumAt<Precision, Stored>& at, std::size_t count) {
  constexpr std::size_t kLanes = 2 * hn::MaxLanes(FloatTag());
  HWY_ALIGN Precision gradient[kLanes] = {};
  HWY_ALIGN Stored buffer[kLanes] = {};
  std::memcpy(gradient, at.gradient, count * sizeof(Precision));
  std::memcpy(buffer, at.buffer, count * sizeof(Stored));
  mix(s, MomentumAt<Precision, Stored>{gradient, gradient, buffer, at.counter});
  std::memcpy(at.direction, gradient, count * sizeof(Precision));
  std::memcpy(at.buffer, buffer, count * sizeof(Stored));
}

void mix_all(const DirectionCoefficients& s, const OptimizerState& state, void* direction) {
  with_state_types(state.precision, state.format,
                   [&]<class Precision, class Master, class Stored>(Precision, Master, Stored) HWY_ATTR {
                     const MomentumAt<Precision, Stored> all = {
                         static_cast<const Precision*>(state.gradient), static_cast<Precision*>(direction),
                         static_cast<Stored*>(state.of(Moment::momentum_buffer)),
                         rounding_key(s.rounding, state.unit) + static_cast<std::uint32_t>(state.first)};
                     const auto step = 2 * static_cast<std::int64_t>(hn::Lanes(FloatTag()));
                     std::int64_t i = 0;
                     for (; i + step <= state.elements; i += step) mix(s, all.from(i));
                     if (i < state.elements)
                       mix_partial(s, all.from(i), static_cast<std::size_t>(state.elements - i));
                   });
}

}  // namespace strata::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace strata {
namespace {

HWY_EXPORT(mix_all);

template <typename Precision, typename Stored>
void mix_plainly(const DirectionCoefficients& s, const OptimizerState& state, Precision* direction) {
  const auto* gradients = static_cast<const Precision*>(state.gradient);
  auto* buffers = static_cast<Stored*>(state.of(Moment::momentum_buffer));
  const std::uint32_t key = rounding_key(s.rounding, state.unit) + static_cast<std::uint32_t>(state.first);
  for (std::int64_t i = 0; i < state.elements; ++i) {
    const float gradient = static_cast<float>(gradients[i]) * s.gradient_scale;
    auto buffer = static_cast<float>(buffers[i]);
    buffer = buffer + s.new_part * (gradient - buffer);
    direction[i] = Precision((buffer - s.new_part * (buffer - gradient)) / s.gradient_scale);
    if constexpr (std::is_same_v<Stored, float>) {
      buffers[i] = buffer;
    } else {
      buffers[i] =
          round_stochastically(buffer, random_half(mix_bits(key + static_cast<std::uint32_t>(i)), 0));
    }
  }
}

/// Where the part's direction is.
void* direction_of(const OptimizerState& part, const OptimizerState& state, void* direction) {
  return static_cast<std::byte*>(direction) + (part.first - state.first) * size_of(state.precision);
}

}  // namespace

void mix_momentum(const UpdateCoefficients& step, const OptimizerState& state, void* direction) {
  for_chunks(state, [&](const OptimizerState& chunk) {
    with_decoded(chunk, Moments{kMixedMoment}, step.direction.rounding, MomentCoder(),
                 [&](const OptimizerState& part) {
                   HWY_DYNAMIC_DISPATCH(mix_all)(step.direction, part, direction_of(part, state, direction));
                 });
  });
}

void mix_momentum_reference(const UpdateCoefficients& step, const OptimizerState& state, void* direction) {
  with_decoded(state, Moments{kMixedMoment}, step.direction.rounding, kPlainCoder,
               [&](const OptimizerState& part) {
                 void* const of_part = direction_of(part, state, direction);
                 with_state_types(
                     part.precision, part.format,
                     [&]<typename Precision, typename Master, typename Stored>(Precision, Master, Stored) {
                       mix_plainly<Precision, Stored>(step.direction, part, static_cast<Precision*>(of_part));
                     });
               });
}

}  // namespace strata
#endif
