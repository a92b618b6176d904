// The layout of Megatron's .idx (core/datasets/indexed_dataset.py):
// - the magic, version (8 bytes), type code (1), sequence count (8), document count plus one (8);
// - per sequence a length (int32);
// - per sequence a byte offset (int64);
// - per document the number of its first sequence (int64), and at last the number of sequences.
#pragma once

#include <cstdint>
#include <cstring>
#include <string_view>

#include "engine/input/data/mapped_file.h"

namespace strata {

constexpr std::string_view kMegatronMagic("MMIDIDX\0\0", 9);
constexpr std::int64_t kMegatronHeaderBytes = 9 + 8 + 1 + 8 + 8;

/// Stands at the end of an index whose tokens have marks in a .trained, behind what Megatron reads.
constexpr std::string_view kMegatronMarks = "STRATA.TRAINED";

/// The value at a byte offset, which need not be aligned. REQUIRES: it lies within the file.
template <typename T>
T load_at(const MappedFile& file, std::int64_t offset) {
  T value;
  std::memcpy(&value, file.bytes().data() + offset, sizeof(T));
  return value;
}

/// REQUIRES: the file has a header.
inline std::int64_t megatron_sequences(const MappedFile& index) {
  return load_at<std::int64_t>(index, 18);
}
inline std::int64_t megatron_document_entries(const MappedFile& index) {
  return load_at<std::int64_t>(index, 26);
}

/// REQUIRES: the counts are those of the file, and there is such an entry.
inline std::int64_t megatron_sequence_length(const MappedFile& index, std::int64_t sequence) {
  return load_at<std::int32_t>(index, kMegatronHeaderBytes + 4 * sequence);
}
inline std::int64_t megatron_sequence_offset(const MappedFile& index, std::int64_t sequence) {
  return load_at<std::int64_t>(index, kMegatronHeaderBytes + 4 * megatron_sequences(index) + 8 * sequence);
}
inline std::int64_t megatron_document_entry(const MappedFile& index, std::int64_t entry) {
  return load_at<std::int64_t>(index, kMegatronHeaderBytes + 12 * megatron_sequences(index) + 8 * entry);
}

}  // namespace strata
