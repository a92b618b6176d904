#include "engine/run/generate/key_value_cache.h"

#include <stdexcept>

#include "base/checked.h"
#include "engine/model/model.h"

namespace strata {
namespace {

std::int64_t columns_of(const UnitGraph& graph, const TensorView& view) {
  if (!view.is_whole()) return view.columns;
  return graph.tensor(view).columns.in({.batch = 1, .sequence = 1});
}

/// Columns of what the only node with cached operands keeps, by operand; none if there is no such node.
std::vector<std::int64_t> cached_columns(const UnitGraph& graph) {
  std::vector<std::int64_t> columns;
  for (const Node& node : graph.nodes) {
    const std::vector<int> cached = node.rule->cached_operands();
    if (!cached.empty() && !columns.empty())
      throw std::logic_error("a unit with two attentions has one cache");
    for (const int operand : cached) columns.push_back(columns_of(graph, node[operand]));
  }
  return columns;
}

}  // namespace

KeyValueCache::KeyValueCache(const Model& model, DType precision, std::int64_t sequences,
                             std::int64_t capacity)
    : precision_(precision), sequences_(sequences), capacity_(capacity) {
  for (const Unit& unit : model.units) {
    std::vector<Part>& parts = units_.emplace_back();
    for (const std::int64_t columns : cached_columns(model.graph_of(unit))) {
      parts.push_back({.offset = bytes_, .columns = columns});
      bytes_ += align_up(checked_product(sequences * capacity, columns, size_of(precision)));
    }
  }
}

std::vector<Matrix> KeyValueCache::of_unit(std::size_t unit) const {
  std::vector<Matrix> matrices;
  for (const Part& part : units_[unit])
    matrices.emplace_back(memory_ + part.offset, precision_, sequences_ * capacity_, part.columns);
  return matrices;
}

}  // namespace strata
