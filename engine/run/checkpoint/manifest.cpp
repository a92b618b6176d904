#include "engine/run/checkpoint/manifest.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "base/excerpt.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/json_reason.h"
#include "base/json_text.h"
#include "base/system_error.h"
#include "engine/config/adapter_section.h"
#include "engine/config/choices.h"
#include "engine/run/checkpoint/refusals.h"

namespace strata {
namespace fs = std::filesystem;
namespace {

constexpr const char* kFormat = "strata checkpoint";
constexpr std::int64_t kVersion = 11;
constexpr std::int64_t kVersionOfOneRule = 10;       // without `update_rules`
constexpr std::int64_t kVersionWithoutAverages = 9;  // without `averages`
constexpr std::int64_t kVersionOfThreeRules = 8;     // `update_rule` is adamw, sgd or sgd_momentum
constexpr std::int64_t kVersionWithoutPatterns = 7;  // all adapters have one rank and one alpha
constexpr std::int64_t kVersionWithoutBase = 6;      // without `base`, whose weights are frozen.safetensors
constexpr std::int64_t kVersionWithoutAdapters = 5;  // without `adapter`
constexpr std::int64_t kVersionOfAdamW = 4;          // without `update_rule`, which is adamw
constexpr std::int64_t kVersionWithoutFrozen = 3;  // without `freeze`, and so without files of what is frozen
constexpr std::int64_t kOldestVersion = 2;         // one rank's whole tensors, which version 3 may have too
constexpr const char* kOwnChecksum = "manifest_xxh3";

std::string text_with_checksum(nlohmann::json manifest) {
  manifest.erase(kOwnChecksum);
  manifest[kOwnChecksum] = hex(hash_text(manifest.dump()));
  return manifest.dump(2) + "\n";
}

/// As a text; as numbers of its bytes if it is no UTF-8.
nlohmann::json text_in_json(const std::string& text) {
  const bool is_text = std::ranges::all_of(text, [](char byte) { return byte > 0; });
  if (is_text ||
      nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::ignore) == '"' + text + '"')
    return text;
  return std::vector<std::uint8_t>(text.begin(), text.end());
}

std::string text_from_json(const nlohmann::json& json) {
  if (!json.is_array()) return json;
  const auto bytes = json.get<std::vector<std::uint8_t>>();
  return {bytes.begin(), bytes.end()};
}

/// Without `best` before a loss was finite, since JSON has no infinity.
nlohmann::json plateau_json(const Plateau& plateau) {
  nlohmann::json json = {{"step", plateau.step},
                         {"waited", plateau.waited},
                         {"cooldown", plateau.cooldown},
                         {"falls", plateau.falls}};
  if (std::isfinite(plateau.best)) json["best"] = plateau.best;
  return json;
}

Plateau plateau_in(const nlohmann::json& json) {
  Plateau plateau;
  const auto found = json.find("plateau");
  if (found == json.end()) return plateau;
  return {.step = found->at("step"),
          .best = found->value("best", plateau.best),
          .waited = found->at("waited"),
          .cooldown = found->at("cooldown"),
          .falls = found->at("falls")};
}

nlohmann::json parse(const std::string& text, const fs::path& path) try {
  return parse_json(text, path.string());
} catch (const ConfigError& error) {
  throw DamageError(fmt::format("{}; the manifest is damaged", error.what()));
}

}  // namespace

bool are_alike(const UpdateRules& a, const UpdateRules& b) {
  return a.size() == 1 && b.size() == 1 ? a.begin()->first == b.begin()->first : a == b;
}

