// Products are timed once, and from then on a table says how they are computed.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <random>
#include <thread>

#include "base/error.h"
#include "base/file.h"
#include "engine/config/run_config.h"
#include "engine/device/cuda/cuda_device.h"
#include "engine/device/cuda/product_chooser.h"
#include "engine/device/product_table.h"
#include "engine/model/model.h"
#include "engine/run/checkpoint/hf_folder.h"
#include "engine/run/tune/request_of_run.h"
#include "tests/execute/support.h"
#include "tests/gpu_emulation/emulated_machine.h"
#include "tests/support/source_folder.h"

namespace strata {
namespace {

using gpu_emulation::counts;
using gpu_emulation::machine;
using ::testing::AllOf;
using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::Pair;
using ::testing::StartsWith;

TEST(FastestProduct, IsTheFirstOfThoseThatTheClockDoesNotTellApart) {
  EXPECT_EQ(fastest_of({{3, 3, 3}, {1, 1, 1}, {2, 2, 2}}), 1U);
  EXPECT_EQ(fastest_of({{1.009, 1.009, 1.009}, {1, 1, 1}}), 0U);
  EXPECT_EQ(fastest_of({{1.02, 1.02, 1.02}, {1, 1, 1}}), 1U);
  EXPECT_EQ(fastest_of({{1.05, 1.05, 1.05, 1.05, 1.05}, {1, 0.9, 1, 1.1, 1.1}}), 0U)
      << "its times vary as much";
  EXPECT_EQ(fastest_of({{2, 2, 2, 2, 2}, {1, 1, 9, 1, 1}}), 1U) << "one of its times is an accident";
  EXPECT_EQ(fastest_of({{1}}), 0U);
}

class ProductChoice : public gpu_emulation::EmulatedMachine {
 protected:
  ProductChoice() {
    config_.device.kind = DeviceKind::cuda;
    config_.device.product_table = table_;
    config_.model.config["num_hidden_layers"] = 1;
    config_.train.steps = 1;
    config_.train.batch = config_.train.microbatch;
    let_be_fastest(3);
  }

  static void let_be_fastest(int fastest) {
    machine().product_seconds = [fastest](int algorithm) { return algorithm == fastest ? 1e-3 : 2e-3; };
  }

  TrainResult run() {
    CudaDevice device;
    return test::run(config_, {.device = &device}).result;
  }
  std::string refusal() {
    try {
      run();
    } catch (const ConfigError& error) {
      return error.what();
    }
    return "accepted";
  }
  ChosenProducts choose(const RunConfig& config, Communicator* ranks = nullptr) {
    CudaDevice device;
    const Model model = test::model_of(config);
    const std::vector<ProductsOf> products = {{model, config.precision(), microbatch_of_rank(config)}};
    return choose_products(device, config.device.product_table, products, ranks);
  }
  ProductTable table() const { return parse_product_table(read_file(table_)); }
  void write(const std::string& text) const { std::ofstream(table_) << text; }

  /// What the text of an algorithm begins with: the emulated cuBLASLt's mark, behind its number.
  static std::string begin_of(int number) { return fmt::format("{:08x}414c474f", number); }

