// A model as samples are taken of it between the steps of a run: the same units and parameters, forward
// passes alone, and a head that makes logits of each sequence's last token.
#pragma once

#include <cstdint>

namespace strata {

struct Model;

/// The number of the data array that says, of each sequence of a microbatch, in which of its rows the last
/// token is. In a model that is trained it is that of targets.
inline constexpr std::size_t kLastRowsArray = 1;

/// A model that is trained, for samples. Its sequences may be shorter than those that are trained on;
/// tables of rotations are those of `positions` positions. REQUIRES: it has no auxiliary loss, and is not
/// split yet.
Model sampling_model(Model model, std::int64_t positions);

/// Its passes without backward passes.
void keep_forward_passes(Model& model);

}  // namespace strata
