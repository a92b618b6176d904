#include "base/json_text.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "base/file.h"
#include "base/lfs_pointer.h"
#include "base/nth.h"

namespace strata {
namespace {

std::string place(std::string_view text, std::size_t byte, const JsonLocation& where) {
  const std::string_view before = text.substr(0, byte);
  const std::size_t line_start = before.rfind('\n') + 1;  // npos + 1 is 0
  return fmt::format("{}:{}:{}", where.file, where.line + std::ranges::count(before, '\n'),
                     byte - line_start + 1);
}

void check_size(std::int64_t bytes, const JsonLocation& where, const JsonBudget& budget) {
  if (bytes <= budget.bytes) return;
  throw ConfigError(fmt::format("{}{}: {} bytes are more JSON than the {} that are read", where.file,
                                where.line == 1 ? "" : fmt::format(":{}", where.line), bytes, budget.bytes));
}

/// Behind the quote that ends the text which begins behind `quote`.
std::size_t end_of_text(std::string_view text, std::size_t quote) {
  std::size_t i = quote + 1;
  while (i < text.size() && text[i] != '"') i += text[i] == '\\' ? 2 : 1;
  return i + 1;
}

/// The parser takes a zero byte for the end of the text.
void check_whole(std::string_view text, const JsonLocation& where) {
  if (const std::size_t zero = text.find('\0'); zero != std::string_view::npos)
    throw ConfigError(
        fmt::format("{}: this is not valid JSON: there is a zero byte", place(text, zero, where)));
}

/// Looks at brackets, commas and quotes only. That is right up to the first error of syntax, behind which
/// nothing is built.
void check_budget(std::string_view text, const JsonLocation& where, const JsonBudget& budget) {
  std::int64_t depth = 0, values = 1;
  for (std::size_t i = 0; i < text.size();) {
    const char character = text[i];
    if (character == '[' || character == '{') ++depth;
    if (character == ']' || character == '}') --depth;
    // Every list and map may hold a value, and every comma comes before one.
    if (character == '[' || character == '{' || character == ',') ++values;
    if (depth > budget.depth) {
      throw ConfigError(fmt::format("{}: this JSON is nested more than {} levels deep", place(text, i, where),
                                    budget.depth));
    }
    if (values > budget.values) {
      throw ConfigError(
          fmt::format("{}: this JSON has more than {} values", place(text, i, where), budget.values));
    }
    i = character == '"' ? end_of_text(text, i) : i + 1;
  }
}

/// The part of the parser's message that a reader needs. The parser says "[json.exception.parse_error.101]
/// parse error at line 1, column 2: syntax error while parsing value - invalid literal; last read: 'x';
/// expected '}'". The caller names the place better, and "last read" may be long.
std::string reason(const nlohmann::json::parse_error& error) {
  std::string text = error.what();
  const std::size_t dash = text.find(" - ");
  if (dash != std::string::npos) text.erase(0, dash + 3);
  const std::size_t read = text.find("; last read: '");
  if (read != std::string::npos) {
    const std::size_t expected = text.rfind("'; expected ");
    text.erase(read,
               expected != std::string::npos && expected > read ? expected + 1 - read : std::string::npos);
  }
  return text;
}

template <typename Json>
Json parse_as(std::string_view text, const JsonLocation& where, const JsonBudget& budget) {
  if (is_lfs_pointer(text)) throw ConfigError(fmt::format("{}: {}", where.file, kLfsAdvice));
  check_size(static_cast<std::int64_t>(text.size()), where, budget);
  check_budget(text, where, budget);
  try {
    Json json = Json::parse(text);
    check_whole(text, where);
    return json;
  } catch (const nlohmann::json::parse_error& error) {
    const std::size_t byte = std::min(error.byte == 0 ? 0 : error.byte - 1, text.size());
    throw ConfigError(fmt::format("{}: this is not valid JSON: {}", place(text, byte, where), reason(error)));
  } catch (const nlohmann::json::exception&) {  // 1e999
    throw ConfigError(fmt::format("{}: this JSON has a number that no 64-bit number holds",
                                  where.line == 1 ? where.file : place(text, 0, where)));
  }
}

}  // namespace

nlohmann::json parse_json(std::string_view text, const JsonLocation& where, const JsonBudget& budget) {
  return parse_as<nlohmann::json>(text, where, budget);
}

nlohmann::ordered_json parse_ordered_json(std::string_view text, const JsonLocation& where,
                                          const JsonBudget& budget) {
  return parse_as<nlohmann::ordered_json>(text, where, budget);
}

namespace {

template <typename Json>
Json read_object_as(const std::filesystem::path& path, const JsonBudget& budget) {
  const FileReader file(path);
  check_size(file.size(), path.string(), budget);
  auto text = sized<std::string>(file.size());
  file.read(0, std::as_writable_bytes(std::span(text)));
  Json json = parse_as<Json>(text, path.string(), budget);
  if (!json.is_object()) throw ConfigError(path.string() + ": the file is JSON, but not a JSON object");
  return json;
}

}  // namespace

nlohmann::json read_json_object(const std::filesystem::path& path, const JsonBudget& budget) {
  return read_object_as<nlohmann::json>(path, budget);
}

nlohmann::ordered_json read_ordered_json_object(const std::filesystem::path& path, const JsonBudget& budget) {
  return read_object_as<nlohmann::ordered_json>(path, budget);
}

std::string json_text(const nlohmann::json& json, int indent) {
  return json.dump(indent, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace strata
