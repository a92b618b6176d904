// Training of low-rank adapters beside a frozen model: placements and ranks change nothing, checkpoints go
// on, and folders of PEFT and merged models have what the run has learned.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <functional>

#include "base/error.h"
#include "base/hash.h"
#include "engine/config/run_config.h"
#include "engine/model/model.h"
#include "engine/run/checkpoint/initial_weights.h"
#include "engine/run/checkpoint/peft_folder.h"
#include "tests/base/expect_error.h"
#include "tests/execute/gradients.h"
#include "tests/execute/support.h"

namespace strata {
namespace {

using test::expect_the_plan_was_exact;
using test::has_same_bits;
using test::left_by;
using test::model_of;
using test::run;
using test::RunOutcome;
using test::smallest_bytes;
using test::TemporaryFolder;
using test::Tensors;
using test::tiny_run;
using ::testing::AllOf;
using ::testing::HasSubstr;

class AdapterRun : public ::testing::Test {
 protected:
  AdapterRun() : config_(tiny_run(folder_.path())) {
    config_.adapter = {.type = AdapterType::lora,
                       .rank = 3,
                       .alpha = 6,
                       .rank_pattern = {{"[kqv]_proj", 5}},
                       .alpha_pattern = {{"0\\..*", 4}},
                       .targets = {"q_proj", "v_proj", "up_proj"},
                       .path = ""};
    config_.optimizer.learning_rate = 1e-2;
    config_.train.precision = DType::fp32;
  }

  RunConfig saving() {
    RunConfig config = config_;
    config.checkpoint.path = (folder_.path() / "checkpoints").string();
    return config;
  }
  /// Layers that ranks share by outputs and by inputs: magnitudes have many nodes, so a few.
  static std::vector<std::string> of_all_kinds(AdapterType type) {
    if (type == AdapterType::dora) return {"k_proj", "down_proj"};
    return {AdapterSection::kAllLinear};
  }
  std::string in_folder(const std::string& name) const { return (folder_.path() / name).string(); }

  /// Trains, and calls use(model, read) with what it has learned.
  template <typename Use>
  RunOutcome train_and(const Use& use) {
    const RunConfig config = saving();
    RunOutcome outcome = run(config);
    const Model model = model_of(config);
    CheckpointStore store(config.checkpoint.path, 2);
    BaseWeights base = base_weights(config, model);
    base.as_trained = true;
    store.set_base(std::move(base));
    std::optional<OpenCheckpoint> open = store.open_newest(model);
    use(model, [&](std::size_t unit, FlatRange range, std::span<float> out) {
      open->state.read(unit, weights_in(range.flat), range, out);
    });
    return outcome;
  }

  static std::filesystem::path newest(const RunConfig& config) {
    return list_checkpoints(FileSystem::real(), config.checkpoint.path).at(0).folder;
  }

