#include "engine/device/cuda/attention_documents.h"

#include <algorithm>
#include <array>
#include <cassert>

#include "engine/device/attention_calls.h"
#include "engine/device/cuda/attention_parts.h"
#include "engine/device/cuda/document_slots.h"
#include "engine/device/elementwise_calls.h"

namespace strata {
namespace {

/// An operand with a row per token, of heads or of key/value heads.
template <typename Call>
struct TokenOperand {
  Matrix Call::*matrix;
  bool of_heads;

  std::int64_t columns(const AttentionShape& shape) const {
    return (of_heads ? shape.heads : shape.kv_heads) * shape.head_dimension;
  }
};

/// What a pass reads and writes; log_sum_exp is the one or the other.
template <typename Call>
struct Pass;
template <>
struct Pass<AttentionForward> {
  static constexpr std::array<TokenOperand<AttentionForward>, 3> kRead = {
      {{&AttentionForward::query, true}, {&AttentionForward::key, false}, {&AttentionForward::value, false}}};
  static constexpr std::array<TokenOperand<AttentionForward>, 1> kWritten = {
      {{&AttentionForward::out, true}}};
  static constexpr bool kReadsStatistics = false;
};
template <>
struct Pass<AttentionBackward> {
  static constexpr std::array<TokenOperand<AttentionBackward>, 5> kRead = {
      {{&AttentionBackward::query, true},
       {&AttentionBackward::key, false},
       {&AttentionBackward::value, false},
       {&AttentionBackward::out, true},
       {&AttentionBackward::out_gradient, true}}};
  static constexpr std::array<TokenOperand<AttentionBackward>, 3> kWritten = {
      {{&AttentionBackward::query_gradient, true},
       {&AttentionBackward::key_gradient, false},
       {&AttentionBackward::value_gradient, false}}};
  static constexpr bool kReadsStatistics = true;
};

/// Areas one behind another; from null on they are only counted.
class Areas {
 public:
  explicit Areas(std::byte* begin) : begin_(reinterpret_cast<std::uintptr_t>(begin)) {}

  std::byte* take(Bytes bytes) {
    auto* area = reinterpret_cast<std::byte*>(begin_ + static_cast<std::uintptr_t>(bytes_));
    bytes_ += align_up(bytes);
    return area;
  }
  std::int32_t* take_numbers(std::int64_t count) {
    return reinterpret_cast<std::int32_t*>(take(count * static_cast<Bytes>(sizeof(std::int32_t))));
  }
  Bytes bytes() const { return bytes_; }

