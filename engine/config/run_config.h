// The run file as plain values, which the rest of the engine reads. Each key's type, default, documentation
// and check stands once, in run_keys.cpp, machine_keys.cpp, training_keys.cpp or optimizer_keys.cpp.
#pragma once

#include <cstdint>

#include "base/precision.h"
#include "engine/config/adapter_section.h"
#include "engine/config/checkpoint_section.h"
#include "engine/config/data_section.h"
#include "engine/config/device_section.h"
#include "engine/config/ema_section.h"
#include "engine/config/memory_section.h"
#include "engine/config/model_section.h"
#include "engine/config/optimizer_section.h"
#include "engine/config/parallel_section.h"
#include "engine/config/plan_section.h"
#include "engine/config/report_section.h"
#include "engine/config/samples_section.h"
#include "engine/config/schedule_section.h"
#include "engine/config/spike_section.h"
#include "engine/config/train_section.h"

namespace strata {

struct RunConfig {
  ModelSection model;
  DataSection data;
  TrainSection train;
  SamplesSection samples;
  EmaSection ema;
  SpikeSection spike;
  AdapterSection adapter;
  OptimizerSection optimizer;
  ScheduleSection schedule;
  ParallelSection parallel;
  MemorySection memory;
  PlanSection plan;
  DeviceSection device;
  CheckpointSection checkpoint;
  ReportSection report;

  /// Whether some of the model is not trained.
  bool freezes() const { return !train.freeze.empty() || adapter.type != AdapterType::none; }
  /// What the device stores. REQUIRES: train.precision is given or was chosen
  /// (engine/run/tune/precision.h).
  DType precision() const { return train.precision.value().storage; }
  /// Whether attention and positions are those of a sequence's documents, each alone.
  bool is_within_documents() const { return data.packing != DataPacking::none; }
  /// What its products round.
  Rounding rounding() const { return train.precision.value_or(Precision()).products; }

  /// Whether updates wait for the norm of all gradients of their step.
  bool waits_for_norm() const {
    return clips_by_own_norm(optimizer) || spike.factor > 0 || train.precision == DType::fp16;
  }

  /// Ranks of the run.
  std::int64_t ranks() const { return parallel.data * ranks_of_data_rank(); }
  /// The ranks that have one data rank's samples together.
  std::int64_t ranks_of_data_rank() const { return parallel.context * parallel.pipeline * parallel.tensor; }

  /// Microbatches that each rank accumulates per optimizer step.
  std::int64_t microbatches() const { return train.batch / (train.microbatch * parallel.data); }

  friend bool operator==(const RunConfig&, const RunConfig&) = default;
};

}  // namespace strata
