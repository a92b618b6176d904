// Softmax cross entropy and its gradient in place of the logits. One thread per row; the row and its
// exponentials stay in its cache over the three passes: maximum, exponentials and their sum, gradient.
#include <algorithm>
#include <cassert>
#include <cmath>

#include "base/nth.h"
#include "base/storage_type.h"
#include "engine/device/cpu/context.h"
#include "engine/device/cpu/targets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "engine/device/cpu/cross_entropy.cpp"
#include "hwy/foreach_target.h"
//
#include "engine/device/cpu/softmax-inl.h"
#include "engine/device/loss_calls.h"

HWY_BEFORE_NAMESPACE();
namespace strata::HWY_NAMESPACE {

/// A row's maximum, the sum of exponentials relative to it, and the target's logit. Of logits only
/// differences from the maximum are computed with, so that large ones do not cost their digits.
struct SoftmaxSum {
  float most, total, target_logit;

  /// The target's cross entropy.
  float loss(float log_total) const { return log_total - (target_logit - most); }
};

/// Writes the exponentials, too. `target` is a column or, if it is in another part, outside of the row: its
/// logit is then 0.
template <typename T>
HWY_INLINE SoftmaxSum sum_row(const T* logits, std::int64_t count, std::int64_t target, float* exponentials) {
  const float most = row_maximum(logits, count);
  const bool has_target = 0 <= target && target < count;
  const float target_logit = has_target ? static_cast<float>(logits[target]) : 0.0F;
  return {most, write_exponentials(logits, count, most, exponentials), target_logit};
}

template <typename T>
HWY_INLINE SoftmaxSum sum_capped_row(const T* logits, std::int64_t count, std::int64_t target, float soft_cap,
                                     float* exponentials) {
  if (soft_cap == 0) return sum_row(logits, count, target, exponentials);
  map(logits, exponentials, count, SoftCap{soft_cap});
  return sum_row(exponentials, count, target, exponentials);
}

/// In place of the logits, from the exponentials.
template <typename T>
HWY_INLINE void write_gradient(T* logits, std::int64_t count, std::int64_t target, const SoftmaxSum& sum,
                               float log_total, float factor, float soft_cap, const float* exponentials) {
  const Float scale = broadcast(factor / sum.total);
  const bool has_target = 0 <= target && target < count;
  // Computed apart from the rest: p - 1 of a rounded p would lose the digits of a confident prediction.
  const float of_target = std::expm1(-sum.loss(log_total)) * factor;
  if (soft_cap > 0) {
    const SoftCap cap{soft_cap};
    const float target_raw = has_target ? static_cast<float>(logits[target]) : 0.0F;
    const float slope = hn::GetLane(SoftCap::slope_at(cap.tangent(broadcast(target_raw))));
    for_vectors(count, [&](auto access, std::int64_t i) HWY_ATTR {
      const Float gradient = hn::Mul(access.load(exponentials + i), scale);
      access.store(hn::Mul(gradient, SoftCap::slope_at(cap.tangent(access.load(logits + i)))), logits + i);
    });
    if (has_target) logits[target] = T(of_target * slope);
  } else {
    for_vectors(count, [&](auto access, std::int64_t i) HWY_ATTR {
      access.store(hn::Mul(access.load(exponentials + i), scale), logits + i);
    });
    if (has_target) logits[target] = T(of_target);
  }
}

inline float factor_of(float gradient_scale, const float* loss_scale) {
  return gradient_scale * (loss_scale == nullptr ? 1.0F : *loss_scale);
}

inline void write_loss(const Matrix& losses, std::int64_t row, const SoftmaxSum& sum, float log_total,
                       const float* penalty) {
  const float loss = sum.loss(log_total);
  losses.row<float>(0)[row] = penalty == nullptr ? loss : loss + *penalty;
}

template <typename T>
HWY_INLINE void cross_entropy_rows(const CrossEntropy& call, std::int64_t begin, std::int64_t end,
                                   float* exponentials) {
  const std::int64_t count = call.logits.columns;
  const float factor = factor_of(call.gradient_scale, call.loss_scale);
  for (std::int64_t row = begin; row < end; ++row) {
    T* logits = call.logits.row<T>(row);
    const std::int64_t target = nth(call.targets, row);
    if (target == kNoTarget) {
      call.losses.row<float>(0)[row] = 0;
      if (call.gradient) std::fill_n(logits, count, T());
      continue;
    }
    const SoftmaxSum sum = sum_capped_row(logits, count, target, call.soft_cap, exponentials);
    const float log_total = std::log(sum.total);
    write_loss(call.losses, row, sum, log_total, call.penalty);
    if (call.gradient)
      write_gradient(logits, count, target, sum, log_total, factor, call.soft_cap, exponentials);
  }
}

void cross_entropy(const CrossEntropy& call, std::int64_t begin, std::int64_t end, float* exponentials) {
  with_storage_type(call.logits.dtype,
                    [&]<typename T>(T) HWY_ATTR { cross_entropy_rows<T>(call, begin, end, exponentials); });
}

template <typename T>
HWY_INLINE void softmax_part_rows(const SoftmaxPart& call, std::int64_t begin, std::int64_t end,
                                  float* exponentials) {
  for (std::int64_t row = begin; row < end; ++row) {
    float* statistics = call.statistics.row<float>(row);
    const std::int32_t of_all = nth(call.targets, row);
    if (of_all == kNoTarget) {
      std::fill_n(statistics, kSoftmaxStatistics, 0.0F);
      continue;
    }
    const SoftmaxSum sum = sum_capped_row(call.logits.row<T>(row), call.logits.columns, of_all - call.first,
                                          call.soft_cap, exponentials);
    statistics[0] = sum.most;
    statistics[1] = sum.total;
    statistics[2] = sum.target_logit;
  }
}

void softmax_part(const SoftmaxPart& call, std::int64_t begin, std::int64_t end, float* exponentials) {
  with_storage_type(call.logits.dtype,
                    [&]<typename T>(T) HWY_ATTR { softmax_part_rows<T>(call, begin, end, exponentials); });
}

/// The softmax of all parts together, in their order.
inline SoftmaxSum join_parts(const Matrix& statistics, std::int64_t row) {
  const float* begin = statistics.row<float>(row);
  const float* end = begin + statistics.columns;
  SoftmaxSum all{begin[0], 0, 0};
  for (const float* part = begin; part != end; part += kSoftmaxStatistics)
    all.most = std::max(all.most, part[0]);
  for (const float* part = begin; part != end; part += kSoftmaxStatistics) {
    all.total += part[1] * std::exp(part[0] - all.most);
    all.target_logit += part[2];
  }
  return all;
}

template <typename T>
HWY_INLINE void parts_gradient_rows(const PartsGradient& call, std::int64_t begin, std::int64_t end,
                                    float* exponentials) {
  const std::int64_t count = call.logits.columns;
  const float factor = factor_of(call.gradient_scale, call.loss_scale);
  for (std::int64_t row = begin; row < end; ++row) {
    T* logits = call.logits.row<T>(row);
    const std::int32_t of_all = nth(call.targets, row);
    if (of_all == kNoTarget) {
      std::fill_n(logits, count, T());
      continue;
    }
    const std::int64_t target = of_all - call.first;
    const SoftmaxSum sum = join_parts(call.statistics, row);
    if (call.soft_cap > 0) {
      map(logits, exponentials, count, SoftCap{call.soft_cap});
      write_exponentials(exponentials, count, sum.most, exponentials);
    } else {
      write_exponentials(logits, count, sum.most, exponentials);
    }
    write_gradient(logits, count, target, sum, std::log(sum.total), factor, call.soft_cap, exponentials);
  }
}

void parts_gradient(const PartsGradient& call, std::int64_t begin, std::int64_t end, float* exponentials) {
  with_storage_type(call.logits.dtype,
                    [&]<typename T>(T) HWY_ATTR { parts_gradient_rows<T>(call, begin, end, exponentials); });
}

void parts_loss(const PartsLoss& call, std::int64_t begin, std::int64_t end) {
  for (std::int64_t row = begin; row < end; ++row) {
    const SoftmaxSum sum = join_parts(call.statistics, row);
    if (sum.total == 0) {
      call.losses.row<float>(0)[row] = 0;  // where there is a target, a part's maximum makes it 1 or more
    } else {
      write_loss(call.losses, row, sum, std::log(sum.total), call.penalty);
    }
  }
}

}  // namespace strata::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace strata {

