#include "engine/input/data/document_borders.h"

#include <fmt/format.h>

#include <utility>

#include "base/error.h"
#include "engine/input/data/megatron_index.h"

namespace strata {

DocumentBorders::DocumentBorders(std::shared_ptr<const MappedFile> index, std::int64_t bytes_of_id)
    : index_(std::move(index)),
      bytes_of_id_(bytes_of_id),
      sequences_(megatron_sequences(*index_)),
      documents_(megatron_document_entries(*index_) - 1) {
  std::int64_t before = 0;
  for (std::int64_t entry = 0; entry <= documents_; ++entry) {
    const std::int64_t sequence = megatron_document_entry(*index_, entry);
    if (sequence < before || sequence > sequences_ || (entry == 0 && sequence != 0) ||
        (entry == documents_ && sequence != sequences_))
      throw ConfigError(
          fmt::format("{}: entry {} of its documents is sequence {}; documents have to follow one another "
                      "from sequence 0 to the last of {} (or set data.packing to none, which does not read "
                      "them)",
                      index_->path(), entry, sequence, sequences_));
    before = sequence;
  }
  if (documents_ < 0)
    throw ConfigError(fmt::format("{}: it has no documents; set data.packing to none", index_->path()));
}

std::int64_t DocumentBorders::begin(std::int64_t document) const {
  const std::int64_t sequence = megatron_document_entry(*index_, document);
  if (sequence < sequences_) return megatron_sequence_offset(*index_, sequence) / bytes_of_id_;
  if (sequences_ == 0) return 0;
  const std::int64_t last = sequences_ - 1;
  return megatron_sequence_offset(*index_, last) / bytes_of_id_ + megatron_sequence_length(*index_, last);
}

std::int64_t DocumentBorders::next(std::int64_t id) const {
  std::int64_t first = 0, last = documents_;
  while (first < last) {
    const std::int64_t middle = first + (last - first) / 2;
    if (begin(middle) <= id) {
      first = middle + 1;
    } else {
      last = middle;
    }
  }
  return first;
}

std::int64_t DocumentBorders::begin_of(std::int64_t id) const {
  return begin(next(id) - 1);
}

std::int64_t DocumentBorders::end_of(std::int64_t id) const {
  return begin(next(id));
}

}  // namespace strata
