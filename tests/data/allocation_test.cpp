// fill() runs while steps do, so it may not allocate at all.
#include <gtest/gtest.h>

#include "engine/config/run_config.h"
#include "engine/input/data/batch_loader.h"
#include "tests/data/corpus.h"
#include "tests/support/allocations.h"

namespace strata {
namespace {

class BatchLoaderFill : public ::testing::TestWithParam<DataPacking> {};

// Invariant: A step allocates nothing.
TEST_P(BatchLoaderFill, AllocatesNothing) {
  const Corpus corpus;
  RunConfig config;
  // Some documents of each, as with packing whole ones are held out.
  const auto source = [&](const std::string& name, std::size_t length) {
    return std::vector{corpus.write(name + "1.txt", std::string(length, 'a')),
                       corpus.write(name + "2.txt", std::string(40, 'b'))};
  };
  config.data.sources = {{source("x", 500), 0.4}, {source("y", 700), 0.6}};
  config.data.sequence_length = 16;
  config.train.batch = 4;
  config.train.microbatch = 2;
  config.data.packing = GetParam();
  const BatchLoader loader(config, 256);
  std::vector<std::int32_t> tokens(32), targets(32), places(GetParam() == DataPacking::none ? 0 : 32);
  const std::int64_t before = test::allocations_so_far().all;
  for (std::int64_t step = 0; step < 50; ++step) {
    loader.fill(step, step % 2, tokens, targets, {}, places);
    loader.fill_row_keys(step, step % 2, tokens);
  }
  for (std::int64_t i = 0; i < loader.validation_microbatches(); ++i)
    loader.fill_validation(i, tokens, targets, {}, places);
  EXPECT_EQ(test::allocations_so_far().all, before);
  EXPECT_GT(before, 0);
}

INSTANTIATE_TEST_SUITE_P(Packings, BatchLoaderFill,
                         ::testing::Values(DataPacking::none, DataPacking::documents, DataPacking::whole));

}  // namespace
}  // namespace strata
