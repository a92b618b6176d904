// How errors name a call, so that all communicators say it in the same words.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "collectives/communicator.h"

namespace strata {

std::string_view name_of(Element element);
std::string_view name_of(ReduceOp op);

/// What a rank asks of its group, without the memory.
struct Call {
  std::string_view operation;
  std::optional<std::size_t> count = {};  ///< if it has one
  Element element = Element::byte;
  std::optional<ReduceOp> op = {};  ///< if values are reduced
  std::optional<int> root = {};     ///< if one rank's values go to all

  friend bool operator==(const Call&, const Call&) = default;
};

/// "all_gather of 12 fp32", "all_reduce of 3 fp64 (max)", "split".
std::string describe(const Call& call);

/// "all_gather of 12 fp32 on rank 1 waited 2 s for rank 0": `self` and `peers` are how the communicator names
/// ranks.
std::string waited_sentence(const Call& call, std::string_view self, double seconds, std::string_view peers);

/// "all_gather of 12 fp32 on rank 1 ended: rank 0 failed".
std::string ended_sentence(const Call& call, std::string_view self, std::string_view failure);

}  // namespace strata
