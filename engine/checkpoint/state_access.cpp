#include "engine/checkpoint/state_access.h"

#include "engine/base/hash.h"

namespace strata {

std::string file_name(StateKind kind) {
  return std::string(name_of(kind)) + ".safetensors";
}

StateAccess access_in_memory(std::function<std::span<float>(std::size_t unit, StateKind kind)> flat) {
  return {.read = flat,
          .write = [flat](std::size_t unit, StateKind kind, const auto& fill) { fill(flat(unit, kind)); }};
}

std::string state_hash(const Model& model, const StateAccess& state) {
  StreamingHash hash;
  for (std::size_t unit = 0; unit < model.units.size(); ++unit) {
    for (const StateKind kind : kStateKinds) {
      const std::span<const float> flat = state.read(unit, kind);
      for (const TensorSpec& tensor : model.units[unit].tensors) {
        hash.update(std::as_bytes(flat.subspan(static_cast<std::size_t>(tensor.offset),
                                               static_cast<std::size_t>(tensor.elements))));
      }
    }
  }
  return hex(hash.digest());
}

}  // namespace strata
