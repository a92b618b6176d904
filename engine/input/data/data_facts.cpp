#include "engine/input/data/data_facts.h"

#include <fmt/format.h>

#include "base/counts.h"

namespace strata {
namespace {

double share_of(const DataFacts& facts) {
  return facts.tokens > 0 ? static_cast<double>(facts.trained_tokens) / static_cast<double>(facts.tokens) : 0;
}

std::string documents_of(const DataFacts& facts) {
  if (facts.read.all() > 0) return facts.read.describe() + ", ";
  return facts.documents ? fmt::format("{} documents, ", grouped(*facts.documents)) : "";
}

}  // namespace

std::string DataFacts::describe() const {
  const std::string trained =
      trained_tokens == tokens
          ? "all trained on"
          : fmt::format("{} of them trained on ({:.3g} %)", grouped(trained_tokens), 100 * share_of(*this));
  const auto counted = [](std::int64_t count, const char* what) {
    return fmt::format("{} {}{}", grouped(count), what, count == 1 ? "" : "s");
  };
  return fmt::format("{}: {}{}, {}; {} an epoch, {} held out; {} = {:.3g} epochs", counted(files, "file"),
                     documents_of(*this), counted(tokens, "token"), trained,
                     counted(sequences_per_epoch, "sequence"), grouped(held_out_sequences),
                     counted(steps, "step"), epochs);
}

std::vector<std::string> DataFacts::warnings() const {
  constexpr double kLittle = 0.01;
  std::vector<std::string> warnings = read.warnings();
  if (share_of(*this) < kLittle)
    warnings.push_back(fmt::format(
        "data: only {} of {} tokens are trained on, {:.2g} %: is what the role assistant says, or the "
        "completion, what is meant to be trained?",
        trained_tokens, tokens, 100 * share_of(*this)));
  return warnings;
}

nlohmann::json data_json(const DataFacts& facts) {
  nlohmann::json json = {{"files", facts.files},
                         {"tokens", facts.tokens},
                         {"trained_tokens", facts.trained_tokens},
                         {"sequences_per_epoch", facts.sequences_per_epoch},
                         {"held_out_sequences", facts.held_out_sequences},
                         {"steps", facts.steps},
                         {"epochs", facts.epochs}};
  if (facts.documents) json["documents"] = *facts.documents;
  if (facts.read.all() > 0) json["read_as"] = kinds_json(facts.read);
  return json;
}

}  // namespace strata
