// The model section of a run file: which model is trained.
#pragma once

#include <string>

#include <nlohmann/json.hpp>

namespace strata {

struct ModelSection {
  std::string path;                                  ///< HF folder; or
  std::string architecture;                          ///< model_type with
  nlohmann::json config = nlohmann::json::object();  ///< config.json's own keys
  friend bool operator==(const ModelSection&, const ModelSection&) = default;
};

}  // namespace strata
