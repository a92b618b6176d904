// Runs CUDA kernels on the CPU, for tests: block after block, the threads of a block as fibers that switch
// only at barriers and warp operations. What CUDA leaves undefined and what it refuses is a std::logic_error
// here. One launch runs at a time, whichever thread it comes from.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>

struct uint3 {
  unsigned x = 0, y = 0, z = 0;
};
struct dim3 {
  unsigned x, y, z;
  constexpr dim3(unsigned x = 1, unsigned y = 1, unsigned z = 1) : x(x), y(y), z(z) {}
};

// The built-in variables, with the values of the thread that is running.
extern uint3 threadIdx, blockIdx;
extern dim3 blockDim, gridDim;

namespace strata::cuda_emulation {

/// The order in which blocks, and threads between two barriers, run. Nothing a kernel writes may depend on
/// it.
enum class Order : std::uint8_t { forward, backward };
void set_order(Order order);

/// Throws if CUDA refuses such a launch, and counts it if not.
void check_launch(dim3 grid, dim3 block, std::size_t shared_bytes);
/// Kernels that were launched since the program began, performed or not.
std::int64_t launches();
void run_grid(dim3 grid, dim3 block, std::size_t shared_bytes, const std::function<void()>& thread);

/// For the functions of launch.cuh, in a kernel.
std::byte* shared_bytes();
void block_barrier();
unsigned lane();
enum class WarpOperation : std::uint8_t { sync, shuffle, shuffle_up, shuffle_down, shuffle_xor };
/// The `bits` that the lane `source` calls this with. All lanes of `mask` that have not returned must call it
/// alike; bits of a lane that doesn't are all ones.
std::uint64_t exchange(WarpOperation operation, unsigned mask, std::uint64_t bits, unsigned source);

}  // namespace strata::cuda_emulation
