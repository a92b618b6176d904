// JSON text from a file that anybody may have written. Every JSON file is read through here: a budget of
// depth and values is checked before anything is built, since what is built costs many times its text and is
// walked by recursion. Plain functions.
#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>

namespace strata {

struct JsonBudget {
  std::int64_t bytes = 100'000'000;  ///< of the whole text; what safetensors allows a header
  std::int64_t depth = 64;           ///< of lists and maps in one another
  std::int64_t values = 2'000'000;   ///< of all kinds; a description of 250,000 tensors
};

/// Where a text comes from: a file, from its first line on or from another.
struct JsonLocation {
  // A name alone is a place.
  JsonLocation(std::string file, std::int64_t line = 1)  // NOLINT(google-explicit-constructor)
      : file(std::move(file)), line(line) {}
  JsonLocation(const char* file) : JsonLocation(std::string(file)) {}  // NOLINT(google-explicit-constructor)

  std::string file;
  std::int64_t line;
};

/// Throws ConfigError with the file, line and column if the text is not JSON or exceeds the budget.
nlohmann::json parse_json(std::string_view text, const JsonLocation& where, const JsonBudget& budget = {});

/// Parses JSON whose maps keep the order of their keys. Throws ConfigError as parse_json() does.
nlohmann::ordered_json parse_ordered_json(std::string_view text, const JsonLocation& where,
                                          const JsonBudget& budget = {});

/// The file's one JSON object. Throws ConfigError as parse_json() does, and if the file holds no object;
/// throws IoError if it cannot be read.
nlohmann::json read_json_object(const std::filesystem::path& path, const JsonBudget& budget = {});

/// The file's one JSON object, whose maps keep the order of their keys. Throws as read_json_object() does.
nlohmann::ordered_json read_ordered_json_object(const std::filesystem::path& path,
                                                const JsonBudget& budget = {});

/// JSON text of any value. Bytes that are no UTF-8, which file names may have, become U+FFFD.
std::string json_text(const nlohmann::json& json, int indent = -1);

}  // namespace strata
