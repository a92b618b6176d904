// What no plan of a run beats, beside what its plan takes, for `strata plan` and `strata explain`.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

#include "engine/plan/bound/certificate.h"

namespace strata {

/// "No plan of this run takes less than 0.120 s, limited by computing; this one takes 1.05 times that".
std::string bound_sentence(const Certificate& certificate, double planned_seconds);
/// "0.126 s for 1024 tokens: 8127 tokens/s. No plan of this run …. Alone they need: compute 0.110 s, …".
std::string certificate_text(const Certificate& certificate, double planned_seconds, std::int64_t tokens);
/// Keys as documented in docs/reference/reports.md.
nlohmann::json certificate_json(const Certificate& certificate, double planned_seconds);

}  // namespace strata