HWY_EXPORT(cross_entropy);
HWY_EXPORT(softmax_part);
HWY_EXPORT(parts_loss);
HWY_EXPORT(parts_gradient);

namespace {

/// A row of exponentials.
ScratchBytes scratch_of(const Matrix& logits) {
  return {.per_thread = logits.columns * size_of(DType::fp32)};
}

/// Calls run(begin, end, exponentials) for ranges of rows.
template <typename Run>
void for_rows(CpuContext& context, const Matrix& logits, const Run& run) {
  context.scratch.reserve(scratch_of(logits));
  context.pool.for_ranges(logits.rows, rows_per_task(logits.columns),
                          [&](std::int64_t begin, std::int64_t end, int slot) {
                            run(begin, end, reinterpret_cast<float*>(context.scratch.slot(slot)));
                          });
}

}  // namespace

ScratchBytes scratch_on_cpu(const CrossEntropy& call, int /*threads*/) {
  return scratch_of(call.logits);
}
ScratchBytes scratch_on_cpu(const SoftmaxPart& call, int /*threads*/) {
  return scratch_of(call.logits);
}
ScratchBytes scratch_on_cpu(const PartsGradient& call, int /*threads*/) {
  return scratch_of(call.logits);
}

void run_on_cpu(CpuContext& context, const CrossEntropy& call) {
  assert(static_cast<std::int64_t>(call.targets.size()) == call.logits.rows);
  for_rows(context, call.logits, [&](std::int64_t begin, std::int64_t end, float* exponentials) {
    HWY_DYNAMIC_DISPATCH(cross_entropy)(call, begin, end, exponentials);
  });
}

void run_on_cpu(CpuContext& context, const SoftmaxPart& call) {
  assert(static_cast<std::int64_t>(call.targets.size()) == call.logits.rows);
  for_rows(context, call.logits, [&](std::int64_t begin, std::int64_t end, float* exponentials) {
    HWY_DYNAMIC_DISPATCH(softmax_part)(call, begin, end, exponentials);
  });
}

void run_on_cpu(CpuContext& context, const PartsLoss& call) {
  context.pool.for_ranges(call.statistics.rows, rows_per_task(call.statistics.columns),
                          [&](std::int64_t begin, std::int64_t end, int) {
                            HWY_DYNAMIC_DISPATCH(parts_loss)(call, begin, end);
                          });
}

void run_on_cpu(CpuContext& context, const PartsGradient& call) {
  assert(static_cast<std::int64_t>(call.targets.size()) == call.logits.rows);
  for_rows(context, call.logits, [&](std::int64_t begin, std::int64_t end, float* exponentials) {
    HWY_DYNAMIC_DISPATCH(parts_gradient)(call, begin, end, exponentials);
  });
}

}  // namespace strata
#endif
