#include "engine/model/architectures/dropout.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <vector>

#include "base/error.h"
#include "engine/config/json_reader.h"

namespace strata {
namespace {

constexpr std::string_view kOfEmbeddings = "embd_pdrop", kOfBranches = "resid_pdrop";
constexpr std::string_view kDropoutsOfGpt2[] = {"attn_pdrop", kOfEmbeddings, kOfBranches};
constexpr std::string_view kOfPhi3[] = {"attention_dropout", kOfBranches};  // its embd_pdrop is not used
constexpr std::string_view kOfStarcoder2[] = {"attention_dropout", "embedding_dropout", "residual_dropout"};
constexpr std::string_view kOfOthers[] = {"attention_dropout"};

double read_dropout(JsonReader& reader, std::string_view key, double fallback) {
  const std::string name(key);
  const double value = reader.number(name, fallback);
  if (!(value >= 0 && value <= 1)) reader.refuse(name, "expected a probability from 0 to 1");
  return value;
}

/// Whether Strata has it.
bool is_applicable(std::string_view key) {
  return key == kOfEmbeddings || key == kOfBranches;
}

}  // namespace

DropoutKeys dropout_keys(std::string_view model_type) {
  if (model_type == "gpt2") return {kDropoutsOfGpt2, 0.1};
  if (model_type == "phi3") return {kOfPhi3, 0.0};
  if (model_type == "starcoder2") return {kOfStarcoder2, 0.0};
  return {kOfOthers, 0.0};
}

void check_dropout(JsonReader& reader, std::string_view model_type) {
  const DropoutKeys dropout = dropout_keys(model_type);
  for (const std::string_view key : dropout.keys) read_dropout(reader, key, dropout.fallback);
}

void apply_dropout(Architecture& architecture, const nlohmann::json& config, const std::string& where) {
  JsonReader reader(config, where);
  const DropoutKeys dropout = dropout_keys(architecture.model_type);
  std::vector<std::string_view> applicable;
  const auto read = [&](std::string_view key) -> double {
    if (std::ranges::find(dropout.keys, key) == dropout.keys.end()) return 0;
    applicable.push_back(key);
    const double value = read_dropout(reader, key, dropout.fallback);
    if (static_cast<float>(value) >= 1)
      reader.refuse(std::string(key), "with train.dropout nothing would be left; give less than 1");
    return value;
  };
  architecture.embedding_dropout = read(kOfEmbeddings);
  architecture.residual_dropout = read(kOfBranches);
  if (architecture.embedding_dropout > 0 || architecture.residual_dropout > 0) return;
  if (applicable.empty())
    throw ConfigError(
        fmt::format("train.dropout: {} has no dropout but of attention's probabilities, which strata "
                    "leaves out; take train.dropout out",
                    architecture.model_type));
  throw ConfigError(fmt::format("train.dropout: {} asks for none; take train.dropout out, or give {} there",
                                where, fmt::join(applicable, " or ")));
}

std::string dropout_warning(const nlohmann::json& config, const std::string& where, bool applies) {
  JsonReader reader(config, where);
  const DropoutKeys dropout = dropout_keys(reader.text("model_type", {}));
  std::vector<std::string> ignored;
  std::vector<std::string_view> applicable;
  for (const std::string_view key : dropout.keys) {
    const double value = read_dropout(reader, key, dropout.fallback);
    if (value == 0 || (applies && is_applicable(key))) continue;
    ignored.push_back(fmt::format("{} {}", key, value));
    if (is_applicable(key)) applicable.push_back(key);
  }
  if (ignored.empty()) return "";
  const std::string why = applicable.empty()
                              ? "strata drops nothing of attention's probabilities"
                              : fmt::format("train.dropout: true applies {}", fmt::join(applicable, " and "));
  return fmt::format("{}: asks for dropout ({}), which is ignored; {}", where, fmt::join(ignored, ", "), why);
}

}  // namespace strata
