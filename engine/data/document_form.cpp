#include "engine/data/document_form.h"

#include <fmt/format.h>
#include <strings.h>

#include <algorithm>
#include <string>

#include "base/error.h"
#include "base/json_text.h"

namespace strata {
namespace {

bool has_ending(const std::string& file, std::string_view ending) {
  return file.size() >= ending.size() &&
         ::strcasecmp(file.c_str() + file.size() - ending.size(), ending.data()) == 0;
}

bool has_key(std::string_view element, const std::string& file) {
  try {
    const auto object = parse_ordered_json(element, file);
    return std::ranges::any_of(kDocumentKeys, [&](const char* key) { return object.contains(key); });
  } catch (const ConfigError&) {
    return std::ranges::any_of(kDocumentKeys, [&](const char* key) {
      return element.find(fmt::format("\"{}\"", key)) != std::string_view::npos;
    });
  }
}

bool is_array_of_documents(const MappedFile& file) {
  constexpr std::string_view kSpaces = " \t\r\n", kByteOrderMark = "\xEF\xBB\xBF";
  std::string_view text = file.text();
  if (text.starts_with(kByteOrderMark)) text.remove_prefix(kByteOrderMark.size());
  const std::size_t array = text.find_first_not_of(kSpaces);
  if (array == std::string_view::npos || text[array] != '[') return false;
  const std::size_t object = text.find_first_not_of(kSpaces, array + 1);
  if (object == std::string_view::npos || text[object] != '{') return false;
  text.remove_prefix(object);
  return has_key(text.substr(0, find_element_end(text)), file.path());
}

}  // namespace

DocumentForm form_of_documents(const MappedFile& file) {
  if (has_ending(file.path(), ".jsonl")) return DocumentForm::lines;
  return has_ending(file.path(), ".json") && is_array_of_documents(file) ? DocumentForm::array
                                                                         : DocumentForm::text;
}

bool has_objects(const std::string& file) {
  return has_ending(file, ".jsonl") || (has_ending(file, ".json") && is_array_of_documents(MappedFile(file)));
}

std::size_t find_element_end(std::string_view text) {
  std::size_t depth = 0;
  bool is_quoted = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    switch (text[i]) {
      case '"':
        is_quoted = !is_quoted;
        break;
      case '\\':
        ++i;
        break;
      case '[':
      case '{':
        depth += is_quoted ? 0 : 1;
        break;
      case ',':
        if (depth == 0 && !is_quoted) return i;
        break;
      case ']':
        if (depth == 0 && !is_quoted) return i;
        [[fallthrough]];
      case '}':
        depth -= depth == 0 || is_quoted ? 0 : 1;
        break;
      default:
        break;
    }
  }
  return text.size();
}

}  // namespace strata
