// The memory of unit_compute(), which each model has of its own.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <tuple>

#include "base/dtype.h"
#include "engine/model/graph/unit_memory.h"

namespace strata {

struct Model;
class UnitCompute;

/// What was made of a model at each shape. A copy of a model may become another one, so it begins with
/// nothing.
class UnitComputes {
 public:
  UnitComputes() = default;
  UnitComputes(const UnitComputes& /*other*/) noexcept {}  // so that vectors move models when they grow
  UnitComputes& operator=(const UnitComputes&);
  ~UnitComputes() = default;

  /// Made when first asked for. Any thread. REQUIRES: these are `model`'s own, which has not changed since
  /// the first call.
  std::shared_ptr<const UnitCompute> of(const Model& model, DType precision, MicrobatchShape shape) const;

 private:
  mutable std::mutex mutex_;
  mutable std::map<std::tuple<DType, std::int64_t, std::int64_t>, std::shared_ptr<const UnitCompute>> made_;
};

}  // namespace strata
