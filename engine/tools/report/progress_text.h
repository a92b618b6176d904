// What lines of a run under way are made of, be it of one model or of several.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "engine/run/execute/model_run.h"

namespace strata {

/// "42s", "2m10s", "3h07m".
std::string format_duration(double seconds);

/// Columns that the text takes on a terminal, at most. A character of three bytes or more may be a wide
/// one, unless it is a block.
std::size_t columns_of(std::string_view text);

/// The text, or if it is longer than `columns` its beginning and "…". Control characters become "?".
std::string shortened(std::string_view text, std::size_t columns);

/// A part of a line that may be too long for its place.
struct LinePart {
  std::string text;
  int rank = 0;            ///< those of the highest are left out first; 0: never left out
  std::string brief = {};  ///< in place of the text where not all have room; empty: there is none
};
/// The parts with two spaces between them: all as they are, else brief, else without those of high ranks.
std::string fitted(const std::vector<LinePart>& parts, std::size_t columns);
/// Where nothing is too long.
inline constexpr std::size_t kAllColumns = static_cast<std::size_t>(-1);

/// Bytes in few columns, in binary units: "22.8M", "76G".
std::string short_bytes(Bytes bytes);

/// The text in quotes on one line, whatever is in it: JSON's, in which no terminal finds commands.
std::string quoted(const std::string& text);

/// A line for each: 'step 100: "Once upon" "a time"'; none for random weights.
std::vector<std::string> lines_of(const SamplePoint& point);
/// While samples are taken: "step 100: samples, 12 tokens each so far, 1 of 4 ended".
std::string line_of(const SamplingProgress& progress);

/// Tells of steps whose gradients were not finite: the first of them in a row are named, and no more.
class SkippedSteps {
 public:
  /// Lines to print; none if the step updated something, or follows too many like it.
  std::vector<std::string> lines_of(const StepReport& report);

 private:
  std::int64_t in_a_row_ = 0;
};

}  // namespace strata
