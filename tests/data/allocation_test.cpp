// Counts every allocation of this test program by replacing the global operator new.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <new>

#include "engine/data/batch_loader.h"
#include "tests/data/corpus.h"

namespace {
std::atomic<std::int64_t> allocations = 0;
}

void* operator new(std::size_t size) {
  ++allocations;
  if (void* memory = std::malloc(size == 0 ? 1 : size)) return memory;
  throw std::bad_alloc();
}
void operator delete(void* memory) noexcept {
  std::free(memory);
}
void operator delete(void* memory, std::size_t) noexcept {
  std::free(memory);
}

namespace strata {
namespace {

TEST(BatchLoaderFill, AllocatesNothing) {
  const Corpus corpus;
  RunConfig config;
  config.data.path = {corpus.write("a.txt", std::string(500, 'a')),
                      corpus.write("b.txt", std::string(700, 'b'))};
  config.data.sequence_length = 16;
  config.train.batch = 4;
  config.train.microbatch = 2;
  const BatchLoader loader(config, 256);
  std::vector<std::int32_t> tokens(32), targets(32);
  const std::int64_t before = allocations;
  for (std::int64_t step = 0; step < 50; ++step) loader.fill(step, step % 2, tokens, targets);
  for (std::int64_t i = 0; i < loader.validation_microbatches(); ++i)
    loader.fill_validation(i, tokens, targets);
  EXPECT_EQ(allocations, before);
  EXPECT_GT(before, 0);
}

}  // namespace
}  // namespace strata
