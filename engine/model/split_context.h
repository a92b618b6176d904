// A model as one of the ranks has it that share sequences: context parallelism.
#pragma once

#include "base/context_part.h"

namespace strata {

struct Model;
struct RunConfig;

/// The tokens of each sequence that a rank of the run has.
ContextPart context_part(const RunConfig& config, std::int64_t rank);

/// Passes of ranks that share sequences (engine/model/graph/share_sequences.h), and the positions of the
/// rank's tokens. REQUIRES: what else is split, such as layers over ranks, has been.
Model split_context(Model model, const ContextPart& part);

}  // namespace strata
