// Compiled once per instruction set by foreach_target. Only additions and comparisons of single elements, so
// every target gives the same bits.
#include "collectives/reduce.h"

#include <algorithm>
#include <cassert>
#include <cstdint>

#include "base/dtype.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "collectives/reduce.cpp"
#include <hwy/foreach_target.h>  // IWYU pragma: keep

#include <hwy/cache_control.h>
#include <hwy/highway.h>

#include "base/storage_vectors-inl.h"

HWY_BEFORE_NAMESPACE();
namespace strata::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using Sources = std::span<const void* const>;

/// Vectors that are folded together, so that a source's address is looked up once for all of them.
constexpr std::size_t kVectors = 4;

/// How elements of T are read into vectors of D and written back.
struct Plain {
  template <class D, class T>
  static HWY_INLINE hn::Vec<D> load(D d, const T* from) {
    return hn::LoadU(d, from);
  }
  template <class D, class T>
  static HWY_INLINE void store(D d, hn::Vec<D> value, T* to) {
    hn::StoreU(value, d, to);
  }
  template <class D, class T>
  static HWY_INLINE void stream(D d, hn::Vec<D> value, T* to) {
    hn::Stream(value, d, to);
  }
};
struct Rounded {
  template <class D>
  static HWY_INLINE hn::Vec<D> load(D d, const bfloat16* from) {
    return load_elements(d, from);
  }
  template <class D>
  static HWY_INLINE void store(D d, hn::Vec<D> value, bfloat16* to) {
    hn::StoreU(to_bits(d, value, to), HalvesOf<D>(), reinterpret_cast<std::uint16_t*>(to));
  }
  template <class D>
  static HWY_INLINE void stream(D d, hn::Vec<D> value, bfloat16* to) {
    if constexpr (HWY_MAX_BYTES < 32) {
      store(d, value, to);  // half a vector of these targets cannot be streamed
    } else {
      hn::Stream(to_bits(d, value, to), HalvesOf<D>(), reinterpret_cast<std::uint16_t*>(to));
    }
  }
};

template <ReduceOp kOp, class V>
HWY_INLINE V combine(V left, V right) {
  if constexpr (kOp == ReduceOp::sum) {
    return hn::Add(left, right);
  } else {
    const auto further = kOp == ReduceOp::min ? hn::Lt(right, left) : hn::Lt(left, right);
    return hn::IfThenElse(hn::Or(further, hn::IsNaN(right)), right, left);
  }
}

/// Folds whole blocks of vectors from element `first` on; returns where they end.
template <ReduceOp kOp, class Access, class T, class D>
HWY_INLINE std::size_t fold_blocks(D d, Sources sources, T* destination, std::size_t first, std::size_t count,
                                   bool stream) {
  const std::size_t lanes = hn::Lanes(d);
  const std::size_t block = kVectors * lanes;
  const auto store = [&](hn::Vec<D> value, T* to) HWY_ATTR {
    if (stream) {
      Access::stream(d, value, to);
    } else {
      Access::store(d, value, to);
    }
  };
  std::size_t i = first;
  for (; i + block <= count; i += block) {
    const T* left = static_cast<const T*>(sources[0]) + i;
    auto value0 = Access::load(d, left);
    auto value1 = Access::load(d, left + lanes);
    auto value2 = Access::load(d, left + 2 * lanes);
    auto value3 = Access::load(d, left + 3 * lanes);
    for (std::size_t source = 1; source < sources.size(); ++source) {
      const T* next = static_cast<const T*>(sources[source]) + i;
      value0 = combine<kOp>(value0, Access::load(d, next));
      value1 = combine<kOp>(value1, Access::load(d, next + lanes));
      value2 = combine<kOp>(value2, Access::load(d, next + 2 * lanes));
      value3 = combine<kOp>(value3, Access::load(d, next + 3 * lanes));
    }
    store(value0, destination + i);
    store(value1, destination + i + lanes);
    store(value2, destination + i + 2 * lanes);
    store(value3, destination + i + 3 * lanes);
  }
  if (stream) hwy::FlushStream();
  return i;
}

