#include "engine/model/compute.h"

namespace strata {

UnitCompute::UnitCompute(const Model& model, DType precision, MicrobatchShape shape)
    : rotations_(model.rotations), sequence_(shape.sequence) {
  GraphShape sizes = {.precision = precision, .microbatch = shape};
  Bytes constants = 0;
  for (const Rotation& rotation : rotations_) {
    for (int table = 0; table < 2; ++table) {
      sizes.constants.push_back(constants);
      constants += rotary_table_bytes(rotation, sequence_);
    }
  }
  for (const UnitGraph& graph : model.graphs) {
    passes_.push_back(make_passes(graph, sizes));
    const bool has_input = graph.input >= 0;
    input_bytes_.push_back(has_input ? bytes_of(size_of(graph.tensor(graph.input), sizes)) : 0);
  }
}

Bytes UnitCompute::constant_bytes() const {
  Bytes sum = 0;
  for (const Rotation& rotation : rotations_) sum += 2 * rotary_table_bytes(rotation, sequence_);
  return sum;
}

void UnitCompute::fill_constants(std::span<std::byte> host) const {
  std::size_t at = 0;
  for (const Rotation& rotation : rotations_) {
    const auto bytes = static_cast<std::size_t>(2 * rotary_table_bytes(rotation, sequence_));
    fill_rotary_tables(rotation, sequence_, host.subspan(at, bytes));
    at += bytes;
  }
}

}  // namespace strata
