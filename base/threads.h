// Several threads for one piece of work, whose parts wait for one another. Plain functions.
#pragma once

#include <cstddef>
#include <functional>

namespace strata {

/// Performs work(i) for each i below `count`, each on a thread of its own, and returns when all have ended.
/// None begins before all threads are there. Throws std::system_error if the system gives no more; then no
/// work has begun. REQUIRES: `work` throws nothing.
void on_threads(std::size_t count, const std::function<void(std::size_t)>& work);

}  // namespace strata
