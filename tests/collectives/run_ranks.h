// What becomes of each rank, for tests of what ranks do together.
#pragma once

#include <gtest/gtest.h>

#include <exception>
#include <functional>
#include <string>
#include <vector>

#include "tests/collectives/thread_ranks.h"

namespace strata::test {

/// Calls `body` with the communicator of each rank, on a thread of its own. Returns what each rank threw;
/// null if it did not.
inline std::vector<std::exception_ptr> outcomes_of_ranks(int ranks,
                                                         const std::function<void(Communicator&)>& body) {
  constexpr double kWatchdogSeconds = 60;  // a rank that waits in vain fails the test, late but surely
  std::vector<std::exception_ptr> outcomes(static_cast<std::size_t>(ranks));
  test::ThreadRanks(ranks, {.watchdog_seconds = kWatchdogSeconds}).run([&](Communicator& rank) {
    try {
      body(rank);
    } catch (...) {
      outcomes[static_cast<std::size_t>(rank.rank())] = std::current_exception();
    }
  });
  return outcomes;
}

/// Throws what the first rank that failed threw.
inline void run_ranks(int ranks, const std::function<void(Communicator&)>& body) {
  for (const std::exception_ptr& outcome : outcomes_of_ranks(ranks, body)) {
    if (outcome) std::rethrow_exception(outcome);
  }
}

/// Every rank must throw just this kind of error; the sentences.
template <typename ErrorType>
std::vector<std::string> errors_of_ranks(int ranks, const std::function<void(Communicator&)>& body) {
  std::vector<std::string> sentences;
  for (const std::exception_ptr& outcome : outcomes_of_ranks(ranks, body)) {
    sentences.emplace_back();
    try {
      if (outcome) std::rethrow_exception(outcome);
      ADD_FAILURE() << "no error on rank " << sentences.size() - 1;
    } catch (const ErrorType& error) {
      sentences.back() = error.what();
    } catch (const std::exception& error) {
      ADD_FAILURE() << "another kind of error on rank " << sentences.size() - 1 << ": " << error.what();
    }
  }
  return sentences;
}

}  // namespace strata::test
