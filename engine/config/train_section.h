// The train section of a run file: steps, batches and what is computed.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/precision.h"
#include "engine/config/choices.h"

namespace strata {

struct TrainSection {
  std::int64_t steps = 100;
  std::optional<double> epochs;        ///< passes over the data, which become steps once the data are read
  std::int64_t batch = 8;              ///< sequences per optimizer step, over all ranks
  std::int64_t microbatch = 1;         ///< sequences per microbatch
  std::optional<Precision> precision;  ///< nothing: auto, which becomes one before a run is planned
  std::uint64_t seed = 1;
  Recompute recompute = Recompute::automatic;
  std::vector<std::string> freeze;      ///< patterns of the names of tensors that are not trained
  bool dropout = false;                 ///< that of the model's config.json
  std::int64_t validate_every = 0;      ///< steps; 0: never
  std::int64_t validation_batches = 8;  ///< microbatches per validation
  std::int64_t threads = 0;             ///< compute threads; 0: all cores
  std::int64_t watchdog = 900;          ///< seconds without any advance before a wait ends the run
  std::int64_t max_skipped_steps = 20;  ///< in a row without an update, which end the run
  // Dynamic loss scaling, with fp16 only.
  double loss_scale_initial = 65536;
  double loss_scale_growth = 2;
  double loss_scale_backoff = 0.5;
  std::int64_t loss_scale_interval = 2000;  ///< steps
  friend bool operator==(const TrainSection&, const TrainSection&) = default;
};

}  // namespace strata
