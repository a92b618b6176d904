// What no plan of a run beats, beside what its plan takes, for `strata plan` and `strata explain`.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "engine/plan/search/certificate.h"

namespace strata {

/// "bound 0.120 s by cores (compute 0.110, …), planned 0.126 s, gap 5.0 %".
std::string certificate_text(const Certificate& certificate, double planned_seconds);
/// Keys as documented in docs/reference/reports.md.
nlohmann::json certificate_json(const Certificate& certificate, double planned_seconds);

}  // namespace strata
