// The parallel section of a run file: how ranks share the work.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "engine/config/choices.h"

namespace strata {

/// The most ranks along an axis of the mesh other than data.
constexpr std::int64_t kMostOfAxis = 4096;

struct ParallelSection {
  std::int64_t data = 1;                   ///< ranks that share a batch
  std::int64_t replicate = 1;              ///< of them hold the same shard
  std::optional<std::int64_t> shard = {};  ///< if given, data · context / replicate
  std::int64_t tensor = 1, pipeline = 1;
  bool sequence = false;     ///< ranks of `tensor` share out tokens wherever they do not share a layer
  std::int64_t context = 1;  ///< ranks that share each sequence
  PipelineSchedule schedule = PipelineSchedule::one_f_one_b;
  std::int64_t chunks = 1;          ///< of units, on each stage of the pipeline
  std::vector<std::string> stages;  ///< units of each chunk, or the first of each; empty: balanced
  int zero_stage = 3;
  ReduceDtype reduce_dtype = ReduceDtype::fp32;
  bool sparse_gradients = true;  ///< the embedding's goes between ranks as rows if that is less
  friend bool operator==(const ParallelSection&, const ParallelSection&) = default;
};

}  // namespace strata
