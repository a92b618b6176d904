// Which units the stages of a pipeline have.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/bytes.h"

namespace strata {

struct Model;
struct RunConfig;

/// Cuts units into `chunks` stretches: of all cuts whose slowest stretch is fastest that whose largest
/// stretch is smallest. Returns the first unit of each. REQUIRES: as many units as chunks.
std::vector<std::int32_t> balanced_cut(std::span<const double> work, std::span<const Bytes> bytes,
                                       std::size_t chunks);

/// The first unit of each of the run's chunks: parallel.stages, or balanced by FLOPs and parameters. Throws
/// ConfigError that says what would fit, also if the schedule cannot take the run's microbatches.
std::vector<std::int32_t> cut_into_stages(const RunConfig& config, const Model& model);

/// Throws ConfigError if the run cannot have an asynchronous schedule; `copied` is a unit whose parameters
/// two stages have, or -1.
void check_asynchronous(const RunConfig& config, const Model& model, std::int32_t copied);

}  // namespace strata