std::string to_text(const Manifest& manifest) {
  const bool adapts = manifest.adapter.type != AdapterType::none;
  const bool has_patterns = !manifest.adapter.rank_pattern.empty() || !manifest.adapter.alpha_pattern.empty();
  const bool has_one_rule = manifest.rules.size() == 1;
  const UpdateRule rule = manifest.rules.begin()->first;
  const bool has_early_rule =
      rule == UpdateRule::adamw || rule == UpdateRule::sgd || rule == UpdateRule::sgd_momentum;
  const std::int64_t version = !has_one_rule               ? kVersion
                               : manifest.averages         ? kVersionOfOneRule
                               : !has_early_rule           ? kVersionWithoutAverages
                               : has_patterns              ? kVersionOfThreeRules
                               : manifest.base             ? kVersionWithoutPatterns
                               : adapts                    ? kVersionWithoutBase
                               : rule != UpdateRule::adamw ? kVersionWithoutAdapters
                               : manifest.freeze.empty()   ? kVersionWithoutFrozen
                                                           : kVersionOfAdamW;
  const Counters& counters = manifest.progress.counters;
  nlohmann::json json = {{"format", kFormat},
                         {"version", version},
                         {"generation", manifest.generation},
                         {"architecture", to_hf_config(manifest.architecture)},
                         {"step", counters.step},
                         {"applied_updates", counters.updates},
                         {"skipped_steps", counters.skipped},
                         {"gradient_norm", counters.norm},
                         {"mean_gradient_norm", counters.mean_norm},
                         {"loss_scale", manifest.progress.loss_scale.scale},
                         {"loss_scale_finite_steps", manifest.progress.loss_scale.finite_steps},
                         {"sampler", manifest.progress.sampler},
                         {"precision", name_of(manifest.progress.precision)},
                         {"files", manifest.files}};
  if (!manifest.freeze.empty()) json["freeze"] = manifest.freeze;
  if (adapts)
    json["adapter"] = {{"type", word_of(manifest.adapter.type)},
                       {"rank", manifest.adapter.rank},
                       {"alpha", manifest.adapter.alpha},
                       {"targets", manifest.adapter.targets}};
  if (has_patterns) {
    json["adapter"]["rank_pattern"] = manifest.adapter.rank_pattern;
    json["adapter"]["alpha_pattern"] = manifest.adapter.alpha_pattern;
  }
  if (manifest.base) {
    json["base"] = {{"path", text_in_json(manifest.base->path)},
                    {"seed", manifest.base->seed},
                    {"samples_xxh3", manifest.base->samples}};
    if (has_blocks(manifest.base->frozen_as)) json["base"]["frozen_as"] = word_of(manifest.base->frozen_as);
  }
  if (!manifest.progress.layout.empty())
    json["layout"] = {{"settings", manifest.progress.layout}, {"ranks", manifest.progress.layout_ranks}};
  if (!manifest.progress.schedule.is_null()) json["schedule"] = manifest.progress.schedule;
  if (counters.spikes > 0) json["spikes"] = counters.spikes;
  if (counters.passed_over > 0) json["passed_over"] = counters.passed_over;
  if (counters.plateau != Plateau()) json["plateau"] = plateau_json(counters.plateau);
  for (const auto& [key, value] : manifest.progress.data) json["data"][key] = text_in_json(value);
  if (!manifest.companions.empty()) json["companions"] = manifest.companions;
  if (!manifest.run_file.empty()) json["run_file"] = text_in_json(manifest.run_file);
  if (!has_one_rule) {
    for (const auto& [of_some, tensors] : manifest.rules) json["update_rules"][name_of(of_some)] = tensors;
  } else if (rule != UpdateRule::adamw) {
    json["update_rule"] = name_of(rule);
  }
  if (manifest.averages) json["averages"] = true;
  return text_with_checksum(std::move(json));
}

void to_json(nlohmann::json& json, const Manifest::File& file) {
  json = {{"bytes", file.bytes}, {"xxh3", file.xxh3}};
}

void from_json(const nlohmann::json& json, Manifest::File& file) {
  file = {json.at("bytes"), json.at("xxh3")};
}

