// What tests of run files begin with.
#pragma once

#include <string>

namespace strata::test {

/// A run file with nothing but what it must have.
inline const std::string kMinimal = "model: {path: m}\ndata: {path: a.txt}\n";

}  // namespace strata::test
