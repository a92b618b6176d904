#include "base/threads.h"

#include <future>
#include <thread>
#include <vector>

namespace strata {

void on_threads(std::size_t count, const std::function<void(std::size_t)>& work) {
  std::promise<bool> are_there;
  const std::shared_future<bool> begins = are_there.get_future().share();
  std::vector<std::jthread> threads;  // joined however this ends
  threads.reserve(count);
  try {
    for (std::size_t i = 0; i < count; ++i) {
      threads.emplace_back([&work, begins, i] {
        if (begins.get()) work(i);
      });
    }
  } catch (...) {
    are_there.set_value(false);
    throw;
  }
  are_there.set_value(true);
}

}  // namespace strata
