#include "collectives/note.h"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <cstddef>

#include "base/nth.h"

namespace strata {
namespace {

/// Its operation's name is the note's.
Call call_of(const Note& note) {
  const auto end = std::find(note.operation.begin(), note.operation.end(), '\0');
  Call call = {.operation = {note.operation.data(), index_of(note.operation, end)}, .element = note.element};
  if (note.count >= 0) call.count = static_cast<std::size_t>(note.count);
  if (note.root >= 0) call.root = note.root;
  if (note.op >= 0) call.op = static_cast<ReduceOp>(note.op);
  return call;
}

std::string text_of(const Note& note) {
  return note.mark == Note::kMark ? describe(call_of(note)) : "the middle of another call";
}

}  // namespace

Note note_of(const Call& call, std::int64_t number) {
  Note note;
  assert(call.operation.size() < note.operation.size());
  std::copy(call.operation.begin(), call.operation.end(), note.operation.begin());
  note.number = number;
  note.element = call.element;
  if (call.count) note.count = static_cast<std::int64_t>(*call.count);
  if (call.root) note.root = *call.root;
  if (call.op) note.op = static_cast<std::int8_t>(*call.op);
  return note;
}

bool belong_together(const Note& left, const Note& right) {
  return left.mark == right.mark && left.number == right.number && call_of(left) == call_of(right);
}

std::string mismatch_sentence(const Call& call, const Note& own, std::string_view self, const Note& theirs,
                              std::string_view peer) {
  return fmt::format(
      "{} on {}, its call {}, meets {} on {}, its call {}: all ranks of a group make the same calls in the "
      "same order, and both ends of a message have the same length",
      describe(call), self, own.number, text_of(theirs), peer, theirs.number);
}

}  // namespace strata
