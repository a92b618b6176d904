// How long calls of kernels take on a machine, as measured, and what follows for calls of other sizes.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "engine/device/kernel_work.h"

namespace strata {

/// A value; usable from any thread.
class KernelTimes {
 public:
  /// In place of what was known of calls of that name. REQUIRES: more than 0 seconds.
  void add(const KernelWork& call, double seconds);

  /// Divides the time of each call by `times`.
  void speed_up(double times);

  bool is_empty() const { return by_operator_.empty(); }
  std::size_t size() const;
  /// Whether one can plan by it: all seconds are above 0, and no FLOPs or bytes below.
  bool is_valid() const;
  bool has(const KernelWork& call) const;
  /// A measured call takes what was measured. Another takes the time of the measured one of its operator that
  /// is nearest in work, times the ratio of their FLOPs, or of their bytes if they have none. Nothing if no
  /// call of its operator was measured.
  std::optional<double> seconds(const KernelWork& call) const;

  /// Calls with their seconds: [{"call": "linear 64x512bf16 …", "flops": …, "bytes": …, "seconds": …}, …].
  nlohmann::json to_json() const;
  /// Throws nlohmann's exception if it is no such list.
  static KernelTimes from_json(const nlohmann::json& json);
  friend bool operator==(const KernelTimes&, const KernelTimes&) = default;

 private:
  struct Measured {
    KernelWork call;
    double seconds = 0;
    friend bool operator==(const Measured&, const Measured&) = default;
  };
  static double work_of(const KernelWork& call);

  std::map<std::string, std::vector<Measured>, std::less<>> by_operator_;
};

}  // namespace strata
