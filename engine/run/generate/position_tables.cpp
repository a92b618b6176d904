#include "engine/run/generate/position_tables.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>

#include "base/error.h"
#include "base/nth.h"
#include "engine/model/architectures/rotary.h"
#include "engine/model/model.h"

namespace strata {

RotaryLayout rotary_layout(const Model& model, std::int64_t rows) {
  RotaryLayout layout{.rows = rows};
  for (const Rotation& rotation : model.rotations) {
    for (int table = 0; table < 2; ++table) {
      layout.offsets.push_back(layout.bytes);
      layout.bytes += rotary_table_bytes(rotation, rows);
    }
  }
  return layout;
}

PositionTables::PositionTables(const Model& model, std::int64_t longest) {
  if (const auto& dynamic = model.architecture.rope.dynamic; dynamic && longest > dynamic->max_positions)
    throw ConfigError(
        fmt::format("the model's rope type is dynamic, whose rotation is another one at each length beyond "
                    "{} tokens, and "
                    "{} are asked for: ask for texts of at most {} tokens",
                    dynamic->max_positions, longest, dynamic->max_positions));
  std::set<std::int64_t> lengths = {longest};
  for (const Rotation& rotation : model.rotations)
    if (const auto& scaling = rotation.options.long_rope)
      lengths.insert(std::min(longest, scaling->original_max_positions));
  Bytes bytes = 0;
  for (const std::int64_t length : lengths) {
    sets_.push_back({rotary_layout(model, length), bytes});
    bytes += sets_.back().layout.bytes;
  }
  resize(host_, bytes);
  for (const Set& set : sets_) {
    for (std::size_t i = 0; i < model.rotations.size(); ++i)
      fill_rotary_tables(
          model.rotations[i], set.layout.rows,
          std::span(host_).subspan(static_cast<std::size_t>(set.offset + set.layout.offsets[2 * i])));
  }
}

const PositionTables::Set& PositionTables::for_length(std::int64_t length) const {
  return *std::ranges::find_if(sets_, [&](const Set& set) { return length <= set.layout.rows; });
}

std::vector<std::int64_t> PositionTables::lengths() const {
  std::vector<std::int64_t> lengths;
  for (const Set& set : sets_) lengths.push_back(set.layout.rows);
  return lengths;
}

}  // namespace strata
