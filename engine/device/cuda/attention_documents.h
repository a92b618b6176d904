// Attention within documents as attention over slots (document_classes.h), which cuDNN computes. The rows of
// documents are moved into slots, and the results are moved back, for a part of the call and a class at a
// time. Documents without slots are left to the kernels of attention.cu.
#pragma once

#include <functional>
#include <vector>

#include "engine/device/attention_calls.h"
#include "engine/device/cuda/context.h"
#include "engine/device/cuda/document_classes.h"

namespace strata {

/// Computes a call over slots: causal attention of each over as many of its first tokens as `lengths`, on the
/// device, says for it. Other rows of operands are finite, and those of results may become anything.
/// `workspace` is what was asked for.
template <typename Call>
using SlotAttention = std::function<void(const Call& slots, std::int32_t* lengths, std::byte* workspace)>;

/// The calls over slots that the parts of a call are made of, one for each class, in the order in which they
/// are made. Their operands are nowhere. REQUIRES: document_chunk() has given the chunk.
std::vector<AttentionForward> slot_calls(const AttentionForward& call, const AttentionChunk& chunk);
std::vector<AttentionBackward> slot_calls(const AttentionBackward& call, const AttentionChunk& chunk);

/// Computes the call, with `run` over slots. REQUIRES: document_chunk() has given the chunk, there are
/// places, and rows of operands begin at multiples of 16 bytes, as heads do.
void run_within_documents(const CudaContext& context, const AttentionForward& call,
                          const AttentionChunk& chunk, Bytes workspace_bytes,
                          const SlotAttention<AttentionForward>& run);
void run_within_documents(const CudaContext& context, const AttentionBackward& call,
                          const AttentionChunk& chunk, Bytes workspace_bytes,
                          const SlotAttention<AttentionBackward>& run);

/// The scratch that run_within_documents() asks for.
Bytes scratch_within_documents(const AttentionForward& call, const AttentionChunk& chunk,
                               Bytes workspace_bytes);
Bytes scratch_within_documents(const AttentionBackward& call, const AttentionChunk& chunk,
                               Bytes workspace_bytes);
/// With the largest workspaces that cuDNN is taken to ask for; none if cuDNN does not compute the call.
Bytes cudnn_scratch_within_documents(const AttentionForward& call);
Bytes cudnn_scratch_within_documents(const AttentionBackward& call);

}  // namespace strata
