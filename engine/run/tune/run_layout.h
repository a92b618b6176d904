// Layouts of a run: over which ranks, in which order and in which microbatches it is trained. What its run
// file leaves open is chosen once, before the run is planned, since it changes bits. Pure functions; any
// thread.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "engine/config/parallel_section.h"

namespace strata {

struct RunConfig;

struct RunLayout {
  ParallelSection parallel;
  std::int64_t microbatch = 1;  ///< sequences
  friend bool operator==(const RunLayout&, const RunLayout&) = default;
};

/// Keys of a run file with their values, "parallel.tensor=8": those of the layout that plan.search chooses.
std::vector<std::string> settings_of(const RunLayout& layout, const RunConfig& open);

/// In a few words, what is not 1: "tensor 8 x pipeline 4 (1f1b) x data 2, zero 1, microbatch 1".
std::string describe(const RunLayout& layout);

/// The run with that layout, in which nothing is left to search.
RunConfig with_layout(RunConfig open, const RunLayout& layout);
/// The run with the layout that settings_of() wrote into its checkpoints, in which nothing is left to search.
/// Throws ConfigError if the run file does not allow these settings.
RunConfig with_settings(const RunConfig& open, const std::vector<std::string>& settings);

/// All layouts of `ranks` ranks that a run file allows, on nodes with `node_ranks` ranks each (0: one node).
/// They have the run file's own values. A model may refuse some of them. Some choices are taken only if the
/// run file gives them:
/// - gpipe and breadth_first, which keep the activations of all microbatches;
/// - the schedules of pipedream, which learn otherwise;
/// - zero_stage 0;
/// - less than 4096 tokens of a sequence for each rank that shares it.
std::vector<RunLayout> layouts_of(const RunConfig& open, std::int64_t ranks, std::int64_t node_ranks);

}  // namespace strata
