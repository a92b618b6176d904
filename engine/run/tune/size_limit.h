// How large a run may be before it is planned: nothing here takes memory, and the planner takes it in
// proportion to what is let through.
#pragma once

namespace strata {

struct Model;
struct RunConfig;

/// Instructions of the plain program, or kernel calls of a pass, about: a minute of planning, and a gigabyte.
constexpr double kLargestProgram = 1e6;

/// Throws ConfigError that names the key to change if a step has more instructions than that or a pass more
/// kernel calls, or sizes that 64 bits do not count.
void check_size(const RunConfig& config, const Model& model);

}  // namespace strata
