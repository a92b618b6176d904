#include "engine/tools/report/certificate_report.h"

#include <fmt/format.h>

#include "engine/tools/report/change_words.h"

namespace strata {
namespace {

/// What is planned beyond the bound, as a share of the bound; 0 if there is none.
double gap(const Certificate& certificate, double planned_seconds) {
  return certificate.seconds > 0 ? planned_seconds / certificate.seconds - 1 : 0;
}

}  // namespace

std::string bound_sentence(const Certificate& certificate, double planned_seconds) {
  return fmt::format(
      "No plan of this run takes less than {}, limited by {}; this one takes {:.2f} times that",
      seconds_text(certificate.seconds), words_of(certificate.binding),
      1 + gap(certificate, planned_seconds));
}

std::string certificate_text(const Certificate& certificate, double planned_seconds, std::int64_t tokens) {
  std::string alone;
  for (const BoundArgument argument : kBoundArguments) {
    if (certificate.alone[argument] == 0) continue;
    alone += fmt::format("{}{} {}", alone.empty() ? "" : ", ", name_of(argument),
                         seconds_text(certificate.alone[argument]));
  }
  return fmt::format("{} for {} tokens: {:.0f} tokens/s. {}. Each alone would take: {}",
                     seconds_text(planned_seconds), tokens, static_cast<double>(tokens) / planned_seconds,
                     bound_sentence(certificate, planned_seconds), alone);
}

nlohmann::json certificate_json(const Certificate& certificate, double planned_seconds) {
  nlohmann::json alone = nlohmann::json::object();
  for (const BoundArgument argument : kBoundArguments)
    alone[std::string(name_of(argument))] = certificate.alone[argument];
  return {{"bound_seconds", certificate.seconds},
          {"planned_seconds", planned_seconds},
          {"gap", gap(certificate, planned_seconds)},
          {"by", name_of(certificate.binding)},
          {"alone", alone}};
}

}  // namespace strata
