// The data that a model reads and the losses that it gives, as its graphs declare them: tokens, or images and
// their labels. The planner and the executor know them by number, type and size only.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "engine/model/graph/unit_graph.h"

namespace strata {

/// Each microbatch brings one: `elements` of its own, in the order of rows.
struct DataArray {
  std::string name;
  TensorType type = TensorType::int32;  ///< never the run's precision, which loaders do not know
  Extent elements;

  friend bool operator==(const DataArray&, const DataArray&) = default;
};

/// By number. Throws std::logic_error if two units declare one differently, or one in between is missing.
std::vector<DataArray> data_of(std::span<const UnitGraph> graphs);

/// How many losses a microbatch gives; the run's loss is the mean over all.
Extent loss_terms_of(std::span<const UnitGraph> graphs);

}  // namespace strata