  test::TemporaryFolder folder_;
  RunConfig config_ = test::tiny_run(folder_.path());
  const std::string table_ = (folder_.path() / "products").string();
};

// Invariant of devices (ProductChoice.*): A product table decides the bits. A product that a table has is
// computed alike in every later run, whatever timing would say. Several processes share one table. A damaged
// table is refused.
TEST_F(ProductChoice, IsTheFastestAlgorithm) {
  config_.train.precision = DType::fp32;
  const TrainResult timed = run();
  EXPECT_GT(timed.products.products, 10);
  EXPECT_EQ(timed.products.timed, timed.products.products);
  EXPECT_EQ(std::ssize(table().algorithms), timed.products.products);
  EXPECT_THAT(table().algorithms, Each(Pair(AllOf(StartsWith("emulated GPU"), HasSubstr("cuBLASLt 130000")),
                                            StartsWith(begin_of(3)))));
  config_.device.product_table.clear();
  const TrainResult proposed = run();
  EXPECT_EQ(proposed.products.describe(), "");
  EXPECT_NE(proposed.state_hash, timed.state_hash);
}

/// In codes on one GPU, of rounded operands on another, which have the same names in bf16.
TEST_F(ProductChoice, IsMadeForProductsInFp8AsTheyAreMultiplied) {
  config_.train.precision = kFp8;
  const auto in_codes = [&] {
    const ProductTable table = this->table();
    return std::ranges::count_if(table.algorithms,
                                 [](const auto& entry) { return entry.first.ends_with(", in e4m3"); });
  };
  run();
  EXPECT_GE(in_codes(), 4 * 3);  // products of a block, each with two gradients
  const std::int64_t before = counts().first_proposals;
  EXPECT_EQ(run().products.timed, 0);
  EXPECT_EQ(counts().first_proposals, before);
  EXPECT_THAT(table().algorithms, Each(Pair(HasSubstr("emulated GPU"), StartsWith(begin_of(3)))));
  std::filesystem::remove(table_);
  machine().compute_capability = 80;
  run();
  EXPECT_EQ(in_codes(), 0);
  EXPECT_EQ(run().products.timed, 0);
}

TEST_F(ProductChoice, StaysForEveryLaterRun) {
  const TrainResult first = run();
  const std::int64_t proposals = counts().proposals;
  const std::string text = read_file(table_);
  let_be_fastest(5);
  const TrainResult second = run();
  EXPECT_EQ(counts().proposals, proposals);
  EXPECT_EQ(second.products.timed, 0);
  EXPECT_EQ(second.products.hash, first.products.hash);
  EXPECT_EQ(second.state_hash, first.state_hash);
  EXPECT_EQ(read_file(table_), text);
}

/// Also of heads in chunks, of biases, and of validations.
TEST_F(ProductChoice, IsMadeForEveryProductOfARun) {
  machine().computes = false;
  config_.train.validate_every = 1;
  for (const char* name : {"gpt2", "qwen3-moe", "gemma2"}) {
    const auto golden = test::source_folder() / "tests/parity/goldens" / name / "model";
    config_.model.config = read_hf_config(golden.string());
    config_.model.config["vocab_size"] = 257;
    config_.model.architecture = config_.model.config["model_type"];
    run();
    const std::int64_t before = counts().first_proposals;
    const std::int64_t products = counts().products;
    EXPECT_EQ(run().products.timed, 0);
    EXPECT_GT(counts().products, products);
    EXPECT_EQ(counts().first_proposals, before) << name;
  }
}

TEST_F(ProductChoice, IsMadeForEachGpuAndVersionOfTheLibrary) {
  const std::int64_t products = choose(config_).products;
  machine().name = "another GPU";
  EXPECT_EQ(choose(config_).timed, products);
  machine().cublas_version = 130001;
  EXPECT_EQ(choose(config_).timed, products);
  EXPECT_EQ(std::ssize(table().algorithms), 3 * products);
  machine().name = "emulated GPU";
  machine().cublas_version = 130000;
  EXPECT_EQ(choose(config_).timed, 0);
}

TEST_F(ProductChoice, IsMadeForNewShapesOnly) {
  const std::int64_t products = choose(config_).products;
  const ProductTable before = table();
  config_.data.sequence_length = 16;
  let_be_fastest(2);
  const ChosenProducts other = choose(config_);
  EXPECT_GT(other.timed, 0);
  EXPECT_EQ(std::ssize(table().algorithms), products + other.timed);
  for (const auto& [product, algorithm] : before.algorithms) EXPECT_EQ(*table().find(product), algorithm);
}

/// Which one is the fastest is chance.
TEST_F(ProductChoice, IsTheLibrarysWhereTimesDifferByAccident) {
  std::mt19937 random(1);
  machine().product_seconds = [&random](int) {
    return 1e-3 * std::uniform_real_distribution<double>(1, 1.01)(random);
  };
  choose(config_);
  EXPECT_THAT(table().algorithms, Each(Pair(::testing::_, StartsWith(begin_of(0)))));
}

TEST_F(ProductChoice, IsRefusedIfTheTableIsDamaged) {
  choose(config_);
  const std::string text = read_file(table_);
  for (const std::string& damaged :
       {text.substr(0, text.size() / 2), "notes\n" + text, std::string("my thesis\n"), std::string()}) {
    write(damaged);
    EXPECT_THAT(refusal(), AllOf(StartsWith("device.product_table: " + table_),
                                 HasSubstr("remove the file to have products timed again")));
    EXPECT_EQ(read_file(table_), damaged) << "it is the user's";
  }
  write(text);
  EXPECT_EQ(refusal(), "accepted");
  machine().algorithms = 2;
  EXPECT_THAT(refusal(), HasSubstr("the library does not take its algorithm for emulated GPU"));
  EXPECT_EQ(read_file(table_), text);
}

/// Threads stand for processes: each has a descriptor of its own of the file that is locked.
TEST_F(ProductChoice, OfSeveralProcessesIsOneTable) {
  constexpr int kProcesses = 4;
  std::vector<ChosenProducts> chosen(kProcesses);
  std::vector<RunConfig> configs(kProcesses, config_);
  {
    std::vector<std::jthread> processes;
    for (std::size_t i = 0; i < kProcesses; ++i) {
      configs[i].data.sequence_length = i < 2 ? 24 : 8;
      processes.emplace_back([&, i] { chosen[i] = choose(configs[i]); });
    }
  }
  EXPECT_EQ(chosen[0].timed + chosen[1].timed + chosen[2].timed + chosen[3].timed,
            std::ssize(table().algorithms));
  EXPECT_EQ(chosen[0].hash, chosen[1].hash);
  EXPECT_EQ(chosen[2].hash, chosen[3].hash);
  for (const RunConfig& config : configs) EXPECT_EQ(choose(config).timed, 0);
}

/// What a process leaves that is killed while it adds to the table, and a link that somebody has put there.
TEST_F(ProductChoice, WritesToItsTableOnly) {
  const std::string other = (folder_.path() / "other").string();
  std::ofstream(other) << "precious";
  std::filesystem::create_symlink(other, table_ + ".tmp");
  std::ofstream(folder_.path() / ".products.lock") << "process 1 on a host that is gone";
  choose(config_);
  EXPECT_EQ(read_file(other), "precious");
  // The table's own path may be a link.
  config_.device.product_table = (folder_.path() / "link").string();
  std::filesystem::create_symlink(table_, config_.device.product_table);
  config_.data.sequence_length = 16;
  EXPECT_GT(choose(config_).timed, 0);
  EXPECT_TRUE(std::filesystem::is_symlink(config_.device.product_table));
  EXPECT_EQ(choose(config_).timed, 0);
  EXPECT_FALSE(std::filesystem::exists(folder_.path() / ".products.lock"));
  config_.device.product_table = (folder_.path() / "missing" / "products").string();
  EXPECT_THROW(choose(config_), SystemError);
}

TEST_F(ProductChoice, OfATableThatCannotBeWrittenIsRead) {
  choose(config_);
  config_.device.product_table = (folder_.path() / "read" / "products").string();
  std::filesystem::create_directory(folder_.path() / "read");
  std::filesystem::copy_file(table_, config_.device.product_table);
  // A folder by the lock's name: no lock can be taken.
  std::filesystem::create_directory(folder_.path() / "read" / ".products.lock");
  EXPECT_EQ(choose(config_).timed, 0);
  config_.data.sequence_length = 16;
  EXPECT_THROW(choose(config_), SystemError);
}

TEST_F(ProductChoice, OfRanksWhoseTablesDisagreeIsTheFirstOnes) {
  std::vector<RunConfig> configs(2, config_);
  configs[1].device.product_table = table_ + "-1";
  const std::string first = choose(configs[0]).hash;
  let_be_fastest(5);
  EXPECT_NE(choose(configs[1]).hash, first);
  test::on_ranks(2, [&](int rank, Communicator& world) {
    const ChosenProducts chosen = choose(configs[static_cast<std::size_t>(rank)], &world);
    EXPECT_EQ(chosen.hash, first);
    EXPECT_EQ(chosen.timed, 0);
  });
}

TEST_F(ProductChoice, TakesNoMoreMemoryThanTheRunAndGivesItBack) {
  config_.device.product_table.clear();
  config_.memory.device = test::smallest_bytes(config_);
  const std::int64_t before = counts().device_bytes;
  counts().most_device_bytes = before;
  run();
  machine().device_bytes = static_cast<std::size_t>(counts().most_device_bytes);
  config_.device.product_table = table_;
  EXPECT_GT(run().products.timed, 0);
  EXPECT_EQ(counts().device_bytes, before);
  // And where there is less, it says so.
  std::filesystem::remove(table_);
  machine().device_bytes = static_cast<std::size_t>(64 * MiB);
  EXPECT_THROW(run(), DeviceError);
  EXPECT_EQ(counts().device_bytes, before);
}

TEST_F(ProductChoice, IsNoneOfTheCpus) {
  config_.device.kind = DeviceKind::cpu;
  EXPECT_EQ(test::run(config_).result.products.describe(), "");
  EXPECT_FALSE(std::filesystem::exists(table_));
}

}  // namespace
}  // namespace strata
