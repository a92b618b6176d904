#include "engine/input/text/bpe.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "engine/input/text/utf8.h"

namespace strata::text {
namespace {

BpeSettings read_settings(const JsonField& field) {
  field.allow_only({"type", "dropout", "unk_token", "continuing_subword_prefix", "end_of_word_suffix",
                    "fuse_unk", "byte_fallback", "ignore_merges", "vocab", "merges"});
  if (const auto dropout = field.find("dropout")) {
    if (!dropout->value().is_number() || dropout->value().get<double>() != 0) {
      dropout->refuse("merges that are left out by chance are not supported: write null here");
    }
  }
  BpeSettings settings;
  if (const auto unknown = field.find("unk_token")) settings.unk_token = unknown->text();
  settings.continuing_subword_prefix = field.text("continuing_subword_prefix", "");
  settings.end_of_word_suffix = field.text("end_of_word_suffix", "");
  settings.fuse_unk = field.flag("fuse_unk", false);
  settings.byte_fallback = field.flag("byte_fallback", false);
  settings.ignore_merges = field.flag("ignore_merges", false);
  return settings;
}

std::uint64_t neighbours(char32_t left, char32_t right) {
  return static_cast<std::uint64_t>(left) << 32 | right;
}

}  // namespace

Bpe::Bpe(const JsonField& field)
    : settings_(read_settings(field)), vocabulary_(Vocabulary::read(field.at("vocab"))) {
  for (std::int32_t id = 0; id < vocabulary_.end(); ++id) {
    const auto token = vocabulary_.token(id);
    if (!token || token->empty() || character_bytes(token->front()) != token->size()) continue;
    const std::size_t c = code_point_at(*token, 0);
    if (c >= ids_of_characters_.size()) ids_of_characters_.resize(c + 1, -1);
    ids_of_characters_[c] = id;
  }
  for (int byte = 0; byte < 256; ++byte) {
    ids_of_bytes_.push_back(vocabulary_.id(fmt::format("<0x{:02X}>", byte)).value_or(-1));
  }
  read_merges(field.at("merges"));
  note_neighbours();
}

void Bpe::read_merges(const JsonField& field) {
  if (!field.value().is_array()) field.refuse("a list of merges is expected here");
  merges_ = PairTable(field.value().size());
  std::size_t index = 0;
  for (const nlohmann::json& merge : field.value()) {
    const std::size_t place = index++;
    if (merge.is_array() && merge.size() == 2 && merge[0].is_string() && merge[1].is_string()) {
      insert_merge(field, place, merge[0].get_ref<const std::string&>(),
                   merge[1].get_ref<const std::string&>());
      continue;
    }
    if (!merge.is_string()) field.refuse_below(fmt::format("[{}]", place), "a merge is 'a b' or ['a', 'b']");
    const std::string_view text = merge.get_ref<const std::string&>();
    if (text.starts_with("#version")) continue;  // the first line of GPT-2's merges.txt
    const std::size_t space = text.find(' ');
    if (space == std::string_view::npos || text.find(' ', space + 1) != std::string_view::npos) {
      field.refuse_below(fmt::format("[{}]", place), "a merge is two tokens with a space between them");
    }
    insert_merge(field, place, text.substr(0, space), text.substr(space + 1));
  }
}

void Bpe::insert_merge(const JsonField& field, std::size_t index, std::string_view left,
                       std::string_view right) {
  const auto id_of = [&](std::string_view token) {
    const auto id = vocabulary_.id(token);
    if (!id)
      field.refuse_below(fmt::format("[{}]", index),
                         fmt::format("token '{}' is not in the vocabulary", token));
    return *id;
  };
  const std::size_t prefix = settings_.continuing_subword_prefix.size();
  if (right.size() < prefix) {
    field.refuse_below(fmt::format("[{}]", index),
                       "the second token does not have the prefix of those that continue");
  }
  std::string merged(left);
  merged.append(right.substr(prefix));
  const std::int32_t left_id = id_of(left), right_id = id_of(right);
  const auto is_byte = [this](std::int32_t id) {
    return std::ranges::find(ids_of_bytes_, id) != ids_of_bytes_.end();
  };
  if (settings_.byte_fallback && (is_byte(left_id) || is_byte(right_id))) merges_unknown_ = true;
  if (left == settings_.unk_token || right == settings_.unk_token) merges_unknown_ = true;
  merges_.insert(left_id, right_id, {static_cast<std::uint32_t>(index), id_of(merged)});
  merged_.push_back(std::move(merged));
}

/// A word may be cut between two characters that stand side by side in no merge: no token goes across. That
/// holds if what a word begins as are the characters of its text, so not at a character that is unknown.
void Bpe::note_neighbours() {
  has_independent_parts_ = !settings_.ignore_merges && settings_.continuing_subword_prefix.empty() &&
                           settings_.end_of_word_suffix.empty() && !merges_unknown_;
  if (has_independent_parts_) {
    for (const std::string& merged : merged_) {
      std::optional<char32_t> last;
      for_each_character(merged, [&](char32_t c, std::size_t, std::size_t) {
        if (last) merged_neighbours_.insert(neighbours(*last, c));
        last = c;
      });
    }
  }
  merged_ = {};
}

std::optional<std::int32_t> Bpe::id_of_character(char32_t c) const {
  if (c >= ids_of_characters_.size() || ids_of_characters_[c] < 0) return std::nullopt;
  return ids_of_characters_[c];
}

std::size_t Bpe::independent_beginning(std::string_view word) const {
  if (!has_independent_parts_) return word.size();
  char32_t last = code_point_at(word, 0);
  bool is_last_known = id_of_character(last).has_value();
  for (std::size_t i = character_bytes(word[0]); i < word.size(); i += character_bytes(word[i])) {
    const char32_t c = code_point_at(word, i);
    const bool is_known = id_of_character(c).has_value();
    if (is_known && is_last_known && !merged_neighbours_.contains(neighbours(last, c))) return i;
    last = c;
    is_last_known = is_known;
  }
  return word.size();
}

bool Bpe::append_bytes(std::string_view text, std::vector<std::int32_t>& ids) const {
  const auto id = [this](char byte) { return ids_of_bytes_[static_cast<unsigned char>(byte)]; };
  if (std::ranges::any_of(text, [&](char byte) { return id(byte) < 0; })) return false;
  for (const char byte : text) ids.push_back(id(byte));
  return true;
}

std::int32_t Bpe::unknown_id() const {
  const auto id = vocabulary_.id(*settings_.unk_token);
  if (id) return *id;
  throw ConfigError(
      fmt::format("the tokenizer's model.unk_token '{}' is not in its vocabulary, and a text has a "
                  "character that is not, either",
                  *settings_.unk_token));
}

void Bpe::append_characters(std::string_view word, std::vector<std::int32_t>& ids) const {
  const bool is_decorated =
      !settings_.continuing_subword_prefix.empty() || !settings_.end_of_word_suffix.empty();
  bool is_unknown_pending =
      false;  // unknown characters whose token is written once it is clear where it ends
  const auto write_pending = [&] {
    if (is_unknown_pending) ids.push_back(unknown_id());
    is_unknown_pending = false;
  };
  std::string decorated;
  for_each_character(word, [&](char32_t c, std::size_t begin, std::size_t end) {
    std::string_view text = word.substr(begin, end - begin);
    if (is_decorated) {
      decorated = begin > 0 ? settings_.continuing_subword_prefix : "";
      decorated.append(text);
      if (end == word.size()) decorated.append(settings_.end_of_word_suffix);
      text = decorated;
    }
    if (const auto id = is_decorated ? vocabulary_.id(text) : id_of_character(c)) {
      write_pending();
      ids.push_back(*id);
      return;
    }
    // As in the original, bytes go before a pending unknown token.
    if (settings_.byte_fallback && append_bytes(text, ids)) return;
    if (!settings_.unk_token) return;
    if (!settings_.fuse_unk) write_pending();
    is_unknown_pending = true;
  });
  write_pending();
}

void Bpe::encode(std::string_view word, std::vector<std::int32_t>& ids) const {
  if (settings_.ignore_merges) {
    if (const auto id = vocabulary_.id(word)) {
      ids.push_back(*id);
      return;
    }
  }
  const std::size_t begin = ids.size();
  append_characters(word, ids);
  merge_all(merges_, ids, begin);
}

}  // namespace strata::text