  TemporaryFolder folder_;
  RunConfig config_;
};

// Invariant of numbers (AdapterRun.*): Adapters are those of PEFT and nothing else is trained. Losses,
// gradients, trained adapters and merged weights of LoRA and DoRA are those of PEFT within 1e-4. Placements
// have the same bits, ranks of every kind have the same gradients, and checkpoints resume.
TEST_F(AdapterRun, TrainsAdaptersAndNothingElse) {
  config_.train.steps = 6;
  const Tensors left = left_by(config_, {StateKey::master, StateKey::frozen});
  const Model model = model_of(config_);
  for (const Unit& unit : model.units) {
    for (const TensorSpec& tensor : unit.tensors) {
      const std::string part = tensor.is_adapter ? " master" : " frozen";
      EXPECT_EQ(tensor.flat == Flat::trained, tensor.is_adapter) << tensor.hf_name;
      ASSERT_TRUE(left.contains(tensor.hf_name + part)) << tensor.hf_name;
    }
  }
  const RunOutcome outcome = run(config_);
  EXPECT_LT(outcome.result.steps.back().loss, outcome.result.steps.front().loss);
  EXPECT_EQ(outcome.plan.only().trained_parameters, model.trained_parameters());
}

/// B is zeros at first, so the first loss is that of the model itself; magnitudes are norms but for rounding.
TEST_F(AdapterRun, BeginsWithTheLossOfTheModel) {
  RunConfig whole = config_, dora = config_;
  whole.adapter = {};
  dora.adapter.type = AdapterType::dora;
  const double loss = run(whole).result.steps.front().loss;
  EXPECT_EQ(run(config_).result.steps.front().loss, loss);
  EXPECT_NEAR(run(dora).result.steps.front().loss, loss, 1e-6 * loss);
}

/// So it is with magnitudes: they are the norms of what passes read.
TEST_F(AdapterRun, BeginsWithTheLossOfWhatCodesStandFor) {
  for (const ParameterFormat format : {ParameterFormat::int8, ParameterFormat::nf4}) {
    config_.memory.frozen_as = format;
    config_.adapter.type = AdapterType::lora;
    const double loss = run(config_).result.steps.front().loss;
    config_.adapter.type = AdapterType::dora;
    EXPECT_NEAR(run(config_).result.steps.front().loss, loss, 1e-6 * loss);
  }
}

TEST_F(AdapterRun, HasItsBitsWhereverItIsPlaced) {
  using Kind = std::pair<AdapterType, DType>;
  for (const auto& [type, precision] :
       {Kind{AdapterType::lora, DType::fp32}, Kind{AdapterType::lora, DType::bf16},
        Kind{AdapterType::dora, DType::bf16}}) {
    RunConfig config = config_;
    config.train.precision = precision;
    config.adapter.type = type;
    config.adapter.targets = of_all_kinds(type);
    const RunOutcome resident = run(config);
    expect_the_plan_was_exact(resident);
    for (const Recompute recompute : {Recompute::none, Recompute::full}) {
      for (const Order order : {Order::layer_major, Order::microbatch_major}) {
        config.train.recompute = recompute;
        config.plan.order = order;
        config.memory.device = smallest_bytes(config);
        const RunOutcome outcome = run(config);
        expect_the_plan_was_exact(outcome);
        EXPECT_EQ(outcome.result.state_hash, resident.result.state_hash);
        config.memory.device = kUnlimited;
      }
    }
  }
}

TEST_F(AdapterRun, IsOneRunOnManyRanks) {
  config_.train.steps = 3;
  config_.model.config["vocab_size"] = 256;
  config_.train.batch = 8;
  for (const AdapterType type : {AdapterType::lora, AdapterType::dora}) {
    config_.adapter.type = type;
    config_.adapter.targets = of_all_kinds(type);
    SCOPED_TRACE(static_cast<int>(type));
    test::expect_one_run_on_two_ranks(config_);
  }
}

TEST_F(AdapterRun, GoesOnFromACheckpoint) {
  config_.train.steps = 4;
  for (const AdapterType type : {AdapterType::lora, AdapterType::dora}) {
    config_.adapter.type = type;
    const std::string whole = run(config_).result.state_hash;
    RunConfig config = saving();
    config.checkpoint.path += std::to_string(static_cast<int>(type));
    std::atomic<bool> stop{false};
    test::StopAfter after(2, stop);
    run(config, {.stop = &stop, .listener = &after});
    EXPECT_EQ(run(config).result.state_hash, whole);
  }
}

TEST_F(AdapterRun, KeepsCheckpointsOfAdaptersAlone) {
  for (const bool spills : {false, true}) {
    RunConfig config = saving();
    config.checkpoint.path += spills ? "-spilled" : "";
    if (spills) config.memory.device = smallest_bytes(config);
    expect_the_plan_was_exact(run(config));
    const std::filesystem::path folder = newest(config);
    EXPECT_FALSE(std::filesystem::exists(folder / "frozen.safetensors"));
    const Manifest manifest = read_manifest(folder / kManifestName);
    ASSERT_TRUE(manifest.base);
    EXPECT_EQ(manifest.base->path, "");
    EXPECT_EQ(manifest.base->seed, config.train.seed);
  }
}

/// What a checkpoint names is read as passes have read it.
TEST_F(AdapterRun, LeavesTheNumbersThatItsCodesStoodFor) {
  for (const ParameterFormat format : {ParameterFormat::int8, ParameterFormat::nf4}) {
    config_.memory.frozen_as = format;
    config_.adapter.type = AdapterType::dora;
    const Tensors left = left_by(config_, {StateKey::frozen});
    train_and([&](const Model& model, const ReadParameters& read) {
      for (std::size_t u = 0; u < model.units.size(); ++u) {
        for (const TensorSpec& tensor : model.units[u].tensors) {
          if (tensor.flat != Flat::frozen) continue;
          std::vector<float> values(static_cast<std::size_t>(tensor.elements));
          read(u, {tensor.offset, tensor.elements, Flat::frozen}, values);
          EXPECT_TRUE(has_same_bits(values, left.at(tensor.hf_name + " frozen"))) << tensor.hf_name;
        }
      }
    });
    std::filesystem::remove_all(saving().checkpoint.path);
  }
}

TEST_F(AdapterRun, RefusesACheckpointOfAnotherModelsAdapters) {
  run(saving());
  RunConfig other = saving();
  other.train.seed = config_.train.seed + 1;
  test::expect_error<ConfigError>(
      [&] { run(other); }, {"has adapters of other weights (random ones of train.seed 1)", "or --fresh"});
}

/// Before version 7 they had what is frozen, too.
TEST_F(AdapterRun, ReadsCheckpointsThatHaveTheWholeModel) {
  RunConfig config = saving();
  run(config);
  const Model model = model_of(config);
  const std::filesystem::path folder = newest(config);
  Manifest manifest = read_manifest(folder / kManifestName);
  std::vector<TensorToWrite> tensors;
  for (const Unit& unit : model.units) {
    const auto of_unit =
        stored_tensors(model, unit, StateKey::frozen, {0, unit.elements_of(Flat::frozen), Flat::frozen});
    tensors.insert(tensors.end(), of_unit.begin(), of_unit.end());
  }
  SafetensorsWriter file(FileSystem::real(), folder / "frozen.safetensors", DType::fp32, tensors);
  for (const Unit& unit : model.units) {
    for (const TensorPiece& piece : pieces_in(unit, {0, unit.elements_of(Flat::frozen), Flat::frozen})) {
      file.write(std::vector<float>(static_cast<std::size_t>(piece.count()), 0.5F));
    }
  }
  file.finish();
  manifest.base.reset();
  manifest.files["frozen.safetensors"] = {file.bytes(), hex(file.checksum())};
  std::ofstream(folder / kManifestName) << to_text(manifest);
  std::optional<OpenCheckpoint> open = CheckpointStore(config.checkpoint.path, 2).open_newest(model);
  std::vector<float> values(1);
  open->state.read(1, StateKey::frozen, {0, 1, Flat::frozen}, values);
  EXPECT_EQ(values.front(), 0.5F);
}

TEST_F(AdapterRun, RefusesACheckpointOfOtherAdapters) {
  run(saving());
  const auto refusal = [&](const std::function<void(AdapterSection&)>& change) -> std::string {
    RunConfig config = saving();
    change(config.adapter);
    try {
      run(config);
    } catch (const ConfigError& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_THAT(refusal([](auto& adapter) { adapter.rank = 4; }),
              HasSubstr("other adapters than this run file (adapter.rank 3 there, 4 here)"));
  EXPECT_THAT(refusal([](auto& adapter) { adapter.alpha = 7; }), HasSubstr("adapter.alpha 6 there, 7 here"));
  EXPECT_THAT(refusal([](auto& adapter) { adapter.rank_pattern.front().second = 4; }),
              HasSubstr("adapter.rank_pattern {'[kqv]_proj': 5} there, {'[kqv]_proj': 4} here"));
  EXPECT_THAT(refusal([](auto& adapter) { adapter.alpha_pattern.clear(); }),
              HasSubstr("adapter.alpha_pattern {'0\\..*': 4} there, {} here"));
  EXPECT_THAT(refusal([](auto& adapter) { adapter.type = AdapterType::rslora; }),
              HasSubstr("adapter.type lora there, rslora here"));
  EXPECT_THAT(refusal([](auto& adapter) { adapter.type = AdapterType::dora; }),
              HasSubstr("adapter.type lora there, dora here"));
  EXPECT_THAT(refusal([](auto& adapter) { adapter = {}; }), HasSubstr("adapter.type lora there, none here"));
  EXPECT_THAT(refusal([](auto& adapter) { adapter.targets = {"q_proj"}; }),
              HasSubstr("adapter.targets q_proj, v_proj, up_proj there, q_proj here"));
}

/// What one run has learned is what another begins with.
TEST_F(AdapterRun, BeginsWithAFolderOfPeftWithMagnitudes) {
  config_.adapter.type = AdapterType::dora;
  const std::string folder = in_folder("adapters");
  train_and(
      [&](const Model& model, const ReadParameters& read) { save_peft_folder(folder, model, read, "", {}); });
  RunConfig config = config_;
  config.train.steps = 1;
  config.optimizer.learning_rate = 0;
  config.adapter.path = folder;
  EXPECT_EQ(left_by(config, {StateKey::master}), left_by(config_, {StateKey::master}));
  const auto refusal = [&](AdapterType type) -> std::string {
    config.adapter.type = type;
    try {
      run(config);
    } catch (const ConfigError& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_THAT(refusal(AdapterType::lora), HasSubstr("use_dora is true, and this run's adapters have false"));
  std::ofstream(folder + "/adapter_config.json")
      << R"({"peft_type": "LORA", "use_dora": true, "use_rslora": true})";
  EXPECT_THAT(refusal(AdapterType::dora), HasSubstr("use_rslora is true"));
  EXPECT_THAT(refusal(AdapterType::rslora), HasSubstr("use_dora is true"));
}

/// A run that begins with another's adapters has its last loss first.
TEST_F(AdapterRun, BeginsWithAFolderOfPeft) {
  const std::string folder = in_folder("adapters");
  const RunOutcome first = train_and(
      [&](const Model& model, const ReadParameters& read) { save_peft_folder(folder, model, read, "", {}); });
  RunConfig config = config_;
  config.train.steps = 1;
  config.optimizer.learning_rate = 0;
  config.adapter.path = folder;
  const std::vector<StateKey> kinds = {StateKey::master};
  const Tensors begun = left_by(config, kinds), left = left_by(config_, kinds);
  ASSERT_EQ(begun.size(), left.size());
  for (const auto& [name, values] : left) EXPECT_TRUE(has_same_bits(values, begun.at(name))) << name;

  const auto refusal = [&](const std::function<void(AdapterSection&)>& change) -> std::string {
    RunConfig other = config;
    change(other.adapter);
    try {
      run(other);
    } catch (const ConfigError& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_THAT(refusal([](auto& adapter) { adapter.rank = 4; }),
              HasSubstr("the rank of model.layers.0.mlp.up_proj is 3, and this run's is 4"));
  EXPECT_THAT(refusal([](auto& adapter) { adapter.alpha = 4; }),
              HasSubstr("the alpha of model.layers.1.self_attn.q_proj is 6, and this run's is 4"));
  EXPECT_THAT(
      refusal([](auto& adapter) { adapter.rank_pattern.clear(); }),
      HasSubstr("adapter_config.json: the rank of model.layers.0.self_attn.q_proj is 5, and this run's "
                "is 3; give adapter.rank and adapter.rank_pattern what r, lora_alpha, rank_pattern"));
  EXPECT_THAT(refusal([](auto& adapter) { adapter.alpha_pattern.front().second = 5; }),
              HasSubstr("the alpha of model.layers.0.self_attn.q_proj is 4, and this run's is 5"));
  EXPECT_EQ(refusal([](auto& adapter) { adapter.rank_pattern = {{"v_proj", 5}, {".*attn.*", 5}}; }), "");
  EXPECT_THAT(refusal([](auto& adapter) { adapter.targets.emplace_back("o_proj"); }),
              HasSubstr("o_proj.lora_A.weight is missing"));
  EXPECT_THAT(
      refusal([](auto& adapter) { adapter.targets.pop_back(); }),
      HasSubstr("this run has no adapter tensor base_model.model.model.layers.0.mlp.up_proj.lora_A.weight"));
  EXPECT_THAT(refusal([](auto& adapter) { adapter.path += "/none"; }), HasSubstr("no such file"));
  const std::string file = folder + "/adapter_config.json";
  std::ofstream(file) << R"({"peft_type": "LORA", "r": 3, "lora_alpha": "six"})";
  EXPECT_THAT(refusal([](auto&) {}), HasSubstr("lora_alpha is \"six\"; expected a number"));
  std::ofstream(file) << R"({"peft_type": "LORA", "rank_pattern": {"q_proj": 2.5}})";
  EXPECT_THAT(refusal([](auto&) {}), HasSubstr("rank_pattern of q_proj is 2.5; expected a positive integer"));
  std::ofstream(file) << R"({"peft_type": "LORA", "alpha_pattern": {"(": 2}})";
  EXPECT_THAT(refusal([](auto&) {}), HasSubstr("adapter_config.json: alpha_pattern: '(' is no regular expr"));
  std::ofstream(file) << R"({"peft_type": "LORA", "r": 3, "lora_alpha": 6, "use_dora": true})";
  EXPECT_THAT(refusal([](auto&) {}), HasSubstr("use_dora is true"));
  const std::string ranks = R"({"peft_type": "LORA", "r": 5, "rank_pattern": {"of_another": 7, "up_proj": 3},
                               "lora_alpha": 6.0, "alpha_pattern": {"layers.0.(mlp|self_attn).+": 4})";
  std::ofstream(file) << ranks << "}";
  EXPECT_EQ(refusal([](auto&) {}), "");
  std::ofstream(file) << R"({"peft_type": "LORA", "r": 4, "lora_alpha": 6, "alpha_pattern": {"0.*": 4}})";
  EXPECT_THAT(
      refusal([](auto& adapter) {
        adapter.rank = 4;
        adapter.rank_pattern.clear();
      }),
      AllOf(HasSubstr("adapter_model.safetensors: tensor base_model.model.model.layers.0.self_attn.q_proj."
                      "lora_A.weight has shape [5, 32], and adapter_config.json beside it gives that layer"),
            HasSubstr("the two files were not saved together")));
  std::ofstream(file) << ranks << R"(, "init_lora_weights": "pissa"})";
  EXPECT_THAT(refusal([](auto&) {}), HasSubstr("init_lora_weights is \"pissa\", by which PEFT changes"));
  std::ofstream(file) << ranks << R"(, "alora_invocation_tokens": [7]})";
  EXPECT_THAT(refusal([](auto&) {}), HasSubstr("alora_invocation_tokens is [7], and adapters with that are"));
  std::ofstream(file) << "[1,";
  EXPECT_THAT(refusal([](auto&) {}), HasSubstr("adapter_config.json"));
  std::filesystem::remove(file);
  std::filesystem::create_directory(file);
  EXPECT_THAT(refusal([](auto&) {}), HasSubstr("adapter_config.json: no such file"));
}

/// A model that the adapters were added to has the losses that it has with them.
/// PEFT takes them for adapters of experts, and drops them.
TEST_F(AdapterRun, HasNoFolderOfPeftForDenseLayersOfAMixture) {
  config_.model.architecture = "qwen3_moe";
  config_.model.config = {{"num_hidden_layers", 2},
                          {"hidden_size", 32},
                          {"num_attention_heads", 4},
                          {"num_key_value_heads", 2},
                          {"head_dim", 8},
                          {"intermediate_size", 48},
                          {"vocab_size", 128},
                          {"decoder_sparse_step", 2},
                          {"num_experts", 4},
                          {"num_experts_per_tok", 2},
                          {"moe_intermediate_size", 16}};
  const auto save = [&](const Model& model, const ReadParameters& read) {
    save_peft_folder(in_folder("adapters"), model, read, "", {});
  };
  test::expect_error<ConfigError>([&] { train_and(save); }, {"model.layers.0.mlp.", "--merge"});
  EXPECT_FALSE(is_there(in_folder("adapters")));
  std::filesystem::remove_all(in_folder("checkpoints"));
  config_.adapter.targets = {"q_proj", "v_proj"};
  train_and(save);
  EXPECT_TRUE(is_there(in_folder("adapters")));
}

TEST_F(AdapterRun, IsMergedIntoTheModel) {
  using Kind = std::pair<AdapterType, std::string>;
  for (const auto& [type, architecture] :
       {Kind{AdapterType::lora, "llama"}, Kind{AdapterType::dora, "llama"}, Kind{AdapterType::lora, "gpt2"},
        Kind{AdapterType::dora, "gpt2"}}) {
    const std::string name = architecture + std::to_string(static_cast<int>(type));
    SCOPED_TRACE(name);
    config_.adapter.type = type;
    if (architecture == "gpt2") {
      config_.model.architecture = "gpt2";
      config_.model.config = {
          {"n_layer", 2}, {"n_embd", 32}, {"n_head", 4}, {"n_positions", 24}, {"vocab_size", 256}};
      config_.adapter.targets = {"c_attn", "mlp.c_proj"};
      config_.adapter.rank_pattern = {{"c_attn", 5}};
    }
    std::filesystem::remove_all(in_folder("checkpoints"));
    const std::string merged = in_folder("merged-" + name), adapters = in_folder("adapters-" + name);
    train_and([&](const Model& model, const ReadParameters& read) {
      save_hf_folder(merged, model, merge_adapters(model, read),
                     {.config = to_hf_config(model.architecture)});
      save_peft_folder(adapters, model, read, "", {});
    });
    RunConfig with_adapters = config_, of_merged = config_;
    with_adapters.adapter.path = adapters;
    of_merged.adapter = {};
    of_merged.model.path = merged;
    const double loss = run(with_adapters).result.steps.front().loss;
    EXPECT_NEAR(run(of_merged).result.steps.front().loss, loss, 1e-5 * loss);
    EXPECT_GT(std::abs(run(config_).result.steps.front().loss - loss), 1e-3);
  }
}

TEST_F(AdapterRun, RefusesTargetsThatAreNoLayers) {
  const auto refusal = [&](const std::vector<std::string>& targets) -> std::string {
    config_.adapter.targets = targets;
    try {
      model_of(config_);
    } catch (const ConfigError& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_EQ(refusal({"q_proj", "self_attn.?_proj"}), "");
  EXPECT_THAT(refusal({"q_proj", "q_prj"}), HasSubstr("adapter.targets: 'q_prj' is no linear layer"));
  EXPECT_THAT(refusal({"input_layernorm"}), HasSubstr("those are down_proj, gate_proj, k_proj, o_proj"));
  EXPECT_THAT(refusal({"lm_head"}), HasSubstr("'lm_head'"));
  EXPECT_THAT(refusal({"up_proj"}),
              HasSubstr("adapter.rank_pattern: '[kqv]_proj' is the first pattern to match "
                        "for no layer with an adapter"));
}

/// A program that knows of no patterns would take one alpha for all.
TEST_F(AdapterRun, KeepsPatternsInCheckpointsOfAVersionOfTheirOwn) {
  run(saving());
  const Manifest manifest = read_manifest(newest(saving()) / kManifestName);
  EXPECT_EQ(manifest.adapter.rank_pattern, config_.adapter.rank_pattern);
  EXPECT_EQ(manifest.adapter.alpha_pattern, config_.adapter.alpha_pattern);
  EXPECT_THAT(to_text(manifest), HasSubstr("\"version\": 8"));
  Manifest without = manifest;
  without.adapter.rank_pattern.clear();
  without.adapter.alpha_pattern.clear();
  EXPECT_THAT(to_text(without), HasSubstr("\"version\": 7"));
}

}  // namespace
}  // namespace strata
