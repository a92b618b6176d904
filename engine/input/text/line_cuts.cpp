#include "engine/input/text/line_cuts.h"

#include <algorithm>
#include <array>
#include <optional>
#include <string>

#include "engine/input/text/json_field.h"
#include "engine/input/text/unicode.h"
#include "engine/input/text/utf8.h"

namespace strata::text {
namespace {

/// In each, of a line's end between two that are no whitespace, either what stands before takes it or
/// `\s*[\r\n]+` does; no alternative takes it together with what follows, or looks beyond that.
constexpr std::array<std::string_view, 3> kPatterns = {
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)"};

/// Empty if the part is not there.
std::string type_of(const nlohmann::json& part) {
  return part.is_object() ? part.value("type", "") : "";
}

bool keeps_lines_apart(const nlohmann::json& normalizer) {
  const std::string type = type_of(normalizer);
  if (type == "Sequence") return std::ranges::all_of(normalizer.at("normalizers"), keeps_lines_apart);
  return type == "NFC" || type == "NFD" || normalizer.is_null();
}

bool splits_behind_lines(const nlohmann::json& first) {
  const std::string type = type_of(first);
  if (type == "ByteLevel")
    return !first.at("add_prefix_space") && JsonField(first, "").flag("use_regex", true);
  if (type == "WhitespaceSplit") return true;
  if (type != "Split" || first.at("behavior") != "Isolated" || first.at("invert")) return false;
  const nlohmann::json& pattern = first.at("pattern");
  return pattern.contains("Regex") && std::ranges::find(kPatterns, pattern.at("Regex")) != kPatterns.end();
}

/// Whether it asks where in the text a piece stands.
bool asks_for_beginning(const nlohmann::json& pre_tokenizer) {
  return type_of(pre_tokenizer) == "Metaspace" || type_of(pre_tokenizer) == "Sequence";
}

bool splits_behind_lines_first(const nlohmann::json& pre_tokenizer) {
  if (type_of(pre_tokenizer) != "Sequence") return splits_behind_lines(pre_tokenizer);
  const nlohmann::json& steps = pre_tokenizer.at("pretokenizers");
  return !steps.empty() && splits_behind_lines(steps.front()) &&
         std::ranges::none_of(steps, asks_for_beginning);
}

bool reaches_over_lines(const nlohmann::json& token) {
  return token.value("lstrip", false) ||
         token.at("content").get_ref<const std::string&>().find('\n') != std::string::npos;
}

/// Nothing if the bytes are no character.
std::optional<char32_t> character(std::string_view bytes) {
  std::string buffer;
  if (bytes.empty() || make_valid(bytes, buffer).data() != bytes.data()) return std::nullopt;
  return code_point_at(bytes, 0);
}

std::optional<char32_t> character_at(std::string_view text, std::size_t begin) {
  if (begin == text.size()) return std::nullopt;
  return character(text.substr(begin, character_bytes(text[begin])));
}

std::optional<char32_t> character_that_ends(std::string_view text, std::size_t end) {
  std::size_t begin = end;
  while (begin > 0 && end - begin < 4) {
    --begin;
    if ((static_cast<unsigned char>(text[begin]) & 0xc0) != 0x80)
      return character(text.substr(begin, end - begin));
  }
  return std::nullopt;
}

}  // namespace

bool has_line_cuts(const nlohmann::json& tokenizer) {
  const auto part = [&](const char* key) { return tokenizer.value(key, nlohmann::json()); };
  return keeps_lines_apart(part("normalizer")) && splits_behind_lines_first(part("pre_tokenizer")) &&
         std::ranges::none_of(part("added_tokens"), reaches_over_lines);
}

std::size_t find_line_cut(std::string_view text, std::size_t from) {
  while (true) {
    const std::size_t line_end = text.find('\n', from);
    if (line_end == std::string_view::npos) return text.size();
    from = line_end + 1;
    const std::optional<char32_t> before = character_that_ends(text, line_end),
                                  behind = character_at(text, from);
    if (before && behind && (is_word(*before) || is_punctuation(*before)) && is_word(*behind)) return from;
  }
}

}  // namespace strata::text