namespace {

UpdateRule rule_named(const std::string& name, const char* key, const fs::path& path) {
  for (const UpdateRule rule : kUpdateRules) {
    if (name_of(rule) == name) return rule;
  }
  report_damage(path, fmt::format("the manifest is malformed ({} is \"{}\")", key, excerpt(name)));
}

UpdateRules rules_in(const nlohmann::json& json, const fs::path& path) {
  const auto several = json.find("update_rules");
  if (several == json.end()) {
    const std::string name = json.value("update_rule", std::string(name_of(UpdateRule::adamw)));
    return {{rule_named(name, "update_rule", path), 0}};
  }
  UpdateRules rules;
  for (const auto& [name, tensors] : several->get<std::map<std::string, std::int64_t>>())
    rules[rule_named(name, "update_rules", path)] = tensors;
  if (rules.size() < 2) report_damage(path, "the manifest is malformed (update_rules has less than two)");
  return rules;
}

AdapterSection adapter_in(const nlohmann::json& json, const fs::path& path) {
  AdapterSection adapter;
  const auto found = json.find("adapter");
  if (found == json.end()) return adapter;
  const std::string type = found->at("type");
  const auto& words = Words<AdapterType>::list;
  const auto word = std::ranges::find(words, type);
  if (word == words.end())
    report_damage(path, fmt::format("the manifest is malformed (adapter is \"{}\")", excerpt(type)));
  adapter.type = static_cast<AdapterType>(word - words.begin());
  adapter.rank = found->at("rank");
  adapter.alpha = found->at("alpha");
  adapter.targets = found->at("targets").get<std::vector<std::string>>();
  adapter.rank_pattern = found->value("rank_pattern", adapter.rank_pattern);
  adapter.alpha_pattern = found->value("alpha_pattern", adapter.alpha_pattern);
  return adapter;
}

std::optional<Manifest::Base> base_in(const nlohmann::json& json, const fs::path& path) {
  const auto found = json.find("base");
  if (found == json.end()) return std::nullopt;
  const nlohmann::json& seed = found->at("seed");
  Manifest::Base base = {.path = text_from_json(found->at("path")),
                         .seed = seed.is_number_unsigned() ? seed.get<std::uint64_t>() : 0,
                         .samples = found->at("samples_xxh3")};
  const bool is_a_place = base.path.empty() || fs::path(base.path).is_absolute();
  if (!seed.is_number_unsigned() || !is_a_place || base.path.find('\0') != std::string::npos)
    report_damage(path, "the manifest is malformed (base names no model)");
  if (const auto format = found->find("frozen_as"); format != found->end()) {
    const auto& words = Words<ParameterFormat>::list;
    const auto word = std::ranges::find(words, format->get<std::string>());
    base.frozen_as =
        word == words.end() ? ParameterFormat::precision : static_cast<ParameterFormat>(word - words.begin());
    if (!has_blocks(base.frozen_as))
      report_damage(path, fmt::format("the manifest is malformed (frozen_as is {})", json_excerpt(*format)));
  }
  return base;
}

/// Checkpoints from before there was a choice do not say it; bf16 was the default.
Precision precision_in(const nlohmann::json& json, const fs::path& path) {
  const std::string name = json.value("precision", std::string(name_of(DType::bf16)));
  if (const std::optional<Precision> precision = precision_named(name)) return *precision;
  report_damage(path, fmt::format("the manifest is malformed (precision is \"{}\")", excerpt(name)));
}

Manifest parse_undamaged(const nlohmann::json& json, const fs::path& path) {
  const std::int64_t version = json.value("version", 0);
  if (json.value("format", "") != kFormat || version < kOldestVersion || version > kVersion) {
    throw UnknownVersionError(fmt::format(
        "{}: version {} of \"{}\" is not one this program reads ({} to {} of \"{}\"); use the "
        "program that saved it or another checkpoint.path",
        path.string(), version, excerpt(json.value("format", "")), kOldestVersion, kVersion, kFormat));
  }
  Manifest manifest;
  manifest.generation = json.at("generation");
  manifest.architecture = parse_architecture(json.at("architecture"), path.string());
  manifest.freeze = json.value("freeze", manifest.freeze);
  manifest.adapter = adapter_in(json, path);
  manifest.base = base_in(json, path);
  if (manifest.base && manifest.adapter.type == AdapterType::none)
    report_damage(path, "the manifest is malformed (base without adapter)");
  manifest.rules = rules_in(json, path);
  manifest.averages = json.value("averages", false);
  if (const auto run_file = json.find("run_file"); run_file != json.end())
    manifest.run_file = text_from_json(*run_file);
  manifest.progress = {
      .counters = {.step = json.at("step"),
                   .updates = json.at("applied_updates"),
                   .skipped = json.at("skipped_steps"),
                   .norm = json.value("gradient_norm", 0.0),
                   .mean_norm = json.value("mean_gradient_norm", 0.0),
                   .spikes = json.value("spikes", std::int64_t{0}),
                   .passed_over = json.value("passed_over", std::int64_t{0}),
                   .plateau = plateau_in(json)},
      .loss_scale = {.scale = json.at("loss_scale"), .finite_steps = json.at("loss_scale_finite_steps")},
      .sampler = json.at("sampler"),
      .precision = precision_in(json, path)};
  if (const auto layout = json.find("layout"); layout != json.end()) {
    layout->at("settings").get_to(manifest.progress.layout);
    layout->at("ranks").get_to(manifest.progress.layout_ranks);
  }
  manifest.progress.schedule = json.value("schedule", nlohmann::json());
  if (const auto data = json.find("data"); data != json.end()) {
    for (const auto& [key, value] : data->get<std::map<std::string, nlohmann::json>>())
      manifest.progress.data[key] = text_from_json(value);
  }
  manifest.files = json.at("files").get<std::map<std::string, Manifest::File>>();
  manifest.companions = json.value("companions", manifest.companions);
  for (const auto& [name, file] : manifest.files) {
    if (fs::path(name).filename() != name)
      report_damage(path, fmt::format("{} is not a file of this folder", excerpt(name)));
  }
  return manifest;
}

}  // namespace

