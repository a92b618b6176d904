#include "tests/cuda_emulation/emulated_kernels.h"

#include <algorithm>
#include <new>
#include <type_traits>

namespace strata {

std::byte* EmulatedScratch::at_least(Bytes bytes) {
  constexpr std::align_val_t kAlignment{256};
  const auto size = static_cast<std::size_t>(bytes);
  largest_ = std::max(largest_, bytes);
  memory_ = {static_cast<std::byte*>(::operator new(size, kAlignment)),
             [](std::byte* memory) { ::operator delete(memory, kAlignment); }};
  std::fill_n(memory_.get(), size, std::byte{0xFF});
  return memory_.get();
}

void EmulatedKernels::run(const KernelCall& call) {
  if (std::holds_alternative<Product>(call)) return run_on_reference(std::get<Product>(call));
  std::visit(
      [this]<typename Call>(const Call& each) {
        if constexpr (!std::is_same_v<Call, Product>) run_on_cuda(context_, each);
      },
      call);
}

}  // namespace strata
