// Which texts a model computes, and so what its tokens say of where they stand. Values.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace strata {

/// A text is a sequence, a sample, or a document in a sequence.
struct SequenceForm {
  bool within_documents = false;  ///< attention and positions are those of a sequence's documents, each alone
  /// Texts of up to this many tokens rotate otherwise than longer ones, and the model computes both. 0: all
  /// its texts rotate alike.
  std::int64_t short_length = 0;

  bool is_by_length() const { return short_length > 0; }
  /// Whether tokens say where they stand.
  bool has_places() const { return within_documents || is_by_length(); }
};

/// What tokens say. A span is empty if the model does not read it.
struct TokenPlaces {
  std::span<std::int32_t> places;       ///< in documents
  std::span<std::int32_t> rotary_rows;  ///< of the tables, two for each place: rotary_row()
};

/// Both as parts of one array, which has nothing else.
inline TokenPlaces token_places(const SequenceForm& form, std::span<std::int32_t> array) {
  if (!form.is_by_length()) return {form.within_documents ? array : array.first(0), {}};
  const std::size_t places = form.within_documents ? array.size() / 2 : 0;
  return {array.first(places), array.subspan(places)};
}

}  // namespace strata
