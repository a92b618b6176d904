#include "engine/model/dropout.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <vector>

#include "engine/model/json_reader.h"

namespace strata {
namespace {

constexpr std::string_view kOfGpt2[] = {"attn_pdrop", "embd_pdrop", "resid_pdrop"};
constexpr std::string_view kOfLlama[] = {"attention_dropout"};
constexpr double kGpt2Default = 0.1;

}  // namespace

std::span<const std::string_view> dropout_keys(Family family) {
  return family == Family::gpt2 ? std::span<const std::string_view>(kOfGpt2) : kOfLlama;
}

double read_dropout(JsonReader& reader, std::string_view key) {
  const std::string name(key);
  const double value = reader.number(name, key == kOfLlama[0] ? 0.0 : kGpt2Default);
  if (!(value >= 0 && value <= 1)) reader.refuse(name, "expected a probability from 0 to 1");
  return value;
}

std::string dropout_warning(const nlohmann::json& config, const std::string& where) {
  JsonReader reader(config, where);
  const Family family = reader.text("model_type", {}) == "gpt2" ? Family::gpt2 : Family::llama;
  std::vector<std::string> asked;
  for (const std::string_view key : dropout_keys(family)) {
    const double value = read_dropout(reader, key);
    if (value > 0) asked.push_back(fmt::format("{} {}", key, value));
  }
  if (asked.empty()) return "";
  return fmt::format("{}: asks for dropout ({}), and strata trains without any", where,
                     fmt::join(asked, ", "));
}

}  // namespace strata
