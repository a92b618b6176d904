// Byte-pair encoding: a word begins as its characters, and as long as two neighbours have a merge, the merge
// of the lowest rank, of equal ones the leftmost, joins them (Sennrich, Haddow and Birch 2016).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "engine/input/text/model.h"
#include "engine/input/text/pair_table.h"

namespace strata::text {

/// The file's settings, under the names that it has for them.
struct BpeSettings {
  std::optional<std::string> unk_token;
  std::string continuing_subword_prefix, end_of_word_suffix;
  bool fuse_unk = false, byte_fallback = false, ignore_merges = false;
};

class Bpe : public Model {
 public:
  /// Throws ConfigError for a merge of tokens that the vocabulary does not have.
  explicit Bpe(const JsonField& field);

  void encode(std::string_view word, std::vector<std::int32_t>& ids) const override;
  std::size_t independent_beginning(std::string_view word) const override;
  const Vocabulary& vocabulary() const override { return vocabulary_; }

 private:
  void read_merges(const JsonField& field);
  void insert_merge(const JsonField& field, std::size_t index, std::string_view left, std::string_view right);
  void note_neighbours();
  std::optional<std::int32_t> id_of_character(char32_t c) const;
  /// Ids of bytes as <0x..> tokens; nothing if the vocabulary lacks one of them.
  bool append_bytes(std::string_view text, std::vector<std::int32_t>& ids) const;
  std::int32_t unknown_id() const;
  /// The word's characters as ids, unknown ones by the file's rules.
  void append_characters(std::string_view word, std::vector<std::int32_t>& ids) const;

  BpeSettings settings_;
  Vocabulary vocabulary_;
  PairTable merges_;
  std::vector<std::string> merged_;              ///< texts of merges, until their neighbours are noted
  std::vector<std::int32_t> ids_of_characters_;  ///< by code point; negative: none
  std::vector<std::int32_t> ids_of_bytes_;       ///< <0x00> to <0xFF>; negative: none
  bool merges_unknown_ = false;                  ///< whether a merge joins what stands for unknown text
  bool has_independent_parts_ = false;
  std::unordered_set<std::uint64_t> merged_neighbours_;  ///< characters that stand side by side in a merge
};

/// Joins the ids from `begin` on by their merges.
void merge_all(const PairTable& merges, std::vector<std::int32_t>& ids, std::size_t begin);

}  // namespace strata::text