template <class Access, class T, class D>
std::size_t fold(D d, Sources sources, T* destination, std::size_t first, std::size_t count, ReduceOp op,
                 bool stream) {
  switch (op) {
    case ReduceOp::sum:
      return fold_blocks<ReduceOp::sum, Access>(d, sources, destination, first, count, stream);
    case ReduceOp::min:
      return fold_blocks<ReduceOp::min, Access>(d, sources, destination, first, count, stream);
    case ReduceOp::max:
      break;
  }
  return fold_blocks<ReduceOp::max, Access>(d, sources, destination, first, count, stream);
}

/// Whole vectors from element `first` on; returns where they end.
std::size_t reduce_vectors(Sources sources, void* destination, std::size_t first, std::size_t count,
                           Element element, ReduceOp op, bool stream) {
  const hn::ScalableTag<float> floats;
  switch (element) {
    case Element::fp32:
      return fold<Plain>(floats, sources, static_cast<float*>(destination), first, count, op, stream);
    case Element::bf16:
      return fold<Rounded>(floats, sources, static_cast<bfloat16*>(destination), first, count, op, stream);
    case Element::fp64:
      return fold<Plain>(hn::ScalableTag<double>(), sources, static_cast<double*>(destination), first, count,
                         op, stream);
    case Element::byte:
      break;
  }
  return first;
}

}  // namespace strata::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace strata {
namespace {

HWY_EXPORT(reduce_vectors);

/// What stores past the caches need; no vector of a supported target is longer.
constexpr std::size_t kStreamAlignment = 64;

template <class Value>
Value combine_plainly(Value left, Value right, ReduceOp op) {
  if (op == ReduceOp::sum) return left + right;
  const bool further = op == ReduceOp::min ? right < left : left < right;
  return further || right != right ? right : left;
}

/// Elements of T, folded as Value.
template <class T, class Value>
void fold_plainly(std::span<const void* const> sources, void* destination, std::size_t first, std::size_t end,
                  ReduceOp op) {
  for (std::size_t i = first; i < end; ++i) {
    auto value = static_cast<Value>(static_cast<const T*>(sources[0])[i]);
    for (const void* source : sources.subspan(1))
      value = combine_plainly(value, static_cast<Value>(static_cast<const T*>(source)[i]), op);
    static_cast<T*>(destination)[i] = T(value);
  }
}

void reduce_plainly(std::span<const void* const> sources, void* destination, std::size_t first,
                    std::size_t end, Element element, ReduceOp op) {
  assert(!sources.empty() && element != Element::byte);
  switch (element) {
    case Element::fp32:
      return fold_plainly<float, float>(sources, destination, first, end, op);
    case Element::bf16:
      return fold_plainly<bfloat16, float>(sources, destination, first, end, op);
    case Element::fp64:
      return fold_plainly<double, double>(sources, destination, first, end, op);
    case Element::byte:
      return;
  }
}

}  // namespace

void reduce(std::span<const void* const> sources, void* destination, std::size_t count, Element element,
            ReduceOp op, Stores stores) {
  // Lines that are in the caches anyway, since they are read, are not written past them.
  const std::size_t beyond = reinterpret_cast<std::uintptr_t>(destination) % kStreamAlignment;
  const bool stream = stores == Stores::past_caches && beyond % size_of(element) == 0 &&
                      std::find(sources.begin(), sources.end(), destination) == sources.end();
  const std::size_t unaligned = stream && beyond > 0 ? (kStreamAlignment - beyond) / size_of(element) : 0;
  const std::size_t first = std::min(count, unaligned);
  reduce_plainly(sources, destination, 0, first, element, op);
  const std::size_t done =
      HWY_DYNAMIC_DISPATCH(reduce_vectors)(sources, destination, first, count, element, op, stream);
  reduce_plainly(sources, destination, done, count, element, op);
}

void reduce_reference(std::span<const void* const> sources, void* destination, std::size_t count,
                      Element element, ReduceOp op) {
  reduce_plainly(sources, destination, 0, count, element, op);
}

}  // namespace strata
#endif
