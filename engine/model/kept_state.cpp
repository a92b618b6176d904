#include "engine/model/kept_state.h"

#include <algorithm>

#include "base/bytes.h"
#include "optim/moment_codes.h"

namespace strata {

bool keeps(const Model& model, const TensorSpec& tensor, StateKey key) {
  const std::optional<Moment> moment = moment_of(key);
  if (!moment || moment == Moment::ema) return true;
  return moments_of(model.policies[tensor.policy].rule).has(*moment);
}

Stretch kept_stretch(const Model& model, const Unit& unit, StateKey key) {
  std::int64_t first = 0, end = 0;
  bool is_last = false;  // of those so far
  for (const TensorSpec& tensor : unit.tensors) {
    if (tensor.flat != Flat::trained) continue;
    if (is_last) end = tensor.offset;
    is_last = keeps(model, tensor, key);
    if (is_last && end == 0) first = tensor.offset;
    if (is_last) end = tensor.offset + tensor.elements;
  }
  if (is_last) end = unit.elements;
  first -= first % kCodedBlock;
  end = std::min(align_up(end, kCodedBlock), unit.elements);
  return {first, end - first};
}

FlatRange kept_part(const Model& model, const Unit& unit, StateKey key, FlatRange range) {
  if (range.flat != Flat::trained) return range;
  const Stretch kept = kept_stretch(model, unit, key);
  const std::int64_t first = std::clamp(kept.first, range.first, range.end());
  const std::int64_t end = std::clamp(kept.first + kept.count, first, range.end());
  return {first, end - first, range.flat};
}

std::int64_t parameters_keeping(const Model& model, Moment moment) {
  std::int64_t parameters = 0;
  for (const Unit& unit : model.units) {
    for (const TensorSpec& tensor : unit.tensors) {
      if (tensor.flat == Flat::trained && keeps(model, tensor, key_of(moment)))
        parameters += tensor.whole_elements();
    }
  }
  return parameters;
}

}  // namespace strata
