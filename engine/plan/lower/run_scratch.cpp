#include "engine/plan/lower/run_scratch.h"

#include <algorithm>

namespace strata {
namespace {

/// Memory that is given, so that every optional operand is there, but that nobody looks into.
template <typename T>
T* somewhere() {
  return reinterpret_cast<T*>(kBufferAlignment);
}

UnitMemory memory_somewhere(bool saved) {
  return {.parameter = somewhere<std::byte>(),
          .shared_parameter = somewhere<std::byte>(),
          .gradient = somewhere<float>(),
          .shared_gradient = somewhere<float>(),
          .input = somewhere<std::byte>(),
          .output = somewhere<std::byte>(),
          .output_gradient = somewhere<std::byte>(),
          .input_gradient = somewhere<std::byte>(),
          .saved = saved ? somewhere<std::byte>() : nullptr,
          .workspace = somewhere<std::byte>(),
          .constants = somewhere<std::byte>(),
          .tokens = somewhere<std::int32_t>(),
          .targets = somewhere<std::int32_t>(),
          .losses = somewhere<float>(),
          .loss_scale = somewhere<float>()};
}

}  // namespace

ScratchBytes scratch_of_run(const ScratchRules& rules, const Model& model, const Strategy& strategy) {
  ScratchMeter meter(rules);
  const UnitCompute compute(model, strategy.precision, strategy.microbatch);
  // All blocks of a model make the same calls.
  for (const Unit* unit : {&model.embedding(), &model.units[1], &model.head()}) {
    for (const bool saved : {false, true}) {
      const UnitMemory memory = memory_somewhere(saved && unit->kind == UnitKind::block);
      compute.forward(meter, unit->kind, memory);
      compute.backward(meter, unit->kind, memory, 1);
    }
  }
  for (const Unit& unit : model.units)
    meter.run(SumOfSquares{
        {somewhere<std::byte>(), strategy.precision, 1, strategy.mesh.shard_elements(unit.elements)},
        nullptr});
  return meter.largest();
}

}  // namespace strata
