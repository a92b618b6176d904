// What the executor hands to a unit operation: the microbatch's shape and the memory that the planner placed
// for it.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/checked.h"

namespace strata {

struct MicrobatchShape {
  std::int64_t batch = 0;     ///< sequences
  std::int64_t sequence = 0;  ///< tokens of each
  std::int64_t tokens() const { return checked_product(batch, sequence); }
};

/// Memory of one unit operation. Every pointer is device memory except where noted; unused ones may be null.
/// No two regions overlap. Outputs and scratch need no initial value; gradients of parameters do.
struct UnitMemory {
  std::byte* parameter = nullptr;         ///< the unit's flat parameter, compute dtype
  std::byte* shared_parameter = nullptr;  ///< tied head: the embedding's flat parameter
  float* gradient = nullptr;              ///< fp32, same layout as parameter; added to
  float* shared_gradient = nullptr;       ///< tied head: the embedding's gradient
  std::byte* input = nullptr;             ///< blocks, head: [tokens, hidden]
  std::byte* output = nullptr;            ///< embedding, blocks, forward only: [tokens, hidden]
  std::byte* output_gradient = nullptr;   ///< backward of embedding, blocks: [tokens, hidden]
  std::byte* input_gradient = nullptr;    ///< backward of blocks, head: [tokens, hidden]
  std::byte* saved =
      nullptr;  ///< blocks: activations kept from forward, saved_bytes(); backward uses them up
  std::byte* workspace = nullptr;        ///< scratch, forward_workspace_bytes() or backward_workspace_bytes()
  const std::byte* constants = nullptr;  ///< rotary tables, constant_bytes()
  const std::int32_t* tokens = nullptr;  ///< embedding: [tokens]
  const std::int32_t* targets = nullptr;  ///< head: [tokens]
  float* losses = nullptr;                ///< head: [tokens], written
  const float* loss_scale = nullptr;      ///< head, backward: a factor on the loss; null: 1
};

}  // namespace strata
