#include "engine/plan/lower/run_scratch.h"

#include "engine/device/direction.h"
#include "engine/device/state_calls.h"
#include "engine/model/model.h"
#include "engine/model/updated_matrices.h"
#include "engine/plan/lower/lower.h"

namespace strata {
namespace {

/// Memory that is given, so that every optional operand is there, but that nobody looks into. No region lies
/// in another.
UnitMemory memory_somewhere() {
  constexpr std::uintptr_t kApart = std::uintptr_t{1} << 40;
  UnitMemory memory;
  for (std::size_t i = 0; i < kRegions; ++i)
    memory[static_cast<Region>(i)] = reinterpret_cast<std::byte*>(kApart * (i + 1));
  return memory;
}

}  // namespace

void make_calls(Kernels& kernels, const Model& model, DType precision, const MicrobatchShape& microbatch) {
  const auto compute = unit_compute(model, precision, microbatch);
  const UnitMemory memory = memory_somewhere();
  for (std::size_t kind = 0; kind < model.graphs.size(); ++kind) {
    for (const UnitPasses::Level& level : compute->passes(kind).levels) {
      for (const UnitPass* pass :
           {&level.forward, &level.backward, &level.input_gradient, &level.weight_gradient}) {
        pass->run(kernels, memory, 1);
        // As the first of a step, too, whose products overwrite gradients.
        for (const Segment& segment : pass->segments()) {
          if (segment.touches(Region::gradient) || segment.touches(Region::shared_gradient))
            segment.run(kernels, memory, 1, {.gradient = 1, .shared_gradient = 1});
        }
      }
    }
  }
}

ScratchBytes scratch_of_run(const ScratchRules& rules, const Model& model, const Strategy& strategy) {
  ScratchMeter meter(rules);
  make_calls(meter, model, strategy.precision, strategy.microbatch);
  if (has(strategy, Interlude::sampling))
    make_calls(meter, *model.sampling, strategy.precision, strategy.samples.of_rank);
  const UnitMemory memory = memory_somewhere();
  for (const Unit& unit : model.units) {
    if (unit.elements == 0) continue;
    meter.run(SumOfSquares{
        {memory[Region::gradient], strategy.precision, 1, strategy.mesh.shard_elements(unit.elements)},
        nullptr});
    for (const UpdatedMatrix& matrix : updated_matrices(model, unit)) {
      find_direction(meter,
                     {.rule = matrix.rule,
                      .is_vector = matrix.is_vector,
                      .factors = reinterpret_cast<float*>(memory[Region::constants])},
                     {memory[Region::gradient], strategy.precision, matrix.rows, matrix.columns},
                     memory[Region::workspace]);
    }
  }
  if (strategy.packed.has(Flat::trained)) meter.run(EncodeFloat8{});
  return meter.largest();
}

}  // namespace strata