 private:
  std::uintptr_t begin_;
  Bytes bytes_ = 0;
};

/// What a call has in scratch.
template <typename Call>
struct DocumentMemory {
  DocumentLists lists;        ///< of one part's sequences, but for `short_places`, which are of all
  Call slots;                 ///< of a part; with rows for the class that has the most
  Matrix read;                ///< the memory of those operands that are read, as fp32
  HeadGradients gradients;    ///< of key and value, where groups are cut
  std::byte* rest = nullptr;  ///< cuDNN's workspace, then the scratch of attention.cu
  Bytes bytes = 0;
};

DocumentLists take_lists(Areas& areas, const AttentionShape& shape, const AttentionChunk& chunk) {
  DocumentLists lists;
  for (const DocumentClass& documents : document_classes(shape.sequence)) {
    const std::int64_t slots = chunk.batch * documents.slots;
    lists.classes.at(lists.count++) = {.documents = documents,
                                       .lengths = areas.take_numbers(slots),
                                       .first_rows = areas.take_numbers(slots)};
  }
  lists.short_places = areas.take_numbers(shape.batch * shape.sequence);
  return lists;
}

template <typename Call, std::size_t count>
void take_operands(Areas& areas, const std::array<TokenOperand<Call>, count>& operands, DType dtype,
                   std::int64_t rows, Call& slots) {
  for (const TokenOperand<Call>& operand : operands) {
    const std::int64_t columns = operand.columns(slots.shape);
    slots.*operand.matrix = {areas.take(rows * columns * size_of(dtype)), dtype, rows, columns};
  }
}

HeadGradients take_gradients(Areas& /*areas*/, const AttentionForward& /*call*/,
                             const AttentionChunk& /*chunk*/) {
  return {};
}
HeadGradients take_gradients(Areas& areas, const AttentionBackward& call, const AttentionChunk& chunk) {
  return head_gradients(call, chunk, areas.take(head_gradient_bytes(call.shape, chunk)));
}

template <typename Call>
DocumentMemory<Call> memory_of(const Call& call, const AttentionChunk& chunk, Bytes workspace_bytes,
                               std::byte* begin) {
  DocumentMemory<Call> memory;
  Areas areas(begin);
  memory.lists = take_lists(areas, call.shape, chunk);
  memory.slots.shape = part_shape(call.shape, chunk);
  const std::int64_t rows = chunk.batch * most_slot_tokens(call.shape.sequence);
  const Bytes before = areas.bytes();
  take_operands(areas, Pass<Call>::kRead, call.query.dtype, rows, memory.slots);
  Bytes end = areas.bytes();
  memory.slots.log_sum_exp.data = areas.take(memory.slots.shape.heads * rows * size_of(DType::fp32));
  if (Pass<Call>::kReadsStatistics) end = areas.bytes();
  memory.read = {memory.slots.query.data, DType::fp32, 1, (end - before) / size_of(DType::fp32)};
  take_operands(areas, Pass<Call>::kWritten, call.query.dtype, rows, memory.slots);
  memory.gradients = take_gradients(areas, call, chunk);
  memory.rest = areas.take(std::max(workspace_bytes, scratch_on_cuda(call)));
  memory.bytes = areas.bytes();
  return memory;
}

/// The call over the slots of a class.
template <typename Call>
Call of_class(Call slots, const DocumentClass& documents) {
  slots.shape = slot_shape(slots.shape, documents);
  const auto cut = [&](const auto& operands) {
    for (const auto& operand : operands) {
      Matrix& matrix = slots.*operand.matrix;
      matrix = matrix.row_slice(0, slots.shape.batch * slots.shape.sequence);
    }
  };
  cut(Pass<Call>::kRead);
  cut(Pass<Call>::kWritten);
  slots.log_sum_exp = {slots.log_sum_exp.data, DType::fp32, slots.shape.batch * slots.shape.heads,
                       slots.shape.sequence};
  return slots;
}

template <typename Call, std::size_t count>
std::array<SlotOperand, count> moved(const std::array<TokenOperand<Call>, count>& operands, const Call& part,
                                     const Call& slots) {
  std::array<SlotOperand, count> all;
  for (std::size_t i = 0; i < count; ++i) all[i] = {part.*operands[i].matrix, slots.*operands[i].matrix};
  return all;
}

/// The documents of a class of a part.
template <typename Call>
void run_class(const CudaContext& context, const Call& part, const SlotList& list,
               const DocumentMemory<Call>& memory, const SlotAttention<Call>& run) {
  const Call slots = of_class(memory.slots, list.documents);
  const SlotOperand statistics = {part.log_sum_exp, slots.log_sum_exp};
  move_into_slots_on_cuda(context, list, moved(Pass<Call>::kRead, part, slots));
  if (Pass<Call>::kReadsStatistics)
    move_statistics_into_slots_on_cuda(context, list, statistics, part.shape.heads);
  run(slots, list.lengths, memory.rest);
  move_from_slots_on_cuda(context, list, moved(Pass<Call>::kWritten, part, slots));
  if (!Pass<Call>::kReadsStatistics)
    move_statistics_from_slots_on_cuda(context, list, statistics, part.shape.heads);
}

/// Calls body(part) for each part, and joins what they leave.
template <typename Body>
void for_all_parts(const CudaContext& /*context*/, const AttentionForward& call, const AttentionChunk& chunk,
                   const HeadGradients& /*gradients*/, const Body& body) {
  for_each_part(call.shape, chunk, [&](const AttentionPart& part) { body(part_of(call, chunk, part)); });
}
template <typename Body>
void for_all_parts(const CudaContext& context, const AttentionBackward& call, const AttentionChunk& chunk,
                   const HeadGradients& gradients, const Body& body) {
  run_in_parts(context, call, chunk, gradients, body);
}

/// Scratch that has been asked for.
class RestOfScratch final : public CudaScratch {
 public:
  explicit RestOfScratch(std::byte* memory) : memory_(memory) {}
  std::byte* at_least(Bytes /*bytes*/) override { return memory_; }

