// What tests of run files begin with.
#pragma once

#include <string>
#include <vector>

#include "base/error.h"
#include "engine/config/load.h"

namespace strata::test {

/// A run file with nothing but what it must have.
inline const std::string kMinimal = "model: {path: m}\ndata: {path: a.txt}\n";

/// The sentence that the file (and the overrides) are refused with.
inline std::string refusal(const std::string& text, const std::vector<std::string>& overrides = {}) {
  try {
    parse_run_config(text, "run.yaml", overrides);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "accepted";
}

}  // namespace strata::test
