// Calls of softmax cross entropy, of whole rows and of rows in several parts.
#pragma once

#include <cstdint>
#include <span>

#include "engine/device/kernel_call.h"

namespace strata {

/// In place of a target: the row is not trained on, its loss and its gradient are zero.
constexpr std::int32_t kNoTarget = -1;

/// Softmax cross entropy of each row, and its gradient in place of the logits.
struct CrossEntropy {
  Matrix logits;  ///< [rows, vocabulary]; becomes gradient_scale · loss_scale · (softmax - onehot) (· cap's
                  ///< slope)
  std::span<const std::int32_t> targets;  ///< [rows], each in [0, vocabulary) or kNoTarget
  Matrix losses;                      ///< fp32 [1, rows], written: log_sum_exp - logit[target] (+ penalty)
  float gradient_scale = 1;           ///< 1 / targets of the whole batch
  const float* loss_scale = nullptr;  ///< another factor, in the device's memory; none: 1
  const float* penalty = nullptr;     ///< joins each target's loss, in the device's memory; none: 0
  float soft_cap = 0;                 ///< c > 0: a logit x counts as c · tanh(x / c), as in Gemma 2; 0: as x
  bool gradient = true;               ///< false: logits are only read

  template <typename Visit>
  void operands(const Visit& visit) const {
    visit_each(visit, logits, targets, losses, single(loss_scale), single(penalty));
  }
};

// Cross entropy of rows whose logits lie in several parts: SoftmaxPart of each, then PartsLoss and, of each,
// PartsGradient. A part's statistics are the maximum, the sum of exp(logit - maximum), and the target's logit
// or 0 if the target is in another part; all are 0 in rows without a target.

constexpr std::int64_t kSoftmaxStatistics = 3;

struct SoftmaxPart {
  Matrix logits;                          ///< [rows, columns]
  std::span<const std::int32_t> targets;  ///< [rows]
  std::int64_t first = 0;                 ///< of all parts' columns, that of this part's first
  float soft_cap = 0;                     ///< as in CrossEntropy
  Matrix statistics;                      ///< fp32 [rows, kSoftmaxStatistics], written

  template <typename Visit>
  void operands(const Visit& visit) const {
    visit_each(visit, logits, targets, statistics);
  }
};

struct PartsLoss {
  Matrix statistics;               ///< fp32 [rows, kSoftmaxStatistics · parts]
  Matrix losses;                   ///< fp32 [1, rows], as in CrossEntropy
  const float* penalty = nullptr;  ///< as in CrossEntropy

  template <typename Visit>
  void operands(const Visit& visit) const {
    visit_each(visit, statistics, losses, single(penalty));
  }
};

struct PartsGradient {
  Matrix logits;  ///< of one part; become their gradient, as in CrossEntropy
  std::span<const std::int32_t> targets;
  std::int64_t first = 0;
  Matrix statistics;  ///< of all parts
  float gradient_scale = 1;
  const float* loss_scale = nullptr;
  float soft_cap = 0;

  template <typename Visit>
  void operands(const Visit& visit) const {
    visit_each(visit, logits, targets, statistics, single(loss_scale));
  }
};

}  // namespace strata
