// Lowers visits of a unit in a pass: an instruction for each segment, and between them what ranks exchange.
#pragma once

#include <array>
#include <span>

#include "base/nth.h"
#include "engine/model/model.h"
#include "engine/plan/lower/schedule.h"
#include "engine/plan/lower/step_builder.h"
#include "engine/plan/lower/step_values.h"

namespace strata {

class PassLowering {
 public:
  /// REQUIRES: all outlive it.
  PassLowering(const Model& model, StepValues& step, StepBuilder& builder)
      : model_(model), step_(step), builder_(builder) {}

  /// An instruction for each segment, on those regions that it touches, and between them what ranks exchange.
  /// Two visits at a time take turns, so that one computes while the other's values travel: A0 B0 A1 C0 B1 D0
  /// … of two segments. Each segment has the visits in their order, so gradients sum microbatches in theirs.
  void run(std::span<const Visit> visits, const UnitPass& pass, std::size_t level);

 private:
  /// What a visit has of its own.
  struct VisitMemory {
    Value workspace;
    std::array<Value, kRings> rings = {};  ///< without elements if nothing goes round
  };

  /// A visit on its way through a pass.
  struct Turn {
    const Visit& visit;
    VisitMemory memory;
    std::size_t segment = 0, exchange = 0;  ///< the next ones
  };

  VisitMemory memory_of(const Visit& visit, const UnitPass& pass);
  /// The next segment, or all of a loop over rows, and what is exchanged behind it.
  void run_turn(Turn& turn, const UnitPass& pass, std::size_t level);
  /// What is exchanged in front of the next segment. Returns whether that is in a loop over rows.
  bool exchange_before(Turn& turn, const UnitPass& pass);
  void run_segment(const Visit& visit, const UnitPass& pass, std::size_t level, std::size_t number,
                   VisitMemory& memory);
  /// What ranks that share the pass have made parts of, have parts of, or pass on.
  void exchange(const Visit& visit, const UnitPass& pass, const PlacedExchange& exchange,
                VisitMemory& memory);

  /// What a region is in the visit's pass.
  Value& value_of(Region region, const Visit& visit, VisitMemory& memory);
  Value& value_of(Region region, const Visit& visit);
  UnitValues& of_unit(std::int32_t unit) { return nth(step_.units, unit); }
  const Unit& unit(std::int32_t u) const { return nth(model_.units, u); }

  const Model& model_;
  StepValues& step_;
  StepBuilder& builder_;
};

}  // namespace strata
