// Documents of packed sequences as sequences of their own, for cuDNN: its plans are made for shapes, while
// how many documents there are and how long they are is data. Documents of about one length are a class. Each
// lies in a slot, which is a sequence of its class's length that begins with it, and a class has as many
// slots as sequences can have documents of it. Needs no CUDA.
#pragma once

#include <algorithm>
#include <optional>
#include <vector>

#include "engine/device/attention_calls.h"
#include "engine/device/cuda/attention_chunk.h"

namespace strata {

/// Documents of at most that many tokens have no slots: the kernels of attention.cu, whose tiles have as many
/// tokens, compute them.
constexpr std::int64_t kShortDocument = 64;
/// Divides the lengths of slots: cuDNN's tiles have as many tokens.
constexpr std::int64_t kSlotUnit = 128;

struct DocumentClass {
  std::int64_t length = 0;  ///< tokens of a slot
  std::int64_t below = 0;   ///< its documents have more tokens than that, and at most `length`
  std::int64_t slots = 0;   ///< for each sequence

  /// The slot of the document that begins with that token of its sequence. Two documents of a class begin
  /// more than `below` tokens apart, so none shares its slot, and nobody needs to count them.
  constexpr std::int64_t slot_of(std::int64_t first_token) const { return first_token / (below + 1); }
  friend bool operator==(const DocumentClass&, const DocumentClass&) = default;
};

/// Those of sequences of that many tokens, the longest first; none if all documents are short. Each is of
/// half the length of the one before, so slots of no class have twice a sequence's tokens, and their scores
/// are about the whole sequence's or fewer.
inline std::vector<DocumentClass> document_classes(std::int64_t sequence) {
  std::vector<DocumentClass> classes;
  if (sequence <= kShortDocument) return classes;
  for (std::int64_t length = align_up(sequence, kSlotUnit); length > kShortDocument;) {
    const std::int64_t below = length > kSlotUnit ? align_up(length / 2, kSlotUnit) : kShortDocument;
    classes.push_back({.length = length, .below = below, .slots = sequence / (below + 1)});
    length = below;
  }
  return classes;
}

/// The parts in which cuDNN computes a call within documents, in both passes; nothing if it does not.
inline std::optional<AttentionChunk> document_chunk(const AttentionShape& shape) {
  if (!cudnn_computes(shape) || document_classes(shape.sequence).empty()) return std::nullopt;
  return backward_chunk(shape);
}

/// The slots of a class for the sequences of a part.
inline AttentionShape slot_shape(const AttentionShape& part, const DocumentClass& documents) {
  AttentionShape slots = part;
  slots.batch = part.batch * documents.slots;
  slots.sequence = documents.length;
  return slots;
}

/// The most tokens that the slots of a class have, for each sequence.
inline std::int64_t most_slot_tokens(std::int64_t sequence) {
  std::int64_t most = 0;
  for (const DocumentClass& documents : document_classes(sequence))
    most = std::max(most, documents.slots * documents.length);
  return most;
}

/// The most that cuDNN's workspaces of a part's classes are taken to be.
inline Bytes slot_forward_bytes(const AttentionShape& part) {
  Bytes most = 0;
  for (const DocumentClass& documents : document_classes(part.sequence))
    most = std::max(most, cudnn_forward_bytes(slot_shape(part, documents)));
  return most;
}
inline Bytes slot_backward_bytes(const AttentionShape& part) {
  Bytes most = 0;
  for (const DocumentClass& documents : document_classes(part.sequence)) {
    const AttentionShape slots = slot_shape(part, documents);
    most = std::max(
        most, cudnn_workspace_bytes(slots, {slots.batch, slots.kv_heads, slots.heads / slots.kv_heads}));
  }
  return most;
}

}  // namespace strata
