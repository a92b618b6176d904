// Softmax cross entropy and its gradient in place of the logits. One thread per row; the row and its
// exponentials stay in its cache over the three passes: maximum, exponentials and their sum, gradient.
#include <cassert>
#include <cmath>

#include "base/storage_type.h"
#include "engine/device/cpu/context.h"
#include "engine/device/cpu/targets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "engine/device/cpu/cross_entropy.cpp"
#include "hwy/foreach_target.h"
//
#include "engine/device/cpu/softmax-inl.h"

HWY_BEFORE_NAMESPACE();
namespace strata::HWY_NAMESPACE {

/// The sum of the row's exponentials, which are written, and the target's logit; both relative to the
/// maximum, so that large logits do not cost the digits of their differences.
struct SoftmaxSum {
  float total, target_logit;
};

template <typename T>
HWY_INLINE SoftmaxSum sum_row(const T* logits, std::int64_t count, std::int64_t target, float* exponentials) {
  const float most = row_maximum(logits, count);
  const float target_logit = static_cast<float>(logits[target]) - most;
  return {write_exponentials(logits, count, most, exponentials), target_logit};
}

template <typename T>
HWY_INLINE void cross_entropy_rows(const CrossEntropy& call, std::int64_t begin, std::int64_t end,
                                   float* exponentials) {
  const std::int64_t count = call.logits.columns;
  const float factor = call.gradient_scale * (call.loss_scale == nullptr ? 1.0F : *call.loss_scale);
  const SoftCap cap{call.soft_cap};
  for (std::int64_t row = begin; row < end; ++row) {
    T* logits = call.logits.row<T>(row);
    const std::int64_t target = call.targets[static_cast<std::size_t>(row)];
    if (call.soft_cap > 0) map(logits, exponentials, count, cap);
    const auto [total, target_logit] = call.soft_cap > 0 ? sum_row(exponentials, count, target, exponentials)
                                                         : sum_row(logits, count, target, exponentials);
    const float log_total = std::log(total);
    const float loss = log_total - target_logit;
    call.losses.row<float>(0)[row] = call.penalty == nullptr ? loss : loss + *call.penalty;
    if (!call.gradient) continue;
    const Float scale = broadcast(factor / total);
    // Computed apart from the rest: p - 1 of a rounded p would lose the digits of a confident prediction.
    const float of_target = std::expm1(target_logit - log_total) * factor;
    if (call.soft_cap > 0) {
      const float slope =
          hn::GetLane(SoftCap::slope_at(cap.tangent(broadcast(static_cast<float>(logits[target])))));
      for_vectors(count, [&](auto access, std::int64_t i) HWY_ATTR {
        const Float gradient = hn::Mul(access.load(exponentials + i), scale);
        access.store(hn::Mul(gradient, SoftCap::slope_at(cap.tangent(access.load(logits + i)))), logits + i);
      });
      logits[target] = T(of_target * slope);
    } else {
      for_vectors(count, [&](auto access, std::int64_t i) HWY_ATTR {
        access.store(hn::Mul(access.load(exponentials + i), scale), logits + i);
      });
      logits[target] = T(of_target);
    }
  }
}

void cross_entropy(const CrossEntropy& call, std::int64_t begin, std::int64_t end, float* exponentials) {
  with_storage_type(call.logits.dtype,
                    [&]<typename T>(T) HWY_ATTR { cross_entropy_rows<T>(call, begin, end, exponentials); });
}

}  // namespace strata::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace strata {

HWY_EXPORT(cross_entropy);

ScratchBytes scratch_on_cpu(const CrossEntropy& call, int /*threads*/) {
  return {.per_thread = call.logits.columns * size_of(DType::fp32)};
}

void run_on_cpu(CpuContext& context, const CrossEntropy& call) {
  assert(static_cast<std::int64_t>(call.targets.size()) == call.logits.rows);
  const std::int64_t columns = call.logits.columns;
  context.scratch.reserve(scratch_on_cpu(call, context.pool.threads()));
  context.pool.for_ranges(call.logits.rows, rows_per_task(columns),
                          [&](std::int64_t begin, std::int64_t end, int slot) {
                            auto* exponentials = reinterpret_cast<float*>(context.scratch.slot(slot));
                            HWY_DYNAMIC_DISPATCH(cross_entropy)(call, begin, end, exponentials);
                          });
}

}  // namespace strata
#endif
