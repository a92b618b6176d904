// Which of a model's parameters may be packed, and how each unit's are.
#pragma once

#include <cstdint>

#include "base/dtype.h"
#include "engine/config/choices.h"
#include "engine/model/graph/unit.h"
#include "optim/packing.h"

namespace strata {

struct Model;

/// What elements become, and what passes read.
struct PackingFormat {
  ParameterFormat as = ParameterFormat::fp8;
  DType precision = DType::bf16;
};

/// Elements of a block of nf4, as bitsandbytes has them if nothing is asked for.
constexpr std::int64_t kNf4Block = 64;

/// Elements of the tensor's blocks, which neighbours in all of it make, row-major from its first on.
/// REQUIRES: has_blocks(format).
std::int64_t whole_block(const TensorSpec& tensor, ParameterFormat format);

/// Packs some matrices of one of a unit's flat parameters, in `parts` parts of `part_elements`. Empty if
/// there is none to pack. fp8 packs matrices that products round whole. Block formats pack the weights of the
/// blocks' linear layers. Scales are those of blocks of whole tensors. If a rank has stretches of a tensor's
/// rows or columns, and their borders cut blocks, its packed form has smaller blocks. Each lies in one block
/// of the whole and has its scale.
Packing packing_of(const Model& model, const Unit& unit, Flat flat, const PackingFormat& format,
                   std::int64_t part_elements, std::int64_t parts);

}  // namespace strata
