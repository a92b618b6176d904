// Runs whose parameters are kept and travel as e4m3: the products that read them round them so anyway, so
// they change no bit where each rank has whole matrices, and plans stay exact. And runs beside frozen
// parameters in blocks, which are other numbers, and the same ones wherever they live.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <set>
#include <span>

#include <fmt/format.h>

#include "base/float8.h"
#include "engine/config/choices.h"
#include "engine/config/run_config.h"
#include "engine/model/model.h"
#include "engine/model/packing.h"
#include "engine/run/checkpoint/checkpoint_list.h"
#include "engine/run/execute/block_scales.h"
#include "tests/execute/gradients.h"
#include "tests/execute/support.h"
#include "tests/support/drive.h"

namespace strata {
namespace {

namespace fs = std::filesystem;
using test::expect_the_plan_was_exact;
using test::has_same_bits;
using test::run;
using test::run_ranks;
using test::RunOutcome;
using test::Tensors;

/// Whole units, parts of products, and norms.
const std::vector<std::string> kFrozen = {"model.embed_tokens.*", "model.layers.0.*", "*.1.mlp.*",
                                          "*.1.self_attn.k_proj.*", "*.2.input_layernorm.*"};

class PackedParameters : public ::testing::Test {
 protected:
  PackedParameters() { config_.train.precision = kFp8; }

  /// In less memory and without it, in both orders, pinned, and on drives: one hash, and exact plans.
  std::set<std::string> hashes_of_placements(RunConfig config) {
    std::set<std::string> hashes;
    const auto add = [&](const RunOutcome& outcome) {
      expect_the_plan_was_exact(outcome);
      hashes.insert(outcome.result.state_hash);
    };
    const auto on_device = [](MemorySection& memory, TierChoice parameters, TierChoice state) {
      memory.parameters = parameters;
      memory.optimizer_state = state;
    };
    for (const Order order : {Order::layer_major, Order::microbatch_major}) {
      config.plan.order = order;
      const Bytes least = test::smallest_bytes(config), most = test::resident_bytes(config);
      for (const Bytes budget : {least, (least + most) / 2, most}) {
        config.memory.device = budget;
        add(run(config));
      }
      for (const auto& [parameters, state] :
           {std::pair{TierChoice::device, TierChoice::automatic},
            std::pair{TierChoice::device, TierChoice::host}, std::pair{TierChoice::host, TierChoice::host},
            std::pair{TierChoice::automatic, TierChoice::device}}) {
        on_device(config.memory, parameters, state);
        add(run(config));
      }
      on_device(config.memory, TierChoice::automatic, TierChoice::automatic);
    }
    if (!test::why_no_drive(folder_.path()).empty()) return hashes;
    config.memory.device = test::smallest_bytes(config);
    config.memory.nvme_path = {(folder_.path() / "drive").string()};
    fs::create_directory(config.memory.nvme_path.front());
    for (const TierChoice parameters : {TierChoice::automatic, TierChoice::nvme}) {
      config.memory.parameters = parameters;
      config.memory.host = test::smallest_host_bytes(config);
      add(run(config));
      *config.memory.host += 64 * KiB;
      add(run(config));
    }
    return hashes;
  }

