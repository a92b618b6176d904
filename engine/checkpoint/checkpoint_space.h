// The bytes that checkpoints take on a disk: of one that is still to be written, and of all that a run will
// keep at once.
#pragma once

#include <cstdint>
#include <vector>

#include "base/bytes.h"
#include "engine/checkpoint/state_access.h"

namespace strata {

/// Counts the files of all `ranks` in one checkpoint, in whole blocks, with its manifest. All ranks call it.
Bytes checkpoint_bytes(const Model& model, const StateAccess& state, Communicator* ranks = nullptr);

/// The most that `saves` more checkpoints of `each` bytes take at once besides those that are there,
/// `existing` from the newest on, when after every save all beyond the `keep` newest are removed.
Bytes most_more_bytes(std::vector<Bytes> existing, Bytes each, std::int64_t keep, std::int64_t saves);

}  // namespace strata
