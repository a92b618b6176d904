#include "engine/device/cuda/document_slots.h"

#include <algorithm>
#include <cassert>

#include "engine/device/cuda/element.cuh"
#include "engine/device/cuda/launch.cuh"
#include "engine/device/places.h"

namespace strata {
namespace {

constexpr int kListThreads = 512;
constexpr int kMoveThreads = 128;
constexpr int kMovedRows = 16;  ///< of a slot, by one block
static_assert(kSlotUnit % kMovedRows == 0);

/// A sequence per block. A document is entered by its last token, which knows its length.
__global__ void __launch_bounds__(kListThreads)
    list_documents_kernel(DocumentLists lists, const std::int32_t* places, int sequence) {
  const std::int64_t first_row = std::int64_t{blockIdx.x} * sequence;
#pragma unroll
  for (std::size_t c = 0; c < kMostDocumentClasses; ++c) {
    const SlotList& list = lists.classes[c];
    if (c >= lists.count) continue;
    const std::int64_t first_slot = blockIdx.x * list.documents.slots;
    for (std::int64_t slot = threadIdx.x; slot < list.documents.slots; slot += kListThreads) {
      list.lengths[first_slot + slot] = 1;
      list.first_rows[first_slot + slot] = kEmptySlot;
    }
  }
  __syncthreads();
  for (int token = static_cast<int>(threadIdx.x); token < sequence; token += kListThreads) {
    const std::int32_t place = places[first_row + token];
    const int first = token - place;
    const auto begins = [&](int other) { return other == sequence || places[first_row + other] == 0; };
    int end = token + 1;  // of the document if it is short, and else of what is too long for that
    while (end - first <= kShortDocument && !begins(end)) ++end;
    const bool is_short = end - first <= kShortDocument;
    lists.short_places[first_row + token] = is_short ? place : kNoPlace;
    if (is_short || !begins(token + 1)) continue;
    const int length = place + 1;
#pragma unroll
    for (std::size_t c = 0; c < kMostDocumentClasses; ++c) {
      const SlotList& list = lists.classes[c];
      if (c >= lists.count || length <= list.documents.below || length > list.documents.length) continue;
      const std::int64_t slot = blockIdx.x * list.documents.slots + list.documents.slot_of(first);
      list.lengths[slot] = length;
      list.first_rows[slot] = static_cast<std::int32_t>(first_row + first);
    }
  }
}

/// 16 bytes of a row.
using Vector = Run<std::uint32_t, 4>;

/// SlotOperand in vectors.
struct VectorRows {
  Rows<Vector> of_call, of_slots;
  int columns;
};
using VectorOperands = std::array<VectorRows, kMostSlotOperands>;

/// blockIdx.y chooses among the operands: an index that is not constant would put them on the stack.
__device__ VectorRows operand_of_block(const VectorOperands& operands) {
  VectorRows chosen = operands[0];
#pragma unroll
  for (unsigned i = 1; i < kMostSlotOperands; ++i) {
    if (blockIdx.y == i) chosen = operands[i];
  }
  return chosen;
}

/// kMovedRows rows of a slot per block.
template <bool into_slots>
__global__ void __launch_bounds__(kMoveThreads) move_rows_kernel(SlotList list, VectorOperands operands) {
  const int slot_length = static_cast<int>(list.documents.length);
  const int blocks_of_slot = slot_length / kMovedRows;
  const std::int64_t slot = blockIdx.x / blocks_of_slot;
  const int block_row = static_cast<int>(blockIdx.x % blocks_of_slot) * kMovedRows;
  const std::int32_t first_row = list.first_rows[slot];
  const int length = list.lengths[slot];
  const int end = into_slots ? static_cast<int>(align_up(length, kSlotUnit)) : length;
  if (first_row == kEmptySlot || block_row >= end) return;
  const VectorRows operand = operand_of_block(operands);
  for (int i = static_cast<int>(threadIdx.x); i < kMovedRows * operand.columns; i += kMoveThreads) {
    const int row = block_row + i / operand.columns, column = i % operand.columns;
    Vector* of_call = operand.of_call.row(first_row + row) + column;
    Vector* of_slots = operand.of_slots.row(slot * slot_length + row) + column;
    if constexpr (into_slots) {
      store_run(row < length ? load_run<4>(of_call->values) : Vector{}, of_slots->values);
    } else {
      if (row < length) store_run(load_run<4>(of_slots->values), of_call->values);
    }
  }
}

/// A head of a slot per block.
template <bool into_slots>
__global__ void __launch_bounds__(kMoveThreads)
    move_statistics_kernel(SlotList list, Rows<float> of_call, Rows<float> of_slots, int sequence,
                           int heads) {
  const std::int64_t slot = blockIdx.x / heads;
  const int head = static_cast<int>(blockIdx.x % heads);
  const std::int32_t first_row = list.first_rows[slot];
  if (first_row == kEmptySlot) return;
  const int length = list.lengths[slot];
  const int end = into_slots ? static_cast<int>(align_up(length, kSlotUnit)) : length;
  float* document = of_call.row(std::int64_t{first_row / sequence} * heads + head) + first_row % sequence;
  float* in_slot = of_slots.row(slot * heads + head);
  for (int token = static_cast<int>(threadIdx.x); token < end; token += kMoveThreads) {
    if constexpr (into_slots) {
      in_slot[token] = token < length ? document[token] : 0;
    } else {
      document[token] = in_slot[token];
    }
  }
}

Rows<Vector> vectors_of(const Matrix& matrix) {
  constexpr std::int64_t kBytes = sizeof(Vector);
  const std::int64_t stride = matrix.stride * size_of(matrix.dtype);
  assert(stride % kBytes == 0 && is_aligned<1>(static_cast<const Vector*>(matrix.data)));
  return {static_cast<Vector*>(matrix.data), stride / kBytes};
}

template <bool into_slots>
void move_rows(const CudaContext& context, const SlotList& list, std::span<const SlotOperand> operands) {
  assert(!operands.empty() && operands.size() <= kMostSlotOperands);
  VectorOperands vectors = {};
  for (std::size_t i = 0; i < operands.size(); ++i) {
    const Matrix& of_slots = operands[i].of_slots;
    vectors[i] = {
        vectors_of(operands[i].of_call), vectors_of(of_slots),
        static_cast<int>(of_slots.columns * size_of(of_slots.dtype) / static_cast<Bytes>(sizeof(Vector)))};
  }
  launch(move_rows_kernel<into_slots>,
         dim3(static_cast<unsigned>(operands[0].of_slots.rows / kMovedRows),
              static_cast<unsigned>(operands.size())),
         dim3(kMoveThreads), 0, context.stream, list, vectors);
}

template <bool into_slots>
void move_statistics(const CudaContext& context, const SlotList& list, const SlotOperand& statistics,
                     std::int64_t heads) {
  launch(move_statistics_kernel<into_slots>, dim3(static_cast<unsigned>(statistics.of_slots.rows)),
         dim3(kMoveThreads), 0, context.stream, list, rows_of<float>(statistics.of_call),
         rows_of<float>(statistics.of_slots), static_cast<int>(statistics.of_call.columns),
         static_cast<int>(heads));
}

}  // namespace

void list_documents_on_cuda(const CudaContext& context, const Places& places, std::int64_t sequence,
                            const DocumentLists& lists) {
  const auto sequences = static_cast<unsigned>(std::ssize(places) / sequence);
  launch(list_documents_kernel, dim3(sequences), dim3(kListThreads), 0, context.stream, lists, places.data(),
         static_cast<int>(sequence));
}

void move_into_slots_on_cuda(const CudaContext& context, const SlotList& list,
                             std::span<const SlotOperand> operands) {
  move_rows<true>(context, list, operands);
}

void move_from_slots_on_cuda(const CudaContext& context, const SlotList& list,
                             std::span<const SlotOperand> operands) {
  move_rows<false>(context, list, operands);
}

void move_statistics_into_slots_on_cuda(const CudaContext& context, const SlotList& list,
                                        const SlotOperand& statistics, std::int64_t heads) {
  move_statistics<true>(context, list, statistics, heads);
}

void move_statistics_from_slots_on_cuda(const CudaContext& context, const SlotList& list,
                                        const SlotOperand& statistics, std::int64_t heads) {
  move_statistics<false>(context, list, statistics, heads);
}

}  // namespace strata
