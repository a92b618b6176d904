// The passes of a model's units at the sizes of a run. The planner asks for sizes, the executor runs them;
// both read the same values, so they cannot disagree.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "base/context_part.h"
#include "engine/model/architectures/rotary.h"
#include "engine/model/graph/unit.h"
#include "engine/model/graph/unit_passes.h"

namespace strata {

struct Model;

/// Stateless between calls; usable from any thread.
class UnitCompute {
 public:
  UnitCompute(const Model& model, DType precision, MicrobatchShape shape);

  const UnitPasses& passes(const Unit& unit) const { return passes_[unit.kind]; }
  const UnitPasses& passes(std::size_t kind) const { return passes_[kind]; }
  /// What a unit takes from the unit before for a microbatch; 0 if it begins with data.
  Bytes input_bytes(const Unit& unit) const { return input_bytes_[unit.kind]; }

  /// Numbers that the passes of a microbatch add up for one another; 0 if they need none.
  std::int64_t tally_elements() const { return tally_elements_; }

  Bytes constant_bytes() const;  ///< tables that every unit may read; zero if the model has none
  void fill_constants(std::span<std::byte> host) const;

 private:
  std::vector<Rotation> rotations_;
  bool by_length_;                  ///< tables have rows of short and of long texts
  std::int64_t table_positions_;    ///< of each sequence
  ContextPart table_part_;          ///< of each sequence, whose positions these are
  std::int64_t table_rows_;         ///< of all positions
  std::vector<UnitPasses> passes_;  ///< by kind
  std::vector<Bytes> input_bytes_;
  std::int64_t tally_elements_ = 0;
};

/// That of a model which build_model() has made; made when first asked for. Any thread.
std::shared_ptr<const UnitCompute> unit_compute(const Model& model, DType precision, MicrobatchShape shape);

}  // namespace strata
