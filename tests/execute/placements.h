// The same run with its state in several places.
#pragma once

#include <filesystem>
#include <set>
#include <string>

#include "engine/config/run_config.h"

namespace strata::test {

/// The run with all that can be on drives there.
RunConfig on_drives(RunConfig config, const std::filesystem::path& folder);
/// The run gives the same bits with all on the device, with as little there as can be, and with all that can
/// be on drives. So it does lane by lane and with lanes that overlap, and its plans are exact. Drives only if
/// `folder` is on one.
void expect_the_same_bits_wherever_state_lives(const RunConfig& resident,
                                               const std::filesystem::path& folder);
/// The states of two ranks, with all of it on the device and with as little as can be.
std::set<std::string> hashes_of_two_ranks(const RunConfig& resident);

}  // namespace strata::test
