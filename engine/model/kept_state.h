// Which part of a unit's state there is: a moment covers the tensors whose rules keep it.
#pragma once

#include "engine/model/flat_range.h"
#include "engine/model/model.h"
#include "optim/state_key.h"

namespace strata {

/// Whether the tensor's rule keeps this moment; true of what is no moment.
bool keeps(const Model& model, const TensorSpec& tensor, StateKey key);

/// From the first of the unit's trained tensors that keeps it to the last, with the padding behind that, in
/// whole blocks of kCodedBlock elements. Nothing if none does. build_model() puts tensors of one rule
/// together, so others lie between only if a unit has three rules, or if ranks share its tensors; theirs
/// stays zero.
Stretch kept_stretch(const Model& model, const Unit& unit, StateKey key);

/// What the range has of that.
FlatRange kept_part(const Model& model, const Unit& unit, StateKey key, FlatRange range);

/// Counts the trained parameters of all ranks whose rules keep this moment.
std::int64_t parameters_keeping(const Model& model, Moment moment);

}  // namespace strata
