// Errors as programs that use the library catch them: types of the standard library, since those of
// base/error.h stay within it.
#pragma once

#include <concepts>
#include <stdexcept>

#include "base/error.h"

namespace strata {

/// What `work` returns. Its ConfigError becomes std::invalid_argument; other errors are std::runtime_error.
template <std::invocable Work>
auto with_standard_errors(const Work& work) {
  try {
    return work();
  } catch (const ConfigError& error) {
    throw std::invalid_argument(error.what());
  } catch (const Error& error) {
    throw std::runtime_error(error.what());
  }
}

}  // namespace strata
