// Not in a unity build: it defines macros and names that others have.
#include "tests/cuda_emulation/fiber.h"

#include <sys/mman.h>

#include <new>

#if !defined(__x86_64__)
#include <ucontext.h>
#endif

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define __SANITIZE_ADDRESS__ 1
#endif
#endif
#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif

namespace strata::cuda_emulation {
namespace {

constexpr std::size_t kGuardBytes = 4096;
#if defined(__SANITIZE_ADDRESS__)
constexpr std::size_t kStackBytes =
    std::size_t{256} * 1024;  // red zones and unmerged variables make frames larger
#else
constexpr std::size_t kStackBytes = std::size_t{64} * 1024;
#endif

// The last of a fiber's calls don't return. The thread sanitizer would count them and run out of room for its
// call stack.
#define UNCOUNTED __attribute__((no_sanitize("thread")))

#if defined(__x86_64__)

// ucontext saves the signal mask with a system call at each switch, which would be most of a test's time.
using Registers = void*;  // the stack pointer: the registers that a call preserves lie on the stack

extern "C" void strata_fiber_switch(Registers* from, Registers to);
asm(R"(
.text
.type strata_fiber_switch, @function
strata_fiber_switch:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size strata_fiber_switch, .-strata_fiber_switch
)");

void prepare(Registers& registers, std::byte* stack, void (*enter)()) {
  auto* top = reinterpret_cast<void**>(stack + kStackBytes);
  *--top = nullptr;  // enter() finds a return address here, and the stack aligned as after a call
  *--top = reinterpret_cast<void*>(enter);
  for (int preserved = 0; preserved < 6; ++preserved) *--top = nullptr;
  registers = top;
}

UNCOUNTED void switch_registers(Registers& from, Registers& to) {
  strata_fiber_switch(&from, to);
}

#else

using Registers = ucontext_t;

void prepare(Registers& registers, std::byte* stack, void (*enter)()) {
  getcontext(&registers);
  registers.uc_stack.ss_sp = stack;
  registers.uc_stack.ss_size = kStackBytes;
  registers.uc_link = nullptr;
  makecontext(&registers, enter, 0);
}

UNCOUNTED void switch_registers(Registers& from, Registers& to) {
  swapcontext(&from, &to);
}

#endif

/// What enter() runs: it can't be given an argument.
Fiber* entered = nullptr;

}  // namespace

/// Where the fiber and its resumer are while the other one runs.
struct Fiber::Context {
  Registers fiber, resumer;
#if defined(__SANITIZE_ADDRESS__)
  void* fake_stack = nullptr;
  const void* resumer_stack = nullptr;
  std::size_t resumer_stack_bytes = 0;
#endif
};

Fiber::Fiber() {
  void* mapping =
      mmap(nullptr, kGuardBytes + kStackBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapping == MAP_FAILED) throw std::bad_alloc();
  mprotect(mapping, kGuardBytes, PROT_NONE);
  mapping_ = static_cast<std::byte*>(mapping);
#if defined(__SANITIZE_ADDRESS__)
  __asan_unpoison_memory_region(mapping_ + kGuardBytes,
                                kStackBytes);  // an earlier mapping may have left marks
#endif
  context_ = new Context;
}

Fiber::~Fiber() {
  delete context_;
  munmap(mapping_, kGuardBytes + kStackBytes);
}

void Fiber::start(void (*body)(void*), void* argument) {
  body_ = body;
  argument_ = argument;
  prepare(context_->fiber, mapping_ + kGuardBytes, &Fiber::enter);
}

void Fiber::resume() {
  entered = this;
#if defined(__SANITIZE_ADDRESS__)
  void* own_fake_stack = nullptr;
  __sanitizer_start_switch_fiber(&own_fake_stack, mapping_ + kGuardBytes, kStackBytes);
#endif
  switch_registers(context_->resumer, context_->fiber);
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_finish_switch_fiber(own_fake_stack, nullptr, nullptr);
#endif
}

void Fiber::suspend() {
  leave(false);
}

UNCOUNTED void Fiber::leave([[maybe_unused]] bool forever) {
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_start_switch_fiber(forever ? nullptr : &context_->fake_stack, context_->resumer_stack,
                                 context_->resumer_stack_bytes);
#endif
  switch_registers(context_->fiber, context_->resumer);
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_finish_switch_fiber(context_->fake_stack, &context_->resumer_stack,
                                  &context_->resumer_stack_bytes);
#endif
}

// Never returns.
UNCOUNTED __attribute__((no_sanitize("address"))) void Fiber::enter() {
  Fiber* fiber = entered;
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_finish_switch_fiber(nullptr, &fiber->context_->resumer_stack,
                                  &fiber->context_->resumer_stack_bytes);
#endif
  fiber->body_(fiber->argument_);
  fiber->leave(true);
}

}  // namespace strata::cuda_emulation
