// Lists the documents of sequences by their classes, and moves their rows into slots and back
// (document_classes.h). All that is data stays on the device: the host knows shapes alone, and what is
// launched follows from them.
#pragma once

#include <array>
#include <span>

#include "engine/device/cuda/context.h"
#include "engine/device/cuda/document_classes.h"
#include "engine/device/places.h"

namespace strata {

/// A slot without a document.
constexpr std::int32_t kEmptySlot = -1;
/// The place of a token that is not of a short document, in what list_documents_on_cuda() makes of places.
constexpr std::int32_t kNoPlace = -1;

/// The documents of a class: an entry for each slot of one sequence after another, on the device.
struct SlotList {
  DocumentClass documents;
  std::int32_t* lengths = nullptr;  ///< tokens of the document; 1 if there is none, as no sequence is empty
  std::int32_t* first_rows = nullptr;  ///< its first row among those of all sequences, or kEmptySlot
};

/// Sequences of 32768 tokens have as many; backward_chunk() has no part for longer ones.
constexpr std::size_t kMostDocumentClasses = 9;

/// All classes of some sequences, and their tokens' places in short documents: kNoPlace in others.
struct DocumentLists {
  std::array<SlotList, kMostDocumentClasses> classes = {};
  std::size_t count = 0;                 ///< of classes, the longest first
  std::int32_t* short_places = nullptr;  ///< [sequences · sequence]

  std::span<const SlotList> each() const { return {classes.data(), count}; }
};

/// Fills the lists. `places` are those of whole sequences.
void list_documents_on_cuda(const CudaContext& context, const Places& places, std::int64_t sequence,
                            const DocumentLists& lists);

/// An operand of a call within documents, [sequences · sequence, columns], and that of the slots,
/// [sequences · slots · length, columns], both of rows and columns of 16 bytes.
struct SlotOperand {
  Matrix of_call, of_slots;
};
constexpr std::size_t kMostSlotOperands = 5;

/// of_slots = the documents' rows, and zero behind each up to the next multiple of kSlotUnit; what is behind
/// that, and in empty slots, stays.
void move_into_slots_on_cuda(const CudaContext& context, const SlotList& list,
                             std::span<const SlotOperand> operands);
/// The documents' rows of of_call = those of of_slots. Other rows stay.
void move_from_slots_on_cuda(const CudaContext& context, const SlotList& list,
                             std::span<const SlotOperand> operands);

/// The same for statistics, fp32 [sequences · heads, sequence] and [sequences · slots · heads, length].
void move_statistics_into_slots_on_cuda(const CudaContext& context, const SlotList& list,
                                        const SlotOperand& statistics, std::int64_t heads);
void move_statistics_from_slots_on_cuda(const CudaContext& context, const SlotList& list,
                                        const SlotOperand& statistics, std::int64_t heads);

}  // namespace strata
