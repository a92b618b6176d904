#include "engine/model/compute.h"

#include <mutex>
#include <utility>

#include "base/rotary_row.h"
#include "engine/model/model.h"

namespace strata {

UnitCompute::UnitCompute(const Model& model, DType precision, MicrobatchShape shape)
    : rotations_(model.rotations),
      by_length_(model.form.is_by_length()),
      table_positions_(model.table_positions > 0 ? model.table_positions : shape.sequence),
      table_part_(model.context) {
  // A token of any part may say that it stands anywhere.
  if (model.form.has_places()) table_positions_ *= std::exchange(table_part_, {}).ranks;
  table_rows_ = by_length_ ? kRotaryRowsOfPlace * table_positions_ : table_positions_;
  shape.context = model.context;
  GraphShape sizes = {.precision = precision, .microbatch = shape, .max_chunk_bytes = model.max_chunk_bytes};
  Bytes constants = 0;
  for (const Rotation& rotation : rotations_) {
    for (int table = 0; table < 2; ++table) {
      sizes.constants.push_back(constants);
      constants += rotary_table_bytes(rotation, table_rows_);
    }
  }
  for (const DerivedGraph& passes : model.passes) passes_.push_back(make_passes(passes, sizes));
  for (const DerivedGraph& passes : model.passes) {
    const UnitGraph& graph = passes.forward;
    const bool has_input = graph.input >= 0;
    input_bytes_.push_back(has_input ? bytes_of(size_of(graph.tensor(graph.input), sizes)) : 0);
    for (const Tensor& tensor : graph.tensors)
      if (tensor.region == Region::tally) tally_elements_ = size_of(tensor, sizes).elements();
  }
}

Bytes UnitCompute::constant_bytes() const {
  Bytes sum = 0;
  for (const Rotation& rotation : rotations_) sum += 2 * rotary_table_bytes(rotation, table_rows_);
  return sum;
}

void UnitCompute::fill_constants(std::span<std::byte> host) const {
  std::size_t at = 0;
  for (const Rotation& rotation : rotations_) {
    const auto bytes = static_cast<std::size_t>(2 * rotary_table_bytes(rotation, table_rows_));
    if (by_length_) {
      fill_rotary_tables_by_length(rotation, table_positions_, host.subspan(at, bytes));
    } else {
      fill_rotary_tables(rotation, table_positions_, host.subspan(at, bytes), table_part_);
    }
    at += bytes;
  }
}

UnitComputes& UnitComputes::operator=(const UnitComputes& other) {
  if (this == &other) return *this;
  const std::lock_guard lock(mutex_);
  made_.clear();
  return *this;
}

std::shared_ptr<const UnitCompute> UnitComputes::of(const Model& model, DType precision,
                                                    MicrobatchShape shape) const {
  const std::lock_guard lock(mutex_);
  std::shared_ptr<const UnitCompute>& made = made_[{precision, shape.batch, shape.sequence}];
  if (made == nullptr) made = std::make_shared<UnitCompute>(model, precision, shape);
  return made;
}

std::shared_ptr<const UnitCompute> unit_compute(const Model& model, DType precision, MicrobatchShape shape) {
  return model.computes.of(model, precision, shape);
}

}  // namespace strata
