// What nlohmann's errors say, for a sentence of ours. A plain function.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace strata {

/// "[json.exception.type_error.302] type must be string, but is null" without what stands in brackets.
inline std::string json_reason(const nlohmann::json::exception& error) {
  const std::string text = error.what();
  const std::size_t end = text.find("] ");
  return end == std::string::npos ? text : text.substr(end + 2);
}

}  // namespace strata
