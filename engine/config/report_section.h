// The report section of a run file: what a run writes about itself.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace strata {

/// Steps from one to another, both included; the first of all is step 1.
struct StepSpan {
  std::int64_t first = 0, last = 0;
  friend bool operator==(const StepSpan&, const StepSpan&) = default;
};

struct ReportSection {
  std::string metrics;                ///< JSONL file, a line per step; empty: none
  std::string tensorboard;            ///< folder of event files; empty: none
  std::string trace_path;             ///< file for a trace of the steps below; empty: none
  std::vector<StepSpan> trace_steps;  ///< rising
  friend bool operator==(const ReportSection&, const ReportSection&) = default;
};

}  // namespace strata
