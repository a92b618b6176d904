// A call that can be left in the middle and continued later, on a stack of its own. A fiber may be resumed by
// different threads one after another, but by one at a time. The address sanitizer is told of every switch;
// the thread sanitizer need not be, since a fiber's work is its resumer's work.
#pragma once

#include <cstddef>
#include <cstdint>

namespace strata::cuda_emulation {

class Fiber {
 public:
  Fiber();
  ~Fiber();
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  /// The next resume() calls body(argument). REQUIRES: an earlier body has returned.
  void start(void (*body)(void*), void* argument);
  /// Runs the body until it suspends itself or returns.
  void resume();
  /// Returns from the resume() that runs the body. REQUIRES: called in the body.
  void suspend();

 private:
  struct Context;

  static void enter();
  void leave(bool forever);

  std::byte* mapping_ = nullptr;  ///< a guard page, then the stack
  Context* context_ = nullptr;
  void (*body_)(void*) = nullptr;
  void* argument_ = nullptr;
};

}  // namespace strata::cuda_emulation
