#include "engine/report/certificate_report.h"

#include <fmt/format.h>

namespace strata {
namespace {

/// What is planned beyond the bound, as a share of the bound; 0 if there is none.
double gap(const Certificate& certificate, double planned_seconds) {
  return certificate.seconds > 0 ? planned_seconds / certificate.seconds - 1 : 0;
}

}  // namespace

std::string certificate_text(const Certificate& certificate, double planned_seconds) {
  std::string alone;
  for (const BoundArgument argument : kBoundArguments) {
    if (certificate.of(argument) == 0) continue;
    alone +=
        fmt::format("{}{} {:.3f}", alone.empty() ? "" : ", ", name_of(argument), certificate.of(argument));
  }
  return fmt::format("bound {:.3f} s by {} ({}), planned {:.3f} s, gap {:.1f} %", certificate.seconds,
                     name_of(certificate.binding), alone, planned_seconds,
                     100 * gap(certificate, planned_seconds));
}

nlohmann::json certificate_json(const Certificate& certificate, double planned_seconds) {
  nlohmann::json alone = nlohmann::json::object();
  for (const BoundArgument argument : kBoundArguments)
    alone[std::string(name_of(argument))] = certificate.of(argument);
  return {{"bound_seconds", certificate.seconds},
          {"planned_seconds", planned_seconds},
          {"gap", gap(certificate, planned_seconds)},
          {"by", name_of(certificate.binding)},
          {"alone", alone}};
}

}  // namespace strata
