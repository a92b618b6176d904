// Text as token ids and back, by a tokenizer.json of Hugging Face: the same ids and texts as the Python
// package tokenizers gives. All that the file asks for is done or refused when it is read, but for its
// truncation and padding, which are about batches and are not looked at. Immutable; use from any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/input/text/added_tokens.h"

namespace strata::text {

/// Whether the post-processor's special tokens, a text's begin and end say, are put around a text.
enum class AddSpecial : std::uint8_t { no, yes };

class Tokenizer {
 public:
  /// Throws ConfigError that names the file and the place in it for what is damaged or not supported, IoError
  /// if it cannot be read.
  static Tokenizer read(const std::filesystem::path& file);
  /// Reads the text of a tokenizer.json; errors name `name`. Throws ConfigError as read() does.
  static Tokenizer parse(std::string_view json, const std::string& name);

  Tokenizer(Tokenizer&&) noexcept;
  Tokenizer& operator=(Tokenizer&&) noexcept;
  ~Tokenizer();

  /// Appends the text's ids. Special tokens' texts within the text become their ids. Bytes that are no UTF-8
  /// are taken for U+FFFD, one for each longest beginning of a character, as Python's errors='replace' does.
  /// Throws ConfigError if the text has something unknown for which the file has no token, and for 2 GiB of
  /// text.
  void encode(std::string_view text, std::vector<std::int32_t>& ids, AddSpecial add_special) const;

  /// The post-processor's special tokens before a text.
  std::vector<std::int32_t> ids_before_text() const;

  /// Whether the ids of a text are those of its parts, where find_line_cut() cuts it.
  bool has_line_cuts() const;

  /// Where a section of a text begins that is normalized by itself: at its first byte, and where an added
  /// token stands that is looked for before. REQUIRES: the text is UTF-8.
  std::vector<std::size_t> section_begins(std::string_view text) const;

  /// The ids' text, which is UTF-8; ids without a token are left out, and special tokens are if
  /// `skip_special`.
  std::string decode(std::span<const std::int32_t> ids, bool skip_special) const;

  /// What the token says in a text, in bytes, which need not be whole characters: of a model that writes
  /// spaces as U+2581 with spaces. Empty if there is no such token.
  std::string spelling(std::int32_t id) const;
  /// Whether it is the id of one of added_tokens().
  bool is_added(std::int32_t id) const;

  /// How many ids have a token.
  std::size_t vocabulary_size() const;
  /// One more than the largest id that encode() gives: what a model's embedding has rows for at least.
  std::int32_t end_of_ids() const;
  std::optional<std::int32_t> id_of(std::string_view token) const;
  /// Special tokens and those that were added to a finished vocabulary, in the file's order.
  const std::vector<AddedToken>& added_tokens() const;

 private:
  struct Parts;
  class Encoder;
  explicit Tokenizer(std::unique_ptr<Parts> parts);

  std::unique_ptr<Parts> parts_;
};

}  // namespace strata::text
