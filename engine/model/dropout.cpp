#include "engine/model/dropout.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <vector>

#include "engine/model/json_reader.h"

namespace strata {
namespace {

constexpr std::string_view kDropoutsOfGpt2[] = {"attn_pdrop", "embd_pdrop", "resid_pdrop"};
constexpr std::string_view kOfPhi3[] = {"attention_dropout", "resid_pdrop"};  // its embd_pdrop is not used
constexpr std::string_view kOfOthers[] = {"attention_dropout"};

double read_dropout(JsonReader& reader, std::string_view key, double fallback) {
  const std::string name(key);
  const double value = reader.number(name, fallback);
  if (!(value >= 0 && value <= 1)) reader.refuse(name, "expected a probability from 0 to 1");
  return value;
}

}  // namespace

DropoutKeys dropout_keys(std::string_view model_type) {
  if (model_type == "gpt2") return {kDropoutsOfGpt2, 0.1};
  if (model_type == "phi3") return {kOfPhi3, 0.0};
  return {kOfOthers, 0.0};
}

void check_dropout(JsonReader& reader, std::string_view model_type) {
  const DropoutKeys dropout = dropout_keys(model_type);
  for (const std::string_view key : dropout.keys) read_dropout(reader, key, dropout.fallback);
}

std::string dropout_warning(const nlohmann::json& config, const std::string& where) {
  JsonReader reader(config, where);
  const DropoutKeys dropout = dropout_keys(reader.text("model_type", {}));
  std::vector<std::string> asked;
  for (const std::string_view key : dropout.keys) {
    const double value = read_dropout(reader, key, dropout.fallback);
    if (value > 0) asked.push_back(fmt::format("{} {}", key, value));
  }
  if (asked.empty()) return "";
  return fmt::format("{}: asks for dropout ({}), and strata trains without any", where,
                     fmt::join(asked, ", "));
}

}  // namespace strata
