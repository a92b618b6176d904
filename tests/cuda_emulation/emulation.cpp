// Not in a unity build: it defines macros and names that others have.
#include "tests/cuda_emulation/emulation.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <exception>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <vector>

#include "engine/config/choices.h"
#include "tests/cuda_emulation/fiber.h"

uint3 threadIdx, blockIdx;
dim3 blockDim, gridDim;

namespace strata::cuda_emulation {
namespace {

constexpr unsigned kWarp = 32;
constexpr unsigned kMaxBlockThreads = 1024;
constexpr unsigned kMaxGridYZ = 65535;
/// The shared memory that a kernel may use without asking CUDA for more. The driver reserves 1 KiB of 48 KiB
/// from sm_80 on, and half a KiB is for what the kernel itself declares.
constexpr std::size_t kMaxSharedBytes = std::size_t{48} * 1024 - 1024 - 512;

/// A thread of the running block.
struct Thread {
  enum class State : std::uint8_t { waiting_to_start, ready, at_block_barrier, in_warp_operation, returned };
  State state = State::waiting_to_start;
  uint3 index;
  Fiber* fiber = nullptr;
  // Its part in a warp operation.
  WarpOperation operation = WarpOperation::sync;
  unsigned mask = 0;
  unsigned source = 0;
  std::uint64_t bits = 0;
  std::uint64_t result = 0;
};

class Emulator {
 public:
  void run_grid(dim3 grid, dim3 block, std::size_t shared_bytes, const std::function<void()>& kernel);

  std::byte* shared() { return shared_.data(); }
  void block_barrier();
  unsigned lane() { return running_ % kWarp; }
  std::uint64_t exchange(WarpOperation operation, unsigned mask, std::uint64_t bits, unsigned source);

  std::mutex mutex;
  Order order = Order::forward;

 private:
  using State = Thread::State;

  void run_block();
  void start_warp(unsigned warp);
  bool run_warp(unsigned warp);
  unsigned lanes_of(unsigned warp) const {
    return std::min(kWarp, static_cast<unsigned>(threads_.size()) - warp * kWarp);
  }
  void resume(Fiber& fiber);
  static void run_threads(void* emulator);
  void run_thread(unsigned index);
  void thread_returned(unsigned index);
  void suspend_running(State state);
  void finish_warp_operation(unsigned first_lane, unsigned mask);
  bool everyone_arrived(unsigned first_lane, unsigned mask) const;
  unsigned count(State state) const;
  [[noreturn]] void throw_stuck() const;
  unsigned in_order(unsigned i, unsigned count) const { return order == Order::forward ? i : count - 1 - i; }

