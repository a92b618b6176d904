#include "engine/model/compute.h"

namespace strata {

UnitCompute::UnitCompute(const Model& model, DType dtype, MicrobatchShape shape)
    : boundary_bytes_(checked_product(shape.tokens(), model.architecture.hidden, size_of(dtype))),
      shape_(shape),
      embedding_(model, dtype, shape),
      block_(model, dtype, shape),
      head_(model, dtype, shape) {
  if (model.architecture.family == Family::llama) rotary_ = model.architecture;
}

Bytes UnitCompute::boundary_bytes() const {
  return boundary_bytes_;
}

Bytes UnitCompute::constant_bytes() const {
  return rotary_ ? rotary_bytes(*rotary_, shape_.sequence) : 0;
}

void UnitCompute::fill_constants(std::span<std::byte> host) const {
  if (rotary_) fill_rotary_tables(*rotary_, shape_.sequence, host);
}

Bytes UnitCompute::saved_bytes(const Unit& unit) const {
  return unit.kind == UnitKind::block ? block_.saved_bytes() : 0;
}

Bytes UnitCompute::forward_workspace_bytes(const Unit& unit, bool save) const {
  switch (unit.kind) {
    case UnitKind::embedding:
      return 0;
    case UnitKind::block:
      return block_.forward_workspace_bytes(save);
    case UnitKind::head:
      return head_.forward_workspace_bytes();
  }
  return 0;
}

Bytes UnitCompute::backward_workspace_bytes(const Unit& unit, bool saved) const {
  switch (unit.kind) {
    case UnitKind::embedding:
      return 0;
    case UnitKind::block:
      return block_.backward_workspace_bytes(saved);
    case UnitKind::head:
      return head_.backward_workspace_bytes();
  }
  return 0;
}

void UnitCompute::forward(Kernels& kernels, UnitKind unit, const UnitMemory& memory) const {
  switch (unit) {
    case UnitKind::embedding:
      return embedding_.forward(kernels, memory);
    case UnitKind::block:
      return block_.forward(kernels, memory);
    case UnitKind::head:
      return head_.forward(kernels, memory);
  }
}

void UnitCompute::backward(Kernels& kernels, UnitKind unit, const UnitMemory& memory,
                           float gradient_scale) const {
  switch (unit) {
    case UnitKind::embedding:
      return embedding_.backward(kernels, memory);
    case UnitKind::block:
      return block_.backward(kernels, memory);
    case UnitKind::head:
      return head_.backward(kernels, memory, gradient_scale);
  }
}

double UnitCompute::forward_flops(const Unit& unit) const {
  switch (unit.kind) {
    case UnitKind::embedding:
      return 0;
    case UnitKind::block:
      return block_.forward_flops();
    case UnitKind::head:
      return head_.forward_flops();
  }
  return 0;
}

double UnitCompute::backward_flops(const Unit& unit, bool saved) const {
  switch (unit.kind) {
    case UnitKind::embedding:
      return 0;
    case UnitKind::block:
      return block_.backward_flops(saved);
    case UnitKind::head:
      return 3 * head_.forward_flops();
  }
  return 0;
}

}  // namespace strata
