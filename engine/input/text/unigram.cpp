#include "engine/input/text/unigram.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <limits>

#include "base/error.h"
#include "base/nth.h"
#include "engine/input/text/bounds.h"
#include "engine/input/text/utf8.h"

namespace strata::text {
namespace {

/// How much less than the least likely token an unknown character is worth (sentencepiece,
/// unigram_model.cc, kUnkPenalty).
constexpr double kUnknownPenalty = 10.0;

/// The score as the original's JSON reader reads it. That reader (serde_json without float_roundtrip) divides
/// the digits by a power of ten, and may miss the nearest number by a bit. Such a bit decides between two
/// ways to write a word that score alike. Files have the shortest digits of a score.
double as_the_original_reads(double score) {
  std::array<char, 32> text;
  const auto end =
      std::to_chars(text.begin(), text.end(), std::abs(score), std::chars_format::scientific).ptr;
  const char* mark = std::find(text.begin(), end, 'e');
  std::uint64_t digits = 0;
  int exponent = 0;
  std::from_chars(mark[1] == '+' ? mark + 2 : mark + 1, end, exponent);
  for (const char* each = text.begin(); each != mark; ++each) {
    if (*each == '.') continue;
    digits = 10 * digits + static_cast<std::uint64_t>(*each - '0');
    if (each != text.begin()) --exponent;
  }
  const double power = std::pow(10.0, std::abs(exponent));
  const double read =
      exponent < 0 ? static_cast<double>(digits) / power : static_cast<double>(digits) * power;
  return std::copysign(read, score);
}

Vocabulary read_vocabulary(const JsonField& field, std::vector<double>& scores) {
  if (!field.value().is_array()) field.refuse("a list of tokens and scores is expected here");
  std::vector<std::string> tokens;
  for (const nlohmann::json& entry : field.value()) {
    const bool fits = entry.is_array() && entry.size() == 2 && entry[0].is_string() && entry[1].is_number();
    if (!fits) field.refuse_below(fmt::format("[{}]", tokens.size()), "a token is ['text', score]");
    tokens.push_back(entry[0].get<std::string>());
    scores.push_back(as_the_original_reads(entry[1].get<double>()));
  }
  return Vocabulary(std::move(tokens));
}

}  // namespace

Unigram::Unigram(const JsonField& field)
    : vocabulary_(read_vocabulary(field.at("vocab"), scores_)),
      byte_fallback_(field.flag("byte_fallback", false)) {
  field.allow_only({"type", "vocab", "unk_id", "byte_fallback"});
  if (const auto unknown = field.find("unk_id")) {
    unknown_id_ = unknown->id();
    if (*unknown_id_ >= vocabulary_.end()) unknown->refuse("the vocabulary has no such id");
  }
  double least = std::numeric_limits<double>::infinity();
  for (const double score : scores_) least = std::min(least, score);
  unknown_score_ = least - kUnknownPenalty;
  std::vector<std::pair<std::string_view, std::int32_t>> keys;
  for (std::int32_t id = 0; id < vocabulary_.end(); ++id) {
    const std::string_view token = *vocabulary_.token(id);
    if (!token.empty()) keys.emplace_back(token, id);
  }
  trie_ = ByteTrie(std::move(keys));
  for (int byte = 0; byte < 256; ++byte) {
    ids_of_bytes_.push_back(vocabulary_.id(fmt::format("<0x{:02X}>", byte)).value_or(-1));
  }
}

std::int32_t Unigram::unknown_id() const {
  if (unknown_id_) return *unknown_id_;
  throw ConfigError("the tokenizer's model.unk_id is null, and a text has a character that no token has");
}

void Unigram::find_best(std::string_view word, std::vector<Best>& best) const {
  best.assign(word.size() + 1, Best());
  const auto offer = [&](std::size_t end, double score, std::size_t begin, std::int32_t id) {
    Best& there = best[end];
    if (there.begin < 0 || score > there.score) there = {score, static_cast<std::int32_t>(begin), id};
  };
  std::size_t steps = 0;
  for (std::size_t begin = 0; begin < word.size();) {
    const double score = best[begin].score;
    const std::size_t character = character_bytes(word[begin]);
    bool is_character_known = false;
    steps += trie_.for_each_prefix(word.substr(begin), [&](std::size_t bytes, std::int32_t id) {
      offer(begin + bytes, nth(scores_, id) + score, begin, id);
      if (bytes == character) is_character_known = true;
    });
    check_steps(steps, word.size());
    if (!is_character_known) offer(begin + character, unknown_score_ + score, begin, unknown_id());
    begin += character;
  }
}

void Unigram::append(std::string_view text, std::vector<std::int32_t>& ids) const {
  if (const auto id = vocabulary_.id(text)) {
    ids.push_back(*id);
    return;
  }
  const auto id_of = [this](char byte) { return ids_of_bytes_[static_cast<unsigned char>(byte)]; };
  if (byte_fallback_ && std::ranges::none_of(text, [&](char byte) { return id_of(byte) < 0; })) {
    for (const char byte : text) ids.push_back(id_of(byte));
    return;
  }
  ids.push_back(unknown_id());
}

void Unigram::encode(std::string_view word, std::vector<std::int32_t>& ids) const {
  thread_local std::vector<Best> best;
  thread_local std::vector<std::string_view> parts;
  find_best(word, best);
  parts.clear();
  bool is_last_unknown = false;
  for (std::size_t end = word.size(); end > 0;) {
    const Best& last = best[end];
    const auto begin = static_cast<std::size_t>(last.begin);
    const bool is_unknown = last.id == unknown_id_;
    if (is_unknown && is_last_unknown) {  // unknown parts in a row are one
      parts.back() = word.substr(begin, end - begin + parts.back().size());
    } else {
      parts.push_back(word.substr(begin, end - begin));
    }
    is_last_unknown = is_unknown;
    end = begin;
  }
  for (std::size_t i = parts.size(); i-- > 0;) append(parts[i], ids);
}

}  // namespace strata::text