  test::TemporaryFolder folder_;
  RunConfig config_ = test::tiny_run(folder_.path());
};

// Invariant of numbers (PackedParameters.*): Packed parameters change no result. Parameters in FP8 give the
// bits of whole matrices wherever they live: in both orders, on drives, with split masters, through
// checkpoints and beside other models. Plans are exact.
TEST_F(PackedParameters, ChangeNoBitWhereverTheyLive) {
  for (const auto& [master, clip_norm] :
       {std::pair{MasterFormat::fp32, 1.0}, {MasterFormat::split, 0.0}, {MasterFormat::none, 0.0}}) {
    RunConfig config = config_;
    config.optimizer.master = master;
    config.optimizer.clip_norm = clip_norm;
    config.train.validate_every = 2;
    const std::string expected = run(config).result.state_hash;
    config.memory.trained_as = ParameterFormat::fp8;
    EXPECT_THAT(hashes_of_placements(config), ::testing::ElementsAre(expected));
  }
}

TEST_F(PackedParameters, TravelInAboutHalfOfTheBytes) {
  config_.model.config["intermediate_size"] = 256;
  config_.memory.optimizer_state = TierChoice::host;
  config_.memory.device = test::smallest_bytes(config_);
  const Bytes whole = run(config_).plan.training().moved(Link::h2d);
  config_.memory.trained_as = ParameterFormat::fp8;
  const Bytes packed = run(config_).plan.training().moved(Link::h2d);
  Bytes parameters = 0;  // of blocks
  const Model model = test::model_of(config_);
  for (std::size_t u = 1; u + 1 < model.units.size(); ++u) parameters += model.units[u].elements;
  EXPECT_LT(packed, whole - parameters / 2);
}

/// What is frozen is rounded once, and all else learns as beside what is not.
TEST_F(PackedParameters, ThatAreFrozenAreRoundedAndLeaveTheOthersTheirBits) {
  config_.train.freeze = kFrozen;
  const auto left = [&] { return test::left_by(config_, {StateKey::master, StateKey::frozen}); };
  const Tensors expected = left();
  config_.memory.frozen_as = ParameterFormat::fp8;
  std::size_t rounded = 0, as_they_were = 0;
  for (const auto& [name, values] : left()) {
    if (name.ends_with(" frozen") && name.find("_proj") != std::string::npos) {
      EXPECT_FALSE(has_same_bits(values, expected.at(name))) << name;
      for (std::size_t i = 0; i < values.size(); ++i)
        ASSERT_NEAR(values[i], expected.at(name)[i], std::abs(values[i]) / 15 + 1e-3) << name;
      ++rounded;
    } else {
      EXPECT_TRUE(has_same_bits(values, expected.at(name))) << name;
      ++as_they_were;
    }
  }
  EXPECT_EQ(rounded, 7U + 3U + 1U);
  EXPECT_GT(as_they_were, 10U);
  config_.memory.trained_as = ParameterFormat::fp8;
  for (const std::size_t steps : {1U, 4U}) {
    config_.train.steps = static_cast<std::int64_t>(steps);
    EXPECT_EQ(hashes_of_placements(config_).size(), 1U);
  }
}

TEST_F(PackedParameters, ThatAreFrozenTakeHalfOfTheDevice) {
  config_.train.freeze = {"model.layers.*"};
  config_.model.config["intermediate_size"] = 512;
  const auto kept = [&] {
    Bytes bytes = 0;
    const Program program = run(config_).plan.training().program;
    for (const StateEntry& place : program.state)
      if (place.part == StateKey::frozen) bytes += program.buffer(place.buffer).bytes;
    return bytes;
  };
  const Bytes whole = kept();
  config_.memory.frozen_as = ParameterFormat::fp8;
  EXPECT_LT(kept(), whole * 6 / 10);
}

TEST_F(PackedParameters, GoThroughCheckpointsToTheSameBits) {
  config_.train.freeze = kFrozen;
  config_.memory.trained_as = config_.memory.frozen_as = ParameterFormat::fp8;
  config_.checkpoint.every = 1;
  for (const bool nvme : {false, true}) {
    if (nvme && !test::why_no_drive(folder_.path()).empty()) continue;
    RunConfig config = config_;
    config.memory.device = test::smallest_bytes(config);
    if (nvme) {
      config.memory.nvme_path = {folder_.path().string()};
      config.memory.parameters = config.memory.optimizer_state = TierChoice::nvme;
    }
    const std::string expected = run(config).result.state_hash;
    config.checkpoint.path = (folder_.path() / (nvme ? "drives" : "out")).string();
    config.train.steps = 2;
    run(config);
    config.train.steps = 4;
    EXPECT_EQ(run(config).result.state_hash, expected);
  }
}

struct PackedLayout {
  int stage = 3, ranks = 2, replicate = 1, pipeline = 1, tensor = 1;
  std::int64_t all() const { return std::int64_t{ranks} * pipeline * tensor; }
};

class PackedOnRanks : public PackedParameters, public ::testing::WithParamInterface<PackedLayout> {
 protected:
  PackedOnRanks() {
    const PackedLayout& layout = GetParam();
    config_.train.batch = 12;
    config_.train.microbatch = 1;
    config_.train.threads = 1;
    config_.train.freeze = {"*.1.mlp.*", "*.0.self_attn.o_proj.*"};
    config_.parallel.data = layout.ranks;
    config_.parallel.replicate = layout.replicate;
    config_.parallel.zero_stage = layout.stage;
    config_.parallel.pipeline = layout.pipeline;
    config_.parallel.tensor = layout.tensor;
  }

