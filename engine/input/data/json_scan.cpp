#include "engine/input/data/json_scan.h"

#include <algorithm>

namespace strata {
namespace {

/// The first character outside of quotes for which `is_end(character, depth)` holds, where `depth` brackets
/// are open in front of it; text.size(): there is none.
template <typename IsEnd>
std::size_t find_outside_quotes(std::string_view text, const IsEnd& is_end) {
  std::size_t depth = 0;
  bool is_quoted = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char character = text[i];
    if (character == '\\') {
      ++i;
    } else if (character == '"') {
      is_quoted = !is_quoted;
    } else if (!is_quoted) {
      if (is_end(character, depth)) return i;
      if (character == '[' || character == '{') ++depth;
      if ((character == ']' || character == '}') && depth > 0) --depth;
    }
  }
  return text.size();
}

/// Behind the quote that ends the text which begins with one; text.size() at most.
std::size_t find_text_end(std::string_view text) {
  std::size_t i = 1;
  while (i < text.size() && text[i] != '"') i += text[i] == '\\' ? 2 : 1;
  return std::min(i + 1, text.size());
}

}  // namespace

std::string_view without_spaces(std::string_view text) {
  return text.substr(std::min(text.find_first_not_of(kJsonSpaces), text.size()));
}

std::size_t find_element_end(std::string_view text) {
  return find_outside_quotes(text, [](char character, std::size_t depth) {
    return depth == 0 && (character == ',' || character == ']');
  });
}

std::size_t find_value_end(std::string_view text) {
  const std::size_t last = find_outside_quotes(text, [](char character, std::size_t depth) {
    return depth == 1 && (character == '}' || character == ']');
  });
  return last == text.size() ? std::string_view::npos : last + 1;
}

bool begins_object(std::string_view text) {
  if (!text.starts_with('{')) return false;
  text = without_spaces(text.substr(1));
  if (text.empty()) return true;
  if (text.front() != '"') return false;
  text = without_spaces(text.substr(find_text_end(text)));
  return text.empty() || text.front() == ':';
}

std::vector<RawMember> members_of(std::string_view text) {
  std::vector<RawMember> members;
  for (std::string_view rest = without_spaces(text.substr(1)); rest.starts_with('"');) {
    const std::size_t key_end = find_text_end(rest);
    const std::string_view key = rest.substr(1, key_end < 2 ? 0 : key_end - 2);
    rest = without_spaces(rest.substr(key_end));
    if (!rest.starts_with(':')) break;
    rest = without_spaces(rest.substr(1));
    const std::size_t end = find_outside_quotes(rest, [](char character, std::size_t depth) {
      return depth == 0 && (character == ',' || character == '}');
    });
    const std::string_view value = rest.substr(0, end);
    members.push_back({key, value.substr(0, value.find_last_not_of(kJsonSpaces) + 1)});
    rest = end < rest.size() && rest[end] == ',' ? without_spaces(rest.substr(end + 1)) : std::string_view();
  }
  return members;
}

}  // namespace strata
