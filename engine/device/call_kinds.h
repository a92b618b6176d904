// The kinds of calls, by name: for who passes a call on by its own type. The families' headers define them.
#pragma once

#include <stdexcept>
#include <type_traits>

#include "engine/device/kernel_call.h"

namespace strata {

[[noreturn]] inline void refuse_call() {
  throw std::logic_error("a kernel call of a kind that AllCalls does not list");
}

template <typename... Calls>
struct CallKinds {
  /// How many kinds stand before the call's.
  static std::size_t number_of(const KernelCall& call) {
    std::size_t number = 0;
    ((call.as<Calls>() != nullptr || (++number, false)) || ...);
    return number;
  }

  /// visit(call), of the call's own type; returns what it returns. Throws std::logic_error for a call of no
  /// kind.
  template <typename Visit>
  static auto visit(const KernelCall& call, const Visit& visit) {
    using Result = std::common_type_t<std::invoke_result_t<const Visit&, const Calls&>...>;
    const auto is_visited = [&](const auto* own, auto&& perform) {
      return own != nullptr && (perform(*own), true);
    };
    if constexpr (std::is_void_v<Result>) {
      if (!(is_visited(call.as<Calls>(), visit) || ...)) refuse_call();
    } else {
      Result result = {};
      const auto keep = [&](const auto& own) { result = visit(own); };
      if (!(is_visited(call.as<Calls>(), keep) || ...)) refuse_call();
      return result;
    }
  }
};
using AllCalls = CallKinds<
    struct Product, struct ColumnSum, struct ColumnDots, struct ColumnScale, struct MagnitudeFactors,
    struct RowDots, struct RowDeviation, struct NormForward, struct NormBackward, struct AttentionForward,
    struct AttentionBackward, struct CachedAttention, struct Rope, struct HeadNormForward,
    struct HeadNormBackward, struct ActivationForward, struct ActivationBackward, struct GatedForward,
    struct GatedBackward, struct CrossEntropy, struct SoftmaxPart, struct PartsLoss, struct PartsGradient,
    struct EmbeddingForward, struct EmbeddingBackward, struct Addition, struct Scale, struct Dropout,
    struct Cast, struct Zero, struct RowCopy, struct RowSum, struct RouteForward, struct RouteBackward,
    struct LoadBalance, struct GroupRows, struct CountRows, struct CombineRows, struct CombineRowsBackward,
    struct GroupedProduct, struct GroupedWeightGradient, struct ParameterUpdate, struct SumOfSquares,
    struct EncodeFloat8, struct DecodeFloat8, struct DecodeBlocks>;

/// Calls visit with the call's own type, and returns what it returns.
template <typename Visit>
auto visit_call(const KernelCall& call, const Visit& visit) {
  return AllCalls::visit(call, visit);
}

}  // namespace strata
