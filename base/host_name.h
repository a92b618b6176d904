// How this host is called.
#pragma once

#include <string>

namespace strata {

/// "?" if the system does not tell.
std::string host_name();

}  // namespace strata
