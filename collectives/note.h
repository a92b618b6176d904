// What a rank tells another ahead of the data of a call: which call it is, and its number. Two calls that do
// not belong together are found by it, even if their data have the same length. Between ranks that read
// each other's memory it also says where the data lie.
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "collectives/call.h"

namespace strata {

/// Goes between processes as its bytes.
struct Note {
  static constexpr std::uint32_t kMark = 0x65746f6e;

  std::uint32_t mark = kMark;  ///< other data have another one
  std::array<char, 16> operation = {};
  std::int64_t number = 0;  ///< of the call in its group, or of the message from one rank to another
  std::int64_t count = -1;  ///< -1: none
  std::int32_t root = -1;   ///< -1: none
  Element element = Element::byte;
  std::int8_t op = -1;  ///< -1: none

  std::uintptr_t address = 0;  ///< of what the other may read
  std::size_t bytes = 0;       ///< that may be read, or have been
};

/// REQUIRES: the operation's name is shorter than Note::operation.
Note note_of(const Call& call, std::int64_t number);

/// Whether they are two ranks' parts in one call, or two ends of a message.
bool belong_together(const Note& left, const Note& right);

/// "all_gather of 12 fp32 on rank 1, its call 7, meets reduce_scatter of 12 fp32 on rank 0, its call 7: …":
/// `own` is `call` as it was told to the peer.
std::string mismatch_sentence(const Call& call, const Note& own, std::string_view self, const Note& theirs,
                              std::string_view peer);

}  // namespace strata
