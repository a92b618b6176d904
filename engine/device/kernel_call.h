// One call of what a device computes. A family of calls has a header, such as product_calls.h, with a struct
// for each kind: what it means, and its operands. Storage is fp32, bf16 or fp16 (all of a call's activations
// and parameters have one dtype, unless said otherwise); norms, softmax, losses and sums are computed in
// fp32. Gradients of parameters are fp32 and are ADDED to.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <span>
#include <type_traits>

#include "base/nth.h"
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

/// The kinds of calls. A kind's number is its place among them.
template <typename... Calls>
class CallKinds {
 public:
  template <typename Call>
  static constexpr bool has = (std::is_same_v<Call, Calls> || ...);

  template <typename Call>
  static constexpr std::size_t number_of() {
    constexpr std::array kIsCall = {std::is_same_v<Call, Calls>...};
    return index_of(kIsCall, std::ranges::find(kIsCall, true));
  }

  /// visit(call), of the call's own type; all kinds' visits return one type. REQUIRES: `call` is of kind
  /// `number`.
  template <typename Visit>
  static auto visit(std::size_t number, const void* call, const Visit& visit) {
    using Result = std::common_type_t<std::invoke_result_t<const Visit&, const Calls&>...>;
    constexpr std::array<Result (*)(const void*, const Visit&), sizeof...(Calls)> kVisits = {
        &visit_own<Calls, Result, Visit>...};
    return kVisits[number](call, visit);
  }

 private:
  template <typename Call, typename Result, typename Visit>
  static Result visit_own(const void* call, const Visit& visit) {
    return visit(*static_cast<const Call*>(call));
  }
};
/// The families' headers define them.
using AllCalls = CallKinds<
    struct Product, struct ColumnSum, struct ColumnDots, struct ColumnScale, struct MagnitudeFactors,
    struct RowDots, struct RowDeviation, struct NormForward, struct NormBackward, struct AttentionForward,
    struct AttentionBackward, struct CachedAttention, struct Rope, struct HeadNormForward,
    struct HeadNormBackward, struct ActivationForward, struct ActivationBackward, struct GatedForward,
    struct GatedBackward, struct CrossEntropy, struct SoftmaxPart, struct PartsLoss, struct PartsGradient,
    struct EmbeddingForward, struct EmbeddingBackward, struct Addition, struct Scale, struct Blend,
    struct DivideByNorm, struct Dropout, struct Cast, struct Zero, struct RowCopy, struct RowSum,
    struct RouteForward, struct RouteBackward, struct LoadBalance, struct GroupRows, struct CountRows,
    struct CombineRows, struct CombineRowsBackward, struct GroupedProduct, struct GroupedWeightGradient,
    struct ParameterUpdate, struct MomentumMix, struct FactorStep, struct RowStep, struct DirectionLimit,
    struct SumOfSquares, struct EncodeFloat8, struct DecodeFloat8, struct DecodeBlocks>;

template <typename Call>
concept CallOfAKind = AllCalls::has<Call>;

/// A call of any kind, which it refers to. REQUIRES: the call outlives it.
class KernelCall {
 public:
  template <CallOfAKind Call>
  KernelCall(const Call& call)
      : kind_(AllCalls::number_of<Call>()), call_(&call) {}  // implicit, as to a base class
  KernelCall(const KernelCall&) = delete;
  KernelCall& operator=(const KernelCall&) = delete;

  std::size_t kind() const { return kind_; }
  /// The call if it is of this kind, else null.
  template <CallOfAKind Call>
  const Call* as() const {
    return kind_ == AllCalls::number_of<Call>() ? static_cast<const Call*>(call_) : nullptr;
  }
  /// Calls visit with the call's own type, and returns what it returns.
  template <typename Visit>
  auto visit(const Visit& visit) const {
    return AllCalls::visit(kind_, call_, visit);
  }

 private:
  std::size_t kind_;
  const void* call_;
};

}  // namespace strata
