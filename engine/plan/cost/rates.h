// What a machine can do, as the planner, the bound and the report use it: measured before a run, or nominal
// for planning.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "engine/plan/cost/kernel_times.h"
#include "engine/plan/cost/rank_links.h"

namespace strata {

struct MachineRates {
  double flops_per_second = 0;         ///< matrix products in the run's precision
  double memory_bytes_per_second = 0;  ///< host DRAM, read plus written
  double h2d_bytes_per_second = 0, d2h_bytes_per_second = 0;
  double nvme_read_bytes_per_second = 0,
         nvme_write_bytes_per_second = 0;  ///< of the run's folders together; 0: not used
  bool cores_copy = true;                  ///< copies are made by the cores that compute, and not beside them
  double cores = 1;                        ///< of a rank, if they do
  double copy_bytes_per_second = 0;        ///< by one of them, whatever the links' limits; 0: not known
  KernelTimes kernels = {};                ///< of the run's passes; nothing: they take their FLOPs' time
  RankLinks links = {};                    ///< as the profile gives them
  friend bool operator==(const MachineRates&, const MachineRates&) = default;

  /// The part of all cores that a copy at `copied_per_second` bytes takes; 0 if cores do not copy.
  double share_of_cores(double copied_per_second) const;
  /// The part of the host's memory bandwidth that `bytes_per_second` take.
  double share_of_memory(double bytes_per_second) const;
  /// The part of the host's memory bandwidth that a copy between host and device takes. If cores copy, the
  /// device's memory is the host's, too.
  double share_of_memory_by_copy(double copied_per_second) const {
    return share_of_memory((cores_copy ? 2 : 1) * copied_per_second);
  }
  /// The part of all cores that an exchange between ranks takes: if cores copy, one makes it.
  double share_of_exchange() const { return cores_copy ? 1 / cores : 0; }
  /// The links with a rate each: what the profile leaves out is as fast as one core copies, if cores do, or
  /// as the link to the device.
  RankLinks rank_links() const;
};

/// {"flops_per_second": …}: part of a report.
nlohmann::json rates_json(const MachineRates& rates);

/// The machine's profile, as strata doctor writes it: rates_json() and, as "kernels", what calls take.
nlohmann::json profile_json(const MachineRates& rates);
/// Rates of drives may be missing. Throws nlohmann's exception if another rate is missing.
MachineRates rates_from_profile(const nlohmann::json& json);

/// The rates of a profile's document (machine_document.h). Throws ConfigError that names `path` if it is
/// none.
MachineRates checked_rates(const nlohmann::json& profile, const std::string& path);

/// The profile that profile_json() gives. Throws ConfigError that names `path` if `text` is none.
MachineRates parse_profile(std::string_view text, const std::string& path);

/// Seconds of a step by given rates. Exchanges between ranks take `exchanging` seconds. If the cores copy,
/// their copies, exchanges and computing add up. A limited link can take longer than all of these.
double estimated_seconds(const MachineRates& rates, double flops, Bytes h2d, Bytes d2h, double exchanging);

/// Seconds that drives need which do one thing at a time.
double nvme_seconds(const MachineRates& rates, Bytes read, Bytes written);

}  // namespace strata