 private:
  std::byte* memory_;
};

template <typename Call>
void run_call(const CudaContext& context, const Call& call, const AttentionChunk& chunk,
              Bytes workspace_bytes, const SlotAttention<Call>& run) {
  assert(!call.places.empty());
  std::byte* scratch = context.scratch.at_least(scratch_within_documents(call, chunk, workspace_bytes));
  const DocumentMemory<Call> memory = memory_of(call, chunk, workspace_bytes, scratch);
  // What no document ever fills is multiplied by zero at most, and must be finite for that.
  run_on_cuda(context, Zero{memory.read});
  const std::int32_t* listed = nullptr;
  for_all_parts(context, call, chunk, memory.gradients, [&](const Call& part) {
    if (part.places.data() != listed) {  // other sequences than those of the part before
      listed = part.places.data();
      DocumentLists lists = memory.lists;
      lists.short_places += listed - call.places.data();
      list_documents_on_cuda(context, part.places, part.shape.sequence, lists);
    }
    for (const SlotList& list : memory.lists.each()) run_class(context, part, list, memory, run);
  });
  RestOfScratch rest(memory.rest);
  Call short_documents = call;
  short_documents.places = {memory.lists.short_places, call.places.size()};
  run_on_cuda({context.stream, rest}, short_documents);
}

template <typename Call>
std::vector<Call> calls_of_classes(const Call& call, const AttentionChunk& chunk) {
  const DocumentMemory<Call> memory = memory_of(call, chunk, 0, nullptr);
  std::vector<Call> calls;
  for (const SlotList& list : memory.lists.each()) calls.push_back(of_class(memory.slots, list.documents));
  return calls;
}

}  // namespace

std::vector<AttentionForward> slot_calls(const AttentionForward& call, const AttentionChunk& chunk) {
  return calls_of_classes(call, chunk);
}
std::vector<AttentionBackward> slot_calls(const AttentionBackward& call, const AttentionChunk& chunk) {
  return calls_of_classes(call, chunk);
}

void run_within_documents(const CudaContext& context, const AttentionForward& call,
                          const AttentionChunk& chunk, Bytes workspace_bytes,
                          const SlotAttention<AttentionForward>& run) {
  run_call(context, call, chunk, workspace_bytes, run);
}
void run_within_documents(const CudaContext& context, const AttentionBackward& call,
                          const AttentionChunk& chunk, Bytes workspace_bytes,
                          const SlotAttention<AttentionBackward>& run) {
  run_call(context, call, chunk, workspace_bytes, run);
}

Bytes scratch_within_documents(const AttentionForward& call, const AttentionChunk& chunk,
                               Bytes workspace_bytes) {
  return memory_of(call, chunk, workspace_bytes, nullptr).bytes;
}
Bytes scratch_within_documents(const AttentionBackward& call, const AttentionChunk& chunk,
                               Bytes workspace_bytes) {
  return memory_of(call, chunk, workspace_bytes, nullptr).bytes;
}

Bytes cudnn_scratch_within_documents(const AttentionForward& call) {
  const std::optional<AttentionChunk> chunk = document_chunk(call.shape);
  if (!chunk || call.query.dtype == DType::fp32) return 0;
  return scratch_within_documents(call, *chunk, slot_forward_bytes(part_shape(call.shape, *chunk)));
}
Bytes cudnn_scratch_within_documents(const AttentionBackward& call) {
  const std::optional<AttentionChunk> chunk = document_chunk(call.shape);
  if (!chunk || call.query.dtype == DType::fp32) return 0;
  return scratch_within_documents(call, *chunk, slot_backward_bytes(part_shape(call.shape, *chunk)));
}

}  // namespace strata
