// How the optimizer's state of a parameter is stored, as a value, and what that costs in bytes. The precision
// of the run stands beside it wherever sizes are asked for. In fp32, and without masters, the parameter is
// its own master. Otherwise it is a rounded copy of its master, or the high half.
#pragma once

#include <algorithm>
#include <utility>

#include "base/dtype.h"
#include "base/master_format.h"
#include "base/moment_format.h"
#include "base/storage_type.h"
#include "optim/moment_codes.h"
#include "optim/split_master.h"
#include "optim/update_rule.h"

namespace strata {

struct StateFormat {
  MasterFormat master = MasterFormat::fp32;   ///< REQUIRES for the others: precision bf16
  MomentFormat moments = MomentFormat::fp32;  ///< of a rule; see format_of()
  MomentFormat average = MomentFormat::fp32;  ///< of Moment::ema; REQUIRES: not coded
  Moments kept = moments_of(UpdateRule::adamw);

  constexpr bool is_own_master(DType precision) const {
    return precision == DType::fp32 || master == MasterFormat::none;
  }
  constexpr bool is_rounded_copy(DType precision) const {
    return precision != DType::fp32 && master == MasterFormat::fp32;
  }
  /// Bytes per parameter of the buffer `master`; 0 if there is none.
  constexpr Bytes master_bytes(DType precision) const {
    if (is_own_master(precision)) return 0;
    return master == MasterFormat::split ? size_of(DType::bf16) : size_of(DType::fp32);
  }
  /// A mean so slow that codes would round more than it changes by stays in bf16.
  constexpr MomentFormat format_of(Moment moment) const {
    if (moment == Moment::ema) return average;
    return moment == Moment::exp_avg_slow ? std::min(moments, MomentFormat::bf16) : moments;
  }
  /// Counts the bytes of a moment, for elements that begin with a block.
  constexpr Bytes moment_bytes(Moment moment, std::int64_t elements) const {
    switch (format_of(moment)) {
      case MomentFormat::bf16:
        return elements * size_of(DType::bf16);
      case MomentFormat::coded:
        return coded_bytes(elements);
      default:
        return elements * size_of(DType::fp32);
    }
  }
  /// Where element `to` of a moment is, or its block, from where element `from` is, or its block. Both are
  /// indices in the unit.
  constexpr Bytes moment_offset(Moment moment, std::int64_t from, std::int64_t to) const {
    if (format_of(moment) == MomentFormat::coded) return coded_offset(to) - coded_offset(from);
    return moment_bytes(moment, to - from);
  }
  /// Counts parameter, master and moments of this number of parameters.
  constexpr Bytes state_bytes(DType precision, std::int64_t parameters) const {
    Bytes bytes = parameters * (size_of(precision) + master_bytes(precision));
    kept.for_each([&](Moment moment) { bytes += moment_bytes(moment, parameters); });
    return bytes;
  }
  /// What an update of this number of parameters moves: the gradient and all state are read, all state is
  /// written. A rounded copy of the master is only written.
  constexpr Bytes update_bytes(DType precision, std::int64_t parameters) const {
    const Bytes only_written = is_rounded_copy(precision) ? size_of(precision) : 0;
    return parameters * (size_of(precision) - only_written) + 2 * state_bytes(precision, parameters);
  }
  friend bool operator==(const StateFormat&, const StateFormat&) = default;
};

/// body(Precision(), Master(), Moment()) for the C++ types that a state is stored in; returns what it
/// returns. Codes of moments have no type: they become floats before they are computed with.
template <typename Body>
decltype(auto) with_state_types(DType precision, const StateFormat& format, const Body& body) {
  const auto with_moments = [&](auto of_precision, auto master) -> decltype(auto) {
    return format.moments == MomentFormat::bf16 ? body(of_precision, master, bfloat16())
                                                : body(of_precision, master, float());
  };
  if (format.master == MasterFormat::split) return with_moments(bfloat16(), Remainder());
  if (format.master == MasterFormat::none) return with_moments(bfloat16(), bfloat16());
  return with_storage_type(
      precision, [&](auto of_precision) -> decltype(auto) { return with_moments(of_precision, float()); });
}

}  // namespace strata