  RunOutcome run_all(const RunConfig& config) {
    const std::vector<RunOutcome> all = run_ranks(config, static_cast<int>(GetParam().all()));
    for (const RunOutcome& rank : all) {
      EXPECT_EQ(rank.result.state_hash, all[0].result.state_hash);
      expect_the_plan_was_exact(rank);
    }
    return all[0];
  }
};

/// A part of a matrix has its own scale, which only matters to numbers that are tiny beside its largest.
TEST_P(PackedOnRanks, LearnAsIfTheyWereNotAndTheSameWhereverTheyLive) {
  const RunOutcome whole = run_all(config_);
  config_.memory.trained_as = config_.memory.frozen_as = ParameterFormat::fp8;
  std::set<std::string> hashes;
  Bytes sent = 0;
  const auto add = [&](const RunConfig& config) {
    const RunOutcome outcome = run_all(config);
    hashes.insert(outcome.result.state_hash);
    for (std::size_t step = 0; step < whole.result.steps.size(); ++step)
      EXPECT_NEAR(outcome.result.steps[step].loss, whole.result.steps[step].loss, 2e-3) << step;
    sent = outcome.plan.training().moved(Link::all_gather);
  };
  add(config_);
  if (whole.plan.only().strategy.is_sharded()) {
    EXPECT_LT(sent, whole.plan.training().moved(Link::all_gather));
  }
  RunConfig config = config_;
  config.memory.optimizer_state = TierChoice::device;
  add(config);
  config.memory.optimizer_state = TierChoice::automatic;
  config.memory.device = test::smallest_bytes(config);
  add(config);
  if (test::why_no_drive(folder_.path()).empty()) {
    config.memory.nvme_path = {folder_.path().string()};
    config.memory.parameters = config.memory.optimizer_state = TierChoice::nvme;
    add(config);
  }
  EXPECT_EQ(hashes.size(), 1U);
}

INSTANTIATE_TEST_SUITE_P(Layouts, PackedOnRanks,
                         ::testing::Values(PackedLayout{.stage = 0}, PackedLayout{.stage = 1, .ranks = 3},
                                           PackedLayout{.stage = 3, .ranks = 3},
                                           PackedLayout{.stage = 3, .ranks = 4, .replicate = 2},
                                           PackedLayout{.stage = 3, .ranks = 1, .pipeline = 2},
                                           PackedLayout{.stage = 3, .ranks = 2, .tensor = 2}));

/// Adapters beside frozen matrices: QLoRA.
class PackedInBlocks : public PackedParameters {
 protected:
  PackedInBlocks() {
    config_.train.precision = DType::fp32;
    config_.adapter = {.type = AdapterType::lora,
                       .rank = 2,
                       .alpha = 4,
                       .targets = {AdapterSection::kAllLinear},
                       .path = ""};
    config_.memory.frozen_as = ParameterFormat::nf4;
  }
};

// Invariant (PackedInBlocks.*): Blocks of codes are those of bitsandbytes.
TEST_F(PackedInBlocks, AreTheSameNumbersWhereverTheyLive) {
  config_.train.steps = 2;
  EXPECT_EQ(hashes_of_placements(config_).size(), 1U);
  config_.train.precision = DType::bf16;
  config_.memory.frozen_as = ParameterFormat::int8;
  const std::string expected = run(config_).result.state_hash;
  config_.memory.device = test::smallest_bytes(config_);
  const RunOutcome outcome = run(config_);
  expect_the_plan_was_exact(outcome);
  EXPECT_EQ(outcome.result.state_hash, expected);
}

/// Its rounding noise is that of 4 bits for each number, and of 8; nothing else is rounded.
TEST_F(PackedInBlocks, AreNearThoseThatWereThereAndNothingElseIsRounded) {
  const auto left = [&](ParameterFormat format) {
    config_.memory.frozen_as = format;
    return test::left_by(config_, {StateKey::frozen});
  };
  const Tensors exact = left(ParameterFormat::precision);
  for (const auto& [format, farthest] :
       {std::pair{ParameterFormat::nf4, 0.16}, {ParameterFormat::int8, 0.0051}}) {
    for (const auto& [name, values] : left(format)) {
      const std::vector<float>& expected = exact.at(name);
      if (name.find("_proj") == std::string::npos) {
        EXPECT_TRUE(has_same_bits(values, expected)) << name;
        continue;
      }
      EXPECT_FALSE(has_same_bits(values, expected)) << name;
      const float largest =
          std::abs(*std::ranges::max_element(expected, {}, [](float x) { return std::abs(x); }));
      for (std::size_t i = 0; i < values.size(); ++i)
        ASSERT_NEAR(values[i], expected[i], farthest * largest) << name;
    }
  }
}

TEST_F(PackedInBlocks, TakeTheBytesOfTheirCodes) {
  config_.model.config["intermediate_size"] = 1024;
  const auto kept = [&](ParameterFormat format) {
    config_.memory.frozen_as = format;
    const Program program = test::run(config_).plan.training().program;
    Bytes bytes = 0;  // without embedding and head
    for (const StateEntry& place : program.state) {
      const bool is_block = place.unit > 0 && place.unit + 1 < std::ssize(program.units);
      if (place.part == StateKey::frozen && is_block) bytes += program.buffer(place.buffer).bytes;
    }
    return bytes;
  };
  const Bytes exact = kept(ParameterFormat::precision);
  // Half a byte and a sixteenth of a scale for each number, in place of four bytes; and norms.
  EXPECT_NEAR(static_cast<double>(kept(ParameterFormat::nf4)) / static_cast<double>(exact), 0.5625 / 4, 0.01);
  EXPECT_LT(kept(ParameterFormat::int8), exact / 3);
}

TEST_F(PackedInBlocks, GoThroughCheckpointsToTheSameBits) {
  for (const auto& [precision, format] : {std::pair{DType::fp32, ParameterFormat::int8},
                                          {DType::fp32, ParameterFormat::nf4},
                                          {DType::bf16, ParameterFormat::nf4},
                                          {DType::fp16, ParameterFormat::int8}}) {
    RunConfig config = config_;
    config.train.precision = precision;
    config.memory.frozen_as = format;
    const std::string expected = run(config).result.state_hash;
    config.checkpoint.path =
        (folder_.path() / (std::string(name_of(precision)) + std::string(word_of(format)))).string();
    config.checkpoint.every = 1;
    config.train.steps = 2;
    run(config);
    config.train.steps = 4;
    EXPECT_EQ(run(config).result.state_hash, expected);
  }
}

TEST_F(PackedInBlocks, AreOneRunOnManyRanks) {
  config_.train.steps = 2;
  config_.train.batch = 8;
  config_.model.config["vocab_size"] = 256;
  RunConfig sharded = config_, tensor = config_, both = config_;
  sharded.parallel.data = 2;
  sharded.parallel.pipeline = 2;
  tensor.parallel.tensor = 4;
  both.parallel.data = both.parallel.tensor = 2;
  for (RunConfig config : {sharded, tensor, both}) {
    config_.memory.frozen_as = config.parallel.tensor == 2 ? ParameterFormat::int8 : ParameterFormat::nf4;
    config.memory.frozen_as = config_.memory.frozen_as;
    SCOPED_TRACE(fmt::format("data {}, tensor {}, pipeline {}", config.parallel.data, config.parallel.tensor,
                             config.parallel.pipeline));
    test::expect_equal_runs(config_, config, static_cast<int>(config.ranks()));
  }
}

/// What is read from a checkpoint is packed again, by ranks that have other parts of it.
TEST_F(PackedInBlocks, AreWrittenByAnyNumberOfRanksAndReadByAnyOther) {
  config_.train.batch = 12;
  config_.train.steps = 1;
  config_.memory.frozen_as = ParameterFormat::int8;
  config_.checkpoint.path = (folder_.path() / "out").string();
  const auto on = [&](int data, int tensor) {
    RunConfig config = config_;
    config.parallel.data = data;
    config.parallel.tensor = tensor;
    return run_ranks(config, data * tensor).front().result.state_hash;
  };
  const std::string three = on(3, 1);
  EXPECT_EQ(on(1, 2), three);  // which has nothing left to do
  EXPECT_EQ(on(2, 2), three);
  config_.train.steps = 2;
  const std::string four = on(1, 4);
  EXPECT_EQ(on(2, 1), four);
}

float made_up_value(const std::string& name, std::int64_t element) {
  return std::sin(static_cast<float>(element * element % 1013) + static_cast<float>(name.size()));
}

/// What a rank's parts stand for, by tensor and element, after they were packed.
std::map<std::string, std::map<std::int64_t, float>> numbers_packed(const Model& model, std::int64_t parts,
                                                                    const PackingFormat& format) {
  const Unit& unit = model.units[1];
  const std::int64_t part_elements = align_up((unit.frozen_elements + parts - 1) / parts, 64);
  const Packing packing = packing_of(model, unit, Flat::frozen, format, part_elements, parts);
  const ReadTensor read = [](const TensorSpec& tensor, std::int64_t first, std::span<float> out) {
    for (float& value : out) value = made_up_value(tensor.hf_name, first++);
  };
  std::map<std::string, std::map<std::int64_t, float>> numbers;
  for (std::int64_t part = 0; part < parts; ++part) {
    const std::int64_t first = part * part_elements;
    const FlatRange range = {first, std::min(part_elements, unit.frozen_elements - first), Flat::frozen};
    const std::vector<TensorRun> runs = runs_in(unit, range);
    std::vector<float> elements(static_cast<std::size_t>(part_elements)), again = elements;
    for (const TensorRun& run : runs)
      read(*run.tensor, run.first,
           std::span(elements).subspan(static_cast<std::size_t>(run.at),
                                       static_cast<std::size_t>(run.count())));
    std::vector<std::byte> packed(static_cast<std::size_t>(packing.part_bytes));
    const auto number = static_cast<std::size_t>(part);
    BlockScales(unit, Flat::frozen, format.as, read).write(packing, number, elements.data(), packed.data());
    pack(packing, number, elements.data(), packed.data());
    read_packed(packing, number, packed.data(), 0, again);
    for (const TensorRun& run : runs) {
      for (std::int64_t i = 0; i < run.count(); ++i)
        numbers[run.tensor->hf_name][run.first + i] = again[static_cast<std::size_t>(run.at + i)];
    }
  }
  return numbers;
}

TEST_F(PackedInBlocks, HaveTheScalesOfWholeMatricesOnEveryRank) {
  for (const bool is_gpt2 : {false, true}) {
    RunConfig config = config_;
    if (is_gpt2) {
      config.model.architecture = "gpt2";
      config.model.config = {
          {"n_layer", 1}, {"n_embd", 24}, {"n_head", 4}, {"n_positions", 32}, {"vocab_size", 128}};
    }
    const Model whole = test::model_of(config);
    for (const ParameterFormat as : {ParameterFormat::nf4, ParameterFormat::int8}) {
      const PackingFormat format = {as, DType::fp32};
      const auto expected = numbers_packed(whole, 1, format);
      for (const std::int64_t tensor : {1, 2, 4}) {
        config.parallel.tensor = tensor;
        for (std::int64_t rank = 0; rank < tensor; ++rank) {
          const Model model = test::model_of_rank(config, rank);
          for (const std::int64_t parts : {1, 3}) {
            for (const auto& [name, numbers] : numbers_packed(model, parts, format)) {
              for (const auto& [element, number] : numbers)
                ASSERT_EQ(number, expected.at(name).at(element)) << name << " " << element;
            }
          }
        }
      }
    }
  }
}

TEST_F(PackedParameters, AreWrittenByAnyNumberOfRanksAndReadByAnyOther) {
  config_.train.batch = 12;
  config_.train.freeze = kFrozen;
  config_.memory.trained_as = config_.memory.frozen_as = ParameterFormat::fp8;
  config_.checkpoint.path = (folder_.path() / "out").string();
  config_.train.steps = 2;
  const auto on = [&](int ranks) {
    RunConfig config = config_;
    config.parallel.data = ranks;
    return ranks == 1 ? run(config) : run_ranks(config, ranks).front();
  };
  const std::string three = on(3).result.state_hash;
  EXPECT_EQ(on(1).result.state_hash, three);  // which has nothing left to do
  EXPECT_EQ(on(2).result.state_hash, three);
  config_.train.steps = 4;
  const std::string one = on(1).result.state_hash;
  EXPECT_EQ(on(3).result.state_hash, one);
}

}  // namespace
}  // namespace strata
