#include "engine/tools/profile/compare.h"

#include <fmt/format.h>

#include <algorithm>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "base/file.h"
#include "base/json_text.h"
#include "engine/plan/program/program.h"
#include "engine/tools/profile/page.h"

namespace strata {
namespace fs = std::filesystem;
namespace {

/// Checks a summary key by key. What is not checked is not looked at by the page.
class SummaryCheck {
 public:
  explicit SummaryCheck(std::string file) : file_(std::move(file)) {}

  void check(const nlohmann::json& summary) const {
    if (!summary.is_object() || summary.value("format", nlohmann::json()) != "strata profile")
      refuse("it is no summary of a profile; give a folder that strata profile or --profile has written");
    const nlohmann::json version = summary.value("version", nlohmann::json());
    if (version != 1)
      refuse(fmt::format("its version is {}, and this program reads 1; write the profile again",
                         json_text(version)));
    if (summary.contains("run")) text(summary, "run");
    std::size_t profiles = 0;
    for (const char* group : {"planned", "measured"}) {
      for (const nlohmann::json& profile : list(summary, group)) {
        check_profile(profile);
        ++profiles;
      }
    }
    if (profiles == 0) refuse("it has no profile");
  }

 private:
  [[noreturn]] void refuse(const std::string& why) const {
    throw ConfigError(fmt::format("{}: {}", file_, why));
  }

  const nlohmann::json& at(const nlohmann::json& object, const char* key) const {
    if (!object.is_object() || !object.contains(key)) refuse(fmt::format("{} is missing", key));
    return object[key];
  }
  const nlohmann::json& list(const nlohmann::json& object, const char* key) const {
    const nlohmann::json& value = at(object, key);
    if (!value.is_array()) refuse(fmt::format("{} is no list", key));
    return value;
  }
  const nlohmann::json& map(const nlohmann::json& object, const char* key) const {
    const nlohmann::json& value = at(object, key);
    if (!value.is_object()) refuse(fmt::format("{} is no map", key));
    return value;
  }
  void text(const nlohmann::json& object, const char* key) const {
    if (!at(object, key).is_string()) refuse(fmt::format("{} is no text", key));
  }
  void figure(const nlohmann::json& value, std::string_view key) const {
    if (!value.is_number() || value.get<double>() < 0) refuse(fmt::format("{} is no number from 0 on", key));
  }
  void figures(const nlohmann::json& object, std::initializer_list<const char*> keys) const {
    for (const char* key : keys) figure(at(object, key), key);
  }
  void figure_of_each(const nlohmann::json& object) const {
    for (const auto& [key, value] : object.items()) figure(value, key);
  }

  /// Kinds have colours.
  void kind(std::string_view name) const {
    const auto is_its = [name](BufferKind kind) { return name_of(kind) == name; };
    if (std::ranges::none_of(kBufferKinds, is_its)) refuse(fmt::format("{} is no kind of buffer", name));
  }

  void check_profile(const nlohmann::json& profile) const {
    figures(profile, {"seconds"});
    if (profile.contains("name")) text(profile, "name");
    if (profile.contains("bound")) {
      figures(profile["bound"], {"seconds"});
      text(profile["bound"], "by");
    }
    for (const auto& [name, lane] : map(profile, "lanes").items()) {
      figures(lane, {"slices", "busy_seconds", "waited_seconds"});
      figure_of_each(map(lane, "waited_for"));
    }
    figure_of_each(map(profile, "traffic"));
    for (const auto& [tier, memory] : map(profile, "memory").items()) {
      figures(memory, {"peak_bytes", "live_peak_bytes"});
      figure_of_each(map(memory, "by_kind"));
      for (const auto& [name, bytes] : memory["by_kind"].items()) kind(name);
      for (const nlohmann::json& buffer : list(memory, "at_peak")) {
        text(buffer, "name");
        text(buffer, "kind");
        kind(buffer["kind"].get<std::string>());
        figures(buffer, {"bytes"});
      }
    }
  }

  std::string file_;
};

nlohmann::json read_summary(const fs::path& folder) {
  const fs::path file = folder / "summary.json";
  if (!is_there(file))
    throw ConfigError(fmt::format("{}: has no summary.json; give a folder that strata profile has written",
                                  folder.string()));
  nlohmann::json summary = read_json_object(file);
  SummaryCheck(file.string()).check(summary);
  return summary;
}

}  // namespace

std::string comparison_page(const fs::path& a, const fs::path& b) {
  return make_comparison_page(
      {{"folders", {a.string(), b.string()}}, {"summaries", {read_summary(a), read_summary(b)}}});
}

}  // namespace strata
