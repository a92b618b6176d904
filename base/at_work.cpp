#include "base/at_work.h"

#include <atomic>
#include <utility>

namespace strata {
namespace {

std::atomic<int> threads_at_work = 0;
thread_local int depth = 0;  // of the thread's AtWork objects

}  // namespace

AtWork::AtWork() {
  if (depth++ == 0) ++threads_at_work;
}

AtWork::~AtWork() {
  if (--depth == 0) --threads_at_work;
}

bool AtWork::anyone() {
  return threads_at_work > 0;
}

AtWork::Pause::Pause() : depth_(std::exchange(depth, 0)) {
  if (depth_ > 0) --threads_at_work;
}

AtWork::Pause::~Pause() {
  depth = depth_;
  if (depth_ > 0) ++threads_at_work;
}

}  // namespace strata
