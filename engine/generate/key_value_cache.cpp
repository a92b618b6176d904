#include "engine/generate/key_value_cache.h"

#include <stdexcept>

namespace strata {
namespace {

/// Columns of the keys of the only attention that a graph has; 0 if it has none.
std::int64_t key_columns(const UnitGraph& graph) {
  std::int64_t columns = 0;
  for (const Node& node : graph.nodes) {
    if (dynamic_cast<const AttentionRule*>(node.rule.get()) == nullptr) continue;
    if (columns != 0) throw std::logic_error("a unit with two attentions has one cache");
    const TensorView& key = node[AttentionRule::key];
    columns = key.is_whole() ? graph.tensor(key).columns.in({.batch = 1, .sequence = 1}) : key.columns;
  }
  return columns;
}

}  // namespace

KeyValueCache::KeyValueCache(const Model& model, DType precision, std::int64_t sequences,
                             std::int64_t capacity)
    : precision_(precision), sequences_(sequences), capacity_(capacity) {
  for (const Unit& unit : model.units) {
    columns_.push_back(key_columns(model.graph_of(unit)));
    offsets_.push_back(bytes_);
    bytes_ += 2 * align_up(checked_product(sequences * capacity, columns_.back(), size_of(precision)));
  }
}

Matrix KeyValueCache::of_unit(std::size_t unit, int which) const {
  const std::int64_t rows = sequences_ * capacity_, columns = columns_[unit];
  const Bytes one = align_up(rows * columns * size_of(precision_));
  return {memory_ + offsets_[unit] + which * one, precision_, rows, columns};
}

CachedAttention KeyValueCache::attention(std::size_t unit, AttentionShape shape,
                                         std::span<const std::int32_t> lengths, const Matrix& query,
                                         const Matrix& out) const {
  shape.batch = sequences_;
  shape.sequence = capacity_;
  shape.heads = query.columns / shape.head_dimension;
  shape.kv_heads = columns_[unit] / shape.head_dimension;
  return {.shape = shape,
          .lengths = lengths,
          .query = query,
          .key = of_unit(unit, 0),
          .value = of_unit(unit, 1),
          .out = out};
}

}  // namespace strata
