// What a file says as part of a sentence, which stays short whatever that is.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace strata {

/// The text, or if it is long its beginning and "…". REQUIRES: valid UTF-8.
std::string excerpt(std::string text);

/// The same of a value's text.
std::string json_excerpt(const nlohmann::json& value);

}  // namespace strata
