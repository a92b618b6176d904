#include "engine/plan/search/machine_document.h"

#include <fmt/format.h>

#include "base/error.h"
#include "base/json_text.h"
#include "engine/config/value.h"
#include "engine/config/yaml_document.h"

namespace strata {

nlohmann::json machine_document(std::string_view text, const std::string& path) {
  const std::string where = "plan.machine: " + path;
  if (!path.ends_with(".yaml") && !path.ends_with(".yml")) return parse_json(text, where);
  try {
    return value::to_json(parse_yaml(std::string(text), {.name = where}).root);
  } catch (const value::WrongValue& error) {
    throw ConfigError(fmt::format("{}: {}", where, error.what()));
  }
}

}  // namespace strata
