// How the optimizer's state of a parameter is stored, as a value, and what that costs in bytes. The precision
// of the run stands beside it wherever sizes are asked for. In fp32, and without masters, the parameter is
// its own master. Otherwise it is a rounded copy of its master, or the high half.
#pragma once

#include <utility>

#include "base/dtype.h"
#include "base/master_format.h"
#include "base/storage_type.h"
#include "optim/split_master.h"
#include "optim/update_rule.h"

namespace strata {

struct StateFormat {
  MasterFormat master = MasterFormat::fp32;  ///< REQUIRES for the others: precision bf16
  DType moments = DType::fp32;               ///< of a rule: fp32, or bf16 with stochastic rounding
  DType average = DType::fp32;               ///< of Moment::ema: as well
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
  constexpr DType dtype_of(Moment moment) const { return moment == Moment::ema ? average : moments; }
  constexpr Bytes bytes_of(Moment moment) const { return size_of(dtype_of(moment)); }
  /// Counts parameter, master and moments.
  constexpr Bytes state_bytes(DType precision) const {
    Bytes bytes = size_of(precision) + master_bytes(precision);
    kept.for_each([&](Moment moment) { bytes += bytes_of(moment); });
    return bytes;
  }
  /// What an update moves per parameter: the gradient and all state are read, all state is written. A rounded
  /// copy of the master is only written.
  constexpr Bytes update_bytes(DType precision) const {
    const Bytes only_written = is_rounded_copy(precision) ? size_of(precision) : 0;
    return size_of(precision) + 2 * state_bytes(precision) - only_written;
  }
  friend bool operator==(const StateFormat&, const StateFormat&) = default;
};

/// body(Precision(), Master(), Moment()) for the C++ types that a state is stored in; returns what it
/// returns.
template <typename Body>
decltype(auto) with_state_types(DType precision, const StateFormat& format, const Body& body) {
  const auto with_moments = [&](auto of_precision, auto master) -> decltype(auto) {
    return format.moments == DType::bf16 ? body(of_precision, master, bfloat16())
                                         : body(of_precision, master, float());
  };
  if (format.master == MasterFormat::split) return with_moments(bfloat16(), Remainder());
  if (format.master == MasterFormat::none) return with_moments(bfloat16(), bfloat16());
  return with_storage_type(
      precision, [&](auto of_precision) -> decltype(auto) { return with_moments(of_precision, float()); });
}

}  // namespace strata