  const std::function<void()>* kernel_ = nullptr;
  std::vector<std::byte> shared_;
  std::vector<Thread> threads_;
  std::vector<std::unique_ptr<Fiber>> fibers_;
  std::size_t used_fibers_ = 0;
  Fiber* fiber_ = nullptr;   ///< the running one
  unsigned running_ = 0;     ///< the running thread
  unsigned warp_ = 0;        ///< the warp whose threads begin
  unsigned started_ = 0;     ///< lanes of it that have begun
  unsigned at_barrier_ = 0;  ///< threads waiting at __syncthreads
  bool released_ = false;    ///< the running thread let them all go on
  std::exception_ptr error_;
};

Emulator& emulator() {
  static Emulator instance;
  return instance;
}

void Emulator::run_grid(dim3 grid, dim3 block, std::size_t shared_bytes,
                        const std::function<void()>& kernel) {
  kernel_ = &kernel;
  gridDim = grid;
  blockDim = block;
  shared_.resize(shared_bytes);
  shared_.shrink_to_fit();  // the address sanitizer then sees an access past the end
  threads_.resize(std::size_t{block.x} * block.y * block.z);
  for (unsigned z = 0; z < grid.z; ++z) {
    for (unsigned y = 0; y < grid.y; ++y) {
      for (unsigned x = 0; x < grid.x; ++x) {
        blockIdx = {in_order(x, grid.x), in_order(y, grid.y), in_order(z, grid.z)};
        run_block();
      }
    }
  }
}

void Emulator::run_block() {
  std::fill(shared_.begin(), shared_.end(), std::byte{0xFF});
  for (unsigned i = 0; i < threads_.size(); ++i) {
    threads_[i] = {};
    threads_[i].index = {i % blockDim.x, i / blockDim.x % blockDim.y, i / blockDim.x / blockDim.y};
  }
  at_barrier_ = 0;
  released_ = false;
  used_fibers_ = 0;
  error_ = nullptr;
  const auto warps = (static_cast<unsigned>(threads_.size()) + kWarp - 1) / kWarp;
  try {
    for (unsigned i = 0; i < warps; ++i) start_warp(in_order(i, warps));
    for (bool any = true; any;) {
      any = released_ = false;
      for (unsigned i = 0; i < warps && !released_; ++i) any |= run_warp(in_order(i, warps));
    }
    if (count(State::returned) < threads_.size()) throw_stuck();
  } catch (...) {
    fibers_.clear();  // some are in the middle of their kernel
    throw;
  }
}

/// One fiber runs thread after thread until one of them waits; the next fiber goes on after that one.
void Emulator::start_warp(unsigned warp) {
  warp_ = warp;
  started_ = 0;
  while (started_ < lanes_of(warp)) {
    if (used_fibers_ == fibers_.size()) fibers_.push_back(std::make_unique<Fiber>());
    Fiber& fiber = *fibers_[used_fibers_++];
    fiber.start(&Emulator::run_threads, this);
    resume(fiber);
  }
  if (!released_) run_warp(warp);
}

/// Runs a warp until all its threads wait for other warps, so that what lacks a barrier goes wrong, or a
/// barrier lets the whole block go on. Returns false if none was ready.
bool Emulator::run_warp(unsigned warp) {
  bool any = false;
  for (bool ready = true; ready;) {
    ready = false;
    for (unsigned i = 0; i < lanes_of(warp); ++i) {
      const unsigned index = warp * kWarp + in_order(i, lanes_of(warp));
      if (threads_[index].state != State::ready) continue;
      ready = any = true;
      running_ = index;
      threadIdx = threads_[index].index;
      resume(*threads_[index].fiber);
      if (released_) return true;
    }
  }
  return any;
}

void Emulator::resume(Fiber& fiber) {
  fiber_ = &fiber;
  fiber.resume();
  if (error_) std::rethrow_exception(error_);
}

void Emulator::run_threads(void* emulator) {
  auto& self = *static_cast<Emulator*>(emulator);
  while (!self.error_ && self.started_ < self.lanes_of(self.warp_)) {
    self.run_thread(self.warp_ * kWarp + self.in_order(self.started_++, self.lanes_of(self.warp_)));
  }
}

void Emulator::run_thread(unsigned index) {
  threads_[index].fiber = fiber_;
  threads_[index].state = State::ready;
  running_ = index;
  threadIdx = threads_[index].index;
  try {
    (*kernel_)();
    thread_returned(index);
  } catch (...) {
    error_ = std::current_exception();
  }
}

void Emulator::thread_returned(unsigned index) {
  threads_[index].state = State::returned;
  const unsigned first_lane = index / kWarp * kWarp;
  const auto end = std::min<std::size_t>(first_lane + kWarp, threads_.size());
  for (unsigned i = first_lane; i < end; ++i) {
    if (threads_[i].state == State::in_warp_operation) finish_warp_operation(first_lane, threads_[i].mask);
  }
}

void Emulator::suspend_running(State state) {
  const unsigned index = running_;
  threads_[index].state = state;
  threads_[index].fiber->suspend();
}

/// The last warp to come waits like the others, so that the first warp goes first again.
void Emulator::block_barrier() {
  if (++at_barrier_ == threads_.size()) {
    at_barrier_ = 0;
    released_ = true;
    for (Thread& thread : threads_) thread.state = State::ready;
    suspend_running(State::ready);
  } else {
    suspend_running(State::at_block_barrier);
  }
}

std::uint64_t Emulator::exchange(WarpOperation operation, unsigned mask, std::uint64_t bits,
                                 unsigned source) {
  Thread& thread = threads_[running_];
  if ((mask >> lane() & 1U) == 0)
    throw std::logic_error("a warp operation by a lane that its mask leaves out");
  thread.operation = operation;
  thread.mask = mask;
  thread.bits = bits;
  thread.source = source;
  thread.state = State::in_warp_operation;
  finish_warp_operation(running_ / kWarp * kWarp, mask);
  if (thread.state == State::in_warp_operation) suspend_running(State::in_warp_operation);
  return thread.result;
}

/// Hands out results if every lane has arrived.
void Emulator::finish_warp_operation(unsigned first_lane, unsigned mask) {
  if (!everyone_arrived(first_lane, mask)) return;
  Thread* lanes = &threads_[first_lane];
  const auto takes_part = [&](unsigned lane) {
    return (mask >> lane & 1U) != 0 && first_lane + lane < threads_.size() &&
           lanes[lane].state == State::in_warp_operation;
  };
  for (unsigned lane = 0; lane < kWarp; ++lane) {
    if (!takes_part(lane)) continue;
    const unsigned source = lanes[lane].source;
    lanes[lane].result = source < kWarp && takes_part(source) ? lanes[source].bits : ~std::uint64_t{0};
  }
  for (unsigned lane = 0; lane < kWarp; ++lane) {
    if (takes_part(lane)) lanes[lane].state = State::ready;
  }
}

bool Emulator::everyone_arrived(unsigned first_lane, unsigned mask) const {
  const Thread* any = nullptr;
  for (unsigned lane = 0; lane < kWarp && first_lane + lane < threads_.size(); ++lane) {
    const Thread& thread = threads_[first_lane + lane];
    if ((mask >> lane & 1U) == 0 || thread.state == State::returned) continue;
    if (thread.state != State::in_warp_operation) return false;
    if (thread.mask != mask || (any && any->operation != thread.operation)) {
      throw std::logic_error("lanes of a warp call different warp operations");
    }
    any = &thread;
  }
  return any != nullptr;
}

unsigned Emulator::count(State state) const {
  return static_cast<unsigned>(std::count_if(threads_.begin(), threads_.end(),
                                             [&](const Thread& thread) { return thread.state == state; }));
}

void Emulator::throw_stuck() const {
  throw std::logic_error(
      fmt::format("block ({}, {}, {}) is stuck: {} threads wait at __syncthreads, {} in a warp operation, {} "
                  "have returned",
                  blockIdx.x, blockIdx.y, blockIdx.z, count(State::at_block_barrier),
                  count(State::in_warp_operation), count(State::returned)));
}

std::atomic<std::int64_t> launched = 0;

}  // namespace

void check_launch(dim3 grid, dim3 block, std::size_t shared_bytes) {
  const auto threads = std::uint64_t{block.x} * block.y * block.z;
  if (threads == 0 || threads > kMaxBlockThreads || block.z > 64) {
    throw std::logic_error(
        fmt::format("CUDA does not start blocks of {} x {} x {} threads", block.x, block.y, block.z));
  }
  if (grid.x == 0 || grid.x > 0x7fffffffU || grid.y == 0 || grid.y > kMaxGridYZ || grid.z == 0 ||
      grid.z > kMaxGridYZ) {
    throw std::logic_error(
        fmt::format("CUDA does not start grids of {} x {} x {} blocks", grid.x, grid.y, grid.z));
  }
  if (shared_bytes > kMaxSharedBytes) {
    throw std::logic_error(
        fmt::format("{} bytes of shared memory are more than a launch may ask for", shared_bytes));
  }
  ++launched;
}

std::int64_t launches() {
  return launched;
}

void set_order(Order order) {
  const std::lock_guard lock(emulator().mutex);
  emulator().order = order;
}

void run_grid(dim3 grid, dim3 block, std::size_t shared_bytes, const std::function<void()>& thread) {
  const std::lock_guard lock(emulator().mutex);
  emulator().run_grid(grid, block, shared_bytes, thread);
}

std::byte* shared_bytes() {
  return emulator().shared();
}
void block_barrier() {
  emulator().block_barrier();
}
unsigned lane() {
  return emulator().lane();
}
std::uint64_t exchange(WarpOperation operation, unsigned mask, std::uint64_t bits, unsigned source) {
  return emulator().exchange(operation, mask, bits, source);
}

}  // namespace strata::cuda_emulation
