// How units are filled with what tensors begin with, and the lengths of a weight's rows or columns, with
// which magnitudes beside it begin (engine/model/graph/adapters.h).
#pragma once

#include <cstdint>
#include <span>

#include "engine/model/flat_range.h"

namespace strata {

/// Whether a tensor begins with norms of the weight that it stands beside.
bool has_norms(const TensorSpec& tensor);

/// Elements [first, first + out.size()) of such a tensor of the unit, all of whose weight is read, however
/// little the unit has of it. Squares are added up in double precision in the weight's order, so any split of
/// the elements gives the same bits.
void fill_norms(const Unit& unit, const TensorSpec& tensor, const ReadTensor& read, std::int64_t first,
                std::span<float> out);

/// A range of a unit of what `read` gives of its tensors, with zeros in its padding. Those that begin with
/// norms have those of what `weights` gives; empty: they are read like others. REQUIRES: out.size() ==
/// range.count.
void fill_unit(const Unit& unit, FlatRange range, const ReadTensor& read, const ReadTensor& weights,
               std::span<float> out);

}  // namespace strata
