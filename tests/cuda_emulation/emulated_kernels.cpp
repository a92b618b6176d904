#include "tests/cuda_emulation/emulated_kernels.h"

#include <algorithm>
#include <new>
#include <type_traits>

#include "engine/device/cuda/e4m3.h"
#include "engine/device/kernel_calls.h"

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

namespace {

void multiply(const CudaContext& context, const Product& product) {
  if (product.rounding == Rounding::none) return run_on_reference(product);
  const E4m3Area area(product, context.scratch.at_least(scratch_on_cuda(product)));
  find_e4m3_scales(context, product, area);
  Product rest = product;
  rest.rounding = Rounding::none;
  rest.a = Matrix(area.a, product.a.dtype, product.a.rows, product.a.columns);
  rest.b = Matrix(area.b, product.b.dtype, product.b.rows, product.b.columns);
  round_to_e4m3(context, product.a, area.scales, rest.a);
  round_to_e4m3(context, product.b, area.scales + 1, rest.b);
  run_on_reference(rest);
}

}  // namespace

void EmulatedKernels::run(const KernelCall& call) {
  if (call.as<Product>() != nullptr) return multiply(context_, *call.as<Product>());
  call.visit([this]<typename Call>(const Call& each) {
    if constexpr (!std::is_same_v<Call, Product>) run_on_cuda(context_, each);
  });
}

}  // namespace strata
