// One call of what a device computes. A family of calls has a header, such as product_calls.h, with a struct
// for each kind: what it means, and its operands. Storage is fp32, bf16 or fp16 (all of a call's activations
// and parameters have one dtype, unless said otherwise); norms, softmax, losses and sums are computed in
// fp32. Gradients of parameters are fp32 and are ADDED to.
#pragma once

#include <cstddef>
#include <span>

#include "engine/device/matrix.h"

namespace strata {

/// Calls visit(operand) for each of a call's operands: matrices, spans, an OptimizerState. Ones that are not
/// given are empty.
template <typename Visit, typename... Operands>
void visit_each(const Visit& visit, const Operands&... operands) {
  (visit(operands), ...);
}

/// A value as a span; null: an empty one.
template <typename T>
std::span<T> single(T* value) {
  return {value, value == nullptr ? std::size_t{0} : std::size_t{1}};
}

/// A call of any kind, which it refers to. REQUIRES: the call outlives it. call_kinds.h lists the kinds.
class KernelCall {
 public:
  template <typename Call>
  KernelCall(const Call& call) : kind_(&kKind<Call>), call_(&call) {}  // implicit, as a base class would be
  KernelCall(const KernelCall&) = delete;
  KernelCall& operator=(const KernelCall&) = delete;

  /// The call if it is of this kind, else null.
  template <typename Call>
  const Call* as() const {
    return kind_ == &kKind<Call> ? static_cast<const Call*>(call_) : nullptr;
  }

 private:
  /// Its address stands for the kind.
  template <typename Call>
  static constexpr char kKind = 0;

  const char* kind_;
  const void* call_;
};

}  // namespace strata
