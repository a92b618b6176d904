// The bytes that checkpoints take on a disk: one that is still to be written, and all that a run will keep at
// once. Also whether the checkpoints of all models that save there fit.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "engine/run/checkpoint/companions.h"
#include "engine/run/checkpoint/state_access.h"

namespace strata {

/// Counts the files of all `ranks` in one checkpoint, in whole blocks, with its manifest. All ranks call it.
Bytes checkpoint_bytes(const Model& model, const StateAccess& state, Communicator* ranks = nullptr);

/// Counts the files that a checkpoint copies from the model's folder, in whole blocks.
Bytes checkpoint_bytes(const Companions& companions);

/// The most that `saves` more checkpoints of `each` bytes take at once besides those that are there,
/// `existing` from the newest on, when after every save all beyond the `keep` newest are removed.
Bytes most_more_bytes(std::vector<Bytes> existing, Bytes each, std::int64_t keep, std::int64_t saves);

/// What the checkpoints of a model will take, of what is free where they lie.
struct SpaceNeed {
  std::string path;  ///< checkpoint.path
  std::int64_t keep = 1;
  std::uint64_t filesystem = 0;
  Bytes free = 0;
  Bytes each = 0;       ///< of the next one; 0: none is saved
  Bytes after_one = 0;  ///< more than now, once that is whole and what it replaces is removed
  Bytes most = 0;       ///< more than now, at once
};

struct SpaceWarning {
  std::size_t need = 0;  ///< by number: the first of those that it is about
  std::string sentence;
};

/// Throws ConfigError if no order of saves has room for the next checkpoint of each, and warns of
/// filesystems that do not hold all that will be there at once.
std::vector<SpaceWarning> check_space(const std::vector<SpaceNeed>& needs);

}  // namespace strata
