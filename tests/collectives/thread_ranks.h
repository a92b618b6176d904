// Ranks as threads of the test.
#pragma once

#include <gtest/gtest.h>

#include <exception>
#include <thread>

#include "collectives/threads_communicator.h"
#include "tests/collectives/ranks.h"

namespace strata::test {

class ThreadRanks final : public Ranks {
 public:
  ThreadRanks(int count, const ThreadCommunicatorOptions& options)
      : ranks_(make_thread_communicators(count, options)) {}

  void run(const std::function<void(Communicator&)>& body) override {
    std::vector<std::thread> threads;
    for (const auto& rank : ranks_) {
      threads.emplace_back([&body, &rank] {
        try {
          body(*rank);
        } catch (const std::exception& error) {
          ADD_FAILURE() << "rank " << rank->rank() << ": " << error.what();
          rank->abort("the test failed");
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
  }

 private:
  std::vector<std::unique_ptr<Communicator>> ranks_;
};

}  // namespace strata::test
