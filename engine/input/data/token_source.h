// The tokens of many files as one long sequence, read from memory-mapped files. Every id that is read is
// checked against the model's vocabulary, since an id beyond it would read past the embedding. Immutable;
// read from any thread.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "engine/input/data/document_borders.h"
#include "engine/input/data/mapped_file.h"

namespace strata {

/// How a file stores a token id; little-endian.
enum class TokenType : std::uint8_t { uint8, uint16, uint32, int32, int64 };

constexpr std::int64_t size_of(TokenType type) {
  switch (type) {
    case TokenType::uint8:
      return 1;
    case TokenType::uint16:
      return 2;
    case TokenType::uint32:
    case TokenType::int32:
      return 4;
    case TokenType::int64:
      return 8;
  }
  return 0;
}

/// What stands in place of a target that is not trained on: kNoTarget of engine/device/loss_calls.h.
constexpr std::int32_t kUntrained = -1;

/// A run of token ids in one file, and possibly a 0 after them that the file does not hold.
struct TokenSegment {
  std::shared_ptr<const MappedFile> file;
  std::int64_t offset = 0;  ///< bytes from the start of the file
  std::int64_t ids = 0;
  TokenType type = TokenType::uint8;
  bool terminated = false;
  std::shared_ptr<const MappedFile> trained = {};  ///< a byte for each id: 0 if it is not; null: all are
  std::shared_ptr<const MappedFile> index = {};    ///< Megatron's; null: it has none

  std::int64_t tokens() const { return ids + (terminated ? 1 : 0); }
};

class TokenSource {
 public:
  /// Checks the first ids of every file (all of a small corpus); the others are checked when they are read.
  /// Throws ConfigError for an id that is not below `vocabulary`.
  /// `by_documents`: their borders are asked for. Then each segment without an index has to be one document,
  /// as a terminated one is.
  TokenSource(std::vector<TokenSegment> segments, std::int64_t vocabulary, bool by_documents = false);

  std::int64_t tokens() const { return starts_.back(); }

  /// Writes tokens [first, first + out.size()). Allocates nothing. REQUIRES: the range lies within tokens().
  /// Throws ConfigError that names file and position for an id that is not below the vocabulary.
  void read(std::int64_t first, std::span<std::int32_t> out) const;
  /// Puts kUntrained in the place of each that is not trained on, where `targets` are tokens from `first` on.
  void leave_out_untrained(std::int64_t first, std::span<std::int32_t> targets) const;
  /// How many of tokens [first, first + count) are trained on.
  std::int64_t trained(std::int64_t first, std::int64_t count) const;
  bool are_all_trained() const;
  /// How many documents there are, with the empty ones of an index; nothing: a file does not say it.
  std::optional<std::int64_t> documents() const;
  /// Texts whose byte order mark was left out.
  std::int64_t byte_order_marks() const;

  // REQUIRES: by_documents.

  /// Writes each token's place in its document, of tokens [first, first + out.size()); of a document that
  /// begins before token `cut` those behind it are as if it began there. Allocates nothing.
  void read_places(std::int64_t first, std::int64_t cut, std::span<std::int32_t> out) const;
  /// Writes how many tokens of a `window` [first, second) each token's document has, of tokens
  /// [first, first + out.size()), which are of the window. Allocates nothing.
  void read_lengths(std::int64_t first, std::pair<std::int64_t, std::int64_t> window,
                    std::span<std::int32_t> out) const;
  /// Puts kUntrained in the place of each that begins a document, where `targets` are tokens from `first` on.
  void leave_out_beginnings(std::int64_t first, std::span<std::int32_t> targets) const;
  /// The first token of the document that has this one, and the first behind it.
  std::int64_t begin_of_document(std::int64_t token) const;
  std::int64_t end_of_document(std::int64_t token) const;
  /// How many of tokens [first, first + count) are trained on and begin no document.
  std::int64_t trained_within_documents(std::int64_t first, std::int64_t count) const;

 private:
  void check_beginnings() const;
  /// Calls visit(segment, first id in it, ids, place in the range) for each stretch of ids in a range.
  template <typename Visit>
  void for_stretches(std::int64_t first, std::int64_t count, const Visit& visit) const;

  /// Calls visit(first token of the document, its first token in the range, tokens in the range) for each
  /// document of a range.
  template <typename Visit>
  void for_documents(std::int64_t first, std::int64_t count, const Visit& visit) const;

  std::vector<TokenSegment> segments_;
  std::vector<std::optional<DocumentBorders>> borders_;  ///< of each segment; nothing: it is one document
  std::vector<std::int64_t> starts_;  ///< first token of each segment, then the number of tokens
  std::int64_t vocabulary_;
};

}  // namespace strata