Manifest parse_manifest(const std::string& text, const fs::path& path) {
  const nlohmann::json json = parse(text, path);
  // Written back, an undamaged manifest gives every byte of itself again, its own checksum included.
  if (!json.is_object() || text_with_checksum(json) != text) report_damage(path, "the manifest is damaged");
  try {
    return parse_undamaged(json, path);
  } catch (const nlohmann::json::exception& error) {
    report_damage(path, fmt::format("the manifest is malformed ({})", json_reason(error)));
  }
}

Manifest read_manifest(const fs::path& path, FileSystem& file_system) {
  std::string text;
  try {
    const Bytes bytes = FileReader(path, file_system).size();
    if (bytes > JsonBudget().bytes)
      report_damage(path,
                    fmt::format("{} bytes are more than a manifest has: the manifest is damaged", bytes));
    text = read_file(path, file_system);
  } catch (const SystemError& error) {
    if (error.is_missing()) report_damage(path, "the manifest is missing");
    throw;
  }
  return parse_manifest(text, path);
}

std::string difference(const Architecture& stored, const Architecture& expected) {
  std::vector<std::string> parts;
  const auto compare = [&](const char* what, const auto& a, const auto& b) {
    if (a != b) parts.push_back(fmt::format("{} {} vs {}", what, a, b));
  };
  compare("model_type", stored.model_type, expected.model_type);
  compare("layers", stored.layers, expected.layers);
  compare("hidden", stored.hidden, expected.hidden);
  compare("heads", stored.heads, expected.heads);
  compare("key/value heads", stored.kv_heads, expected.kv_heads);
  compare("head dimension", stored.head_dimension, expected.head_dimension);
  compare("intermediate", stored.intermediate, expected.intermediate);
  compare("vocabulary", stored.vocabulary, expected.vocabulary);
  // Rotary positions have no parameters: a longer context may go on from a shorter one.
  if (expected.family == Family::gpt2) compare("positions", stored.max_positions, expected.max_positions);
  compare("window", stored.window, expected.window);
  compare("norm epsilon", stored.norm_epsilon, expected.norm_epsilon);
  compare("tied head", stored.tied_head, expected.tied_head);
  compare("rope theta", stored.rope.theta, expected.rope.theta);
  if (stored.rope.llama3 != expected.rope.llama3) parts.emplace_back("rope scaling differs");
  if (!parts.empty()) return fmt::format("{}", fmt::join(parts, ", "));
  // What only some architectures have; how weights began, and how long a context may be, may differ.
  const nlohmann::json a = to_hf_config(stored), b = to_hf_config(expected);
  for (const auto& [key, value] : b.items()) {
    if (key == "initializer_range" || key == "max_position_embeddings") continue;
    if (!a.contains(key) || a.at(key) != value)
      parts.push_back(
          fmt::format("{} {} vs {}", key, json_excerpt(a.value(key, nlohmann::json())), json_excerpt(value)));
  }
  return fmt::format("{}", fmt::join(parts, ", "));
}

}  // namespace strata
