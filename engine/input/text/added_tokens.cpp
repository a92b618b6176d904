#include "engine/input/text/added_tokens.h"

#include <fmt/format.h>

#include <algorithm>

#include "engine/input/text/bounds.h"
#include "engine/input/text/pieces.h"
#include "engine/input/text/unicode.h"
#include "engine/input/text/utf8.h"

namespace strata::text {
namespace {

AddedToken read_added_token(const JsonField& field) {
  field.allow_only({"id", "content", "single_word", "lstrip", "rstrip", "normalized", "special"});
  return {.text = field.at("content").text(),
          .id = field.at("id").id(),
          .single_word = field.at("single_word").flag(),
          .lstrip = field.at("lstrip").flag(),
          .rstrip = field.at("rstrip").flag(),
          .normalized = field.at("normalized").flag(),
          .special = field.at("special").flag()};
}

bool is_single_word(std::string_view text, std::size_t begin, std::size_t end) {
  if (begin > 0 && is_word(code_point_at(text, character_before(text, begin)))) return false;
  return end == text.size() || !is_word(code_point_at(text, end));
}

/// Where the whitespace begins that ends at `end`, from `begin` on.
std::size_t before_whitespace(std::string_view text, std::size_t begin, std::size_t end) {
  while (end > begin) {
    const std::size_t last = character_before(text, end);
    if (!is_whitespace(code_point_at(text, last))) break;
    end = last;
  }
  return end;
}

std::size_t behind_whitespace(std::string_view text, std::size_t begin) {
  while (begin < text.size() && is_whitespace(code_point_at(text, begin)))
    begin += character_bytes(text[begin]);
  return begin;
}

}  // namespace

AddedTokens::AddedTokens(const JsonField& field, const Vocabulary& vocabulary, const Normalize& normalize) {
  auto next_id = static_cast<std::int32_t>(vocabulary.size());
  for (const JsonField& element : field.elements()) {
    AddedToken token = read_added_token(element);
    if (token.text.empty()) continue;
    const auto known = by_text_.find(token.text);
    const auto in_model = vocabulary.id(token.text);
    token.id = known != by_text_.end() ? tokens_[known->second].id : in_model ? *in_model : next_id++;
    std::string form = token.text;
    if (token.normalized && normalize) {
      NormalizedText normalized{.text = token.text, .most_bytes = most_bytes_from(token.text.size())};
      normalize(normalized);
      form = std::move(normalized.text);
      if (form.empty()) element.refuse("nothing is left of this token when it is normalized");
    }
    if (token.special) special_texts_.insert(token.text);
    if (known != by_text_.end()) {
      tokens_[known->second] = std::move(token);
      forms_[known->second] = std::move(form);
      continue;
    }
    by_text_[token.text] = by_id_[token.id] = tokens_.size();
    tokens_.push_back(std::move(token));
    forms_.push_back(std::move(form));
  }
  index(field);
}

void AddedTokens::index(const JsonField& field) {
  std::vector<std::pair<std::string_view, std::int32_t>> raw, normalized;
  std::unordered_set<std::string_view> seen;
  for (std::size_t i = 0; i < tokens_.size(); ++i) {
    auto& keys = tokens_[i].normalized ? normalized : raw;
    keys.emplace_back(forms_[i], static_cast<std::int32_t>(i));
    if (tokens_[i].normalized && !seen.insert(forms_[i]).second) {
      field.refuse(
          fmt::format("token '{}' is normalized to '{}', as another one is", tokens_[i].text, forms_[i]));
    }
  }
  has_raw_ = !raw.empty();
  has_normalized_ = !normalized.empty();
  raw_ = ByteTrie(std::move(raw));
  normalized_ = ByteTrie(std::move(normalized));
}

std::optional<std::int32_t> AddedTokens::id(std::string_view token) const {
  const auto found = by_text_.find(std::string(token));
  if (found == by_text_.end()) return std::nullopt;
  return tokens_[found->second].id;
}

std::optional<std::string_view> AddedTokens::decoded(std::int32_t id) const {
  const auto found = by_id_.find(id);
  if (found == by_id_.end()) return std::nullopt;
  return forms_[found->second];
}

void AddedTokens::split(std::string_view text, bool in_normalized,
                        const std::function<void(std::string_view, std::int32_t)>& use) const {
  const auto use_range = [&](std::size_t begin, std::size_t end, std::int32_t id) {
    use(text.substr(begin, end - begin), id);
  };
  const ByteTrie& trie = in_normalized ? normalized_ : raw_;
  std::size_t written = 0, steps = 0;
  std::size_t whitespace_end = 0;  // of the whitespace that a token took last
  for (std::size_t i = 0; (in_normalized ? has_normalized_ : has_raw_) && i < text.size();) {
    std::size_t longest = 0;
    std::size_t found = 0;
    if (trie.begins_with(text[i])) {
      steps += trie.for_each_prefix(text.substr(i), [&](std::size_t bytes, std::int32_t token) {
        longest = bytes;
        found = static_cast<std::size_t>(token);
      });
      check_steps(steps, text.size());
    }
    if (longest == 0) {
      ++i;
      continue;
    }
    std::size_t begin = i, end = i + longest;
    i = end;
    const AddedToken& token = tokens_[found];
    if (token.single_word && !is_single_word(text, begin, end)) continue;
    if (token.lstrip) begin = std::max(before_whitespace(text, written, begin), written);
    if (token.rstrip) end = whitespace_end = behind_whitespace(text, std::max(end, whitespace_end));
    // The token before has taken all of it, as whitespace; without lstrip it is there once more, as in the
    // original.
    if (begin >= end) continue;
    if (written < begin) use_range(written, begin, Piece::kNoId);
    use_range(begin, end, token.id);
    written = end;
  }
  if (written < text.size()) use_range(written, text.size(), Piece::kNoId);
}

}  // namespace strata::text
