// The profile of a machine that the command line names. Some come with the program.
#pragma once

#include <string>
#include <string_view>

namespace strata {

/// The file `name`, or of the machines that come with the program the one called so. Throws ConfigError that
/// names `option` and lists these machines if there is neither.
std::string machine_file(std::string_view option, const std::string& name);

}  // namespace strata
