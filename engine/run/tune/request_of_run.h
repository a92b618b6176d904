// From a run file to what the planner is asked. Pure functions of a run file and its models.
#pragma once

#include <string>
#include <vector>

#include "engine/config/memory_section.h"
#include "engine/config/parallel_section.h"
#include "engine/plan/merge/model_to_plan.h"

namespace strata {

struct Model;
struct RunConfig;

/// A model of a run, as its run file describes it. REQUIRES: what it refers to outlives this. The configs of
/// a run's models have equal sections memory, device and plan.
struct ConfiguredModel {
  std::string name;
  const RunConfig* config = nullptr;
  const Model* model = nullptr;
};

Mesh mesh_of(const ParallelSection& parallel, const Model& model);

/// The microbatches that a rank computes: of sequences that ranks share, its part.
MicrobatchShape microbatch_of_rank(const RunConfig& config);

/// As the run file asks for them. Ranks that share sequences have tables of the positions that they are
/// trained on, so their samples are as long as those.
SampleShape samples_of(const RunConfig& config);

MemoryRequest memory_request(const MemorySection& memory);

/// It reads neither train.threads nor plan.machine. REQUIRES: train.precision is given or was chosen.
/// Throws ConfigError if the run is too large to plan (size_limit.h), or if the pipeline cannot be made.
PlanRequest plan_request(const RunConfig& config, const Model& model);

/// Throws ConfigError, as plan_request() does.
ModelToPlan model_to_plan(const ConfiguredModel& model);
std::vector<ModelToPlan> models_to_plan(const std::vector<ConfiguredModel>& models);

}  // namespace strata
