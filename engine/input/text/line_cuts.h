// Where a long text may be cut without changing its ids, so that it need not be encoded whole. Plain
// functions.
#pragma once

#include <cstddef>
#include <string_view>

#include <nlohmann/json.hpp>

namespace strata::text {

/// Whether texts that find_line_cut() cuts have the ids of their parts, by what a tokenizer.json says:
/// - no normalizer, or one that never joins a line's end with the next line's beginning: NFC, NFD;
/// - no added token that reaches over a line's end, or takes the whitespace before it;
/// - a first pre-tokenizer that always splits there, whatever stands further away: GPT-2's, those of Llama 3,
///   Qwen2 and Mistral's Tekken, or one that splits at whitespace. What follows it sees each piece by itself.
bool has_line_cuts(const nlohmann::json& tokenizer);

/// The first place from `from` on behind a line's end that stands behind a letter, digit or punctuation, and
/// before a letter or digit; the text's size if there is none.
std::size_t find_line_cut(std::string_view text, std::size_t from);

}  // namespace strata::text
