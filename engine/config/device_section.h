// The device section of a run file: what computes.
#pragma once

#include <optional>
#include <string>

#include "base/bytes.h"
#include "engine/config/choices.h"

namespace strata {

struct DeviceSection {
  DeviceKind kind = DeviceKind::cpu;
  std::optional<Bytes> h2d_per_second, d2h_per_second;  ///< throttle of the link
  std::optional<Bytes> sent_per_second;                 ///< throttle of the link to other ranks
  double flops_per_second = 0;                          ///< throttle of computing; 0: none
  std::string product_table;                            ///< file; empty: the library's own choice
  friend bool operator==(const DeviceSection&, const DeviceSection&) = default;
};

}  // namespace strata
