#include "engine/config/load.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "base/error.h"
#include "base/precision.h"
#include "base/random.h"
#include "engine/config/choices.h"
#include "engine/config/describe.h"
#include "engine/config/keys.h"
#include "engine/config/run_config.h"
#include "engine/config/run_length.h"
#include "engine/config/run_models.h"
#include "tests/config/support.h"
#include "tests/support/source_folder.h"

namespace strata {
namespace {

using test::kMinimal;
using test::refusal;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Optional;
using ::testing::StartsWith;

TEST(LoadRunConfig, ReadsTheRunFileOfTheDocumentation) {
  const RunConfig config = parse_run_config(R"(
model:   {architecture: llama, config: {num_hidden_layers: 12, rms_norm_eps: 1e-5, tie_word_embeddings: true}}
data:    {path: [corpus/*.txt, more], tokenizer: bytes, sequence_length: 256}
train:   {steps: 200, batch: 32, microbatch: 4, precision: fp32, seed: 7, recompute: none, validate_every: 10,
          validation_batches: 3, threads: 2}
optimizer: {type: adamw, lr: 3e-3, betas: [0.8, 0.99], epsilon: 1e-6, weight_decay: 0.2, decay: all, clip_norm: 2,
            schedule: {type: cosine, warmup: 20, minimum_ratio: 0.2}}
parallel: {data: 1, tensor: 1, pipeline: 1, zero_stage: 2}
memory:  {device: 2GiB, host: unlimited}
plan:    {order: microbatch_major, lanes: serial}
device:  {kind: cpu, link: {h2d: 1GB/s, d2h: 500MB}}
checkpoint: {path: out/, every: 100, keep: 3}
report: {metrics: out/metrics.jsonl}
)",
                                            "run.yaml");
  EXPECT_EQ(config.model.architecture, "llama");
  EXPECT_EQ(config.model.config,
            nlohmann::json::parse(
                R"({"num_hidden_layers": 12, "rms_norm_eps": 1e-5, "tie_word_embeddings": true})"));
  EXPECT_THAT(config.data.path, ElementsAre("corpus/*.txt", "more"));
  EXPECT_EQ(config.data.sequence_length, 256);
  EXPECT_EQ(config.train.steps, 200);
  EXPECT_EQ(config.train.precision, DType::fp32);
  EXPECT_EQ(config.train.seed, 7U);
  EXPECT_EQ(config.train.recompute, Recompute::none);
  EXPECT_EQ(config.microbatches(), 8);
  EXPECT_EQ(config.optimizer.learning_rate, 3e-3);
  EXPECT_THAT(config.optimizer.betas, Optional(ElementsAre(0.8, 0.99)));
  EXPECT_EQ(config.optimizer.decay, Decay::all);
  EXPECT_EQ(config.schedule.type, ScheduleType::cosine);
  EXPECT_EQ(config.schedule.warmup, 20);
  EXPECT_EQ(config.parallel.zero_stage, 2);
  EXPECT_EQ(config.memory.device, 2 * GiB);
  EXPECT_EQ(config.memory.host, kUnlimited);
  EXPECT_EQ(config.plan.order, Order::microbatch_major);
  EXPECT_EQ(config.plan.lanes, LaneMode::serial);
  EXPECT_EQ(config.device.h2d_per_second, 1'000'000'000);
  EXPECT_EQ(config.device.d2h_per_second, 500'000'000);
  EXPECT_EQ(config.checkpoint.keep, 3);
  EXPECT_EQ(config.report.metrics, "out/metrics.jsonl");
}

TEST(LoadRunConfig, LeavesKeysThatAreNotGivenAtTheirDefaults) {
  RunConfig expected;
  expected.model.path = std::string("m");
  expected.data.path = {"a.txt"};
  expected.checkpoint.path = "out/run";
  EXPECT_EQ(parse_run_config(kMinimal + "train:\n  # steps: 7\n", "run.yaml"), expected);
}

TEST(Checkpoints, AreInTheFolderOfTheRunFilesNameOrNowhere) {
  const auto path_of = [](const std::string& text, const std::string& name = "runs/a b.yaml",
                          const std::vector<std::string>& overrides = {}) {
    const RunConfig config = parse_run_config(kMinimal + text, name, overrides);
    EXPECT_EQ(parse_run_config(dump(config), "dump"), config);
    return config.checkpoint.path;
  };
  EXPECT_EQ(path_of(""), "out/a_b");
  EXPECT_EQ(path_of("checkpoint: {every: 5}\n"), "out/a_b");
  EXPECT_EQ(path_of("", "/tmp/small.json"), "out/small");
  for (const std::string none : {"checkpoint: none\n", "checkpoint: {path: none, every: 5}\n"}) {
    EXPECT_EQ(path_of(none), "");
    EXPECT_EQ(path_of(none, "run.yaml", {"checkpoint.path=there"}), "there");
  }
  EXPECT_EQ(path_of("checkpoint: {path: out, every: 5}\n", "run.yaml", {"checkpoint=none"}), "");
  EXPECT_EQ(path_of("checkpoint: {path: ./none}\n"), "./none");
  EXPECT_THAT(refusal(kMinimal + "checkpoint: all\n"), HasSubstr("checkpoint: expected a map of keys"));
  EXPECT_THAT(refusal(kMinimal + "train: none\n"), HasSubstr("train: expected a map of keys"));
}

TEST(LoadRunConfig, ReadsAJsonFile) {
  EXPECT_EQ(parse_run_config("{\"model\":{\"path\":\"m\"},\n\t\"data\":{\"path\":[\"a.txt\"]}}", "run.json"),
            parse_run_config(kMinimal, "run.yaml"));
}

/// The value as Python's json module would write it: numbers and lists as they are, everything else in
/// quotes.
nlohmann::json as_json(const std::string& yaml) {
  const auto value = nlohmann::json::parse(yaml, nullptr, false);
  return value.is_discarded() ? nlohmann::json(yaml) : value;
}

TEST(LoadRunConfig, ReadsEveryKeyFromJsonWithItsWordsInQuotes) {
  const RunConfig config = parse_run_config(
      "model: {architecture: llama, config: {hidden_size: 64, hidden_act: silu, tie_word_embeddings: true}}\n"
      "data: {path: [a, \"b \\\"c\\\"\"], tokenizer: none}\ntrain: {precision: fp32, seed: 7}\n"
      "memory: {device: 2GiB, host: unlimited, placement: {gradients: host}}\nplan: {order: layer_major}\n"
      "device: {link: {h2d: 1GB/s}}\ncheckpoint: {path: out}\n",
      "run.yaml");
  nlohmann::json json;
  for (const Key& key : config_keys()) {
    const std::string value = key.get(config);
    if (value.empty()) continue;
    std::string pointer = "/" + key.path;
    std::ranges::replace(pointer, '.', '/');
    json[nlohmann::json::json_pointer(pointer)] = as_json(value);
  }
  for (const int indent : {-1, 2}) EXPECT_EQ(parse_run_config(json.dump(indent), "run.json"), config);
  EXPECT_EQ(parse_run_config(json.dump(1, '\t'), "run.json"), config);
}

TEST(LoadRunConfig, SharesOutSequencesThatDivide) {
  const auto refusal_of = [](const std::string& length, const std::string& ranks) {
    return refusal(kMinimal + "parallel: {context: " + ranks + "}\n", {"data.sequence_length=" + length});
  };
  EXPECT_EQ(refusal_of("96", "4"), "accepted");
  EXPECT_THAT(
      refusal_of("100", "4"),
      HasSubstr("parallel.context: 4 ranks have 2 stretches each of a sequence, and data.sequence_length, "
                "100, does not divide by 8; 96 or 104 would fit"));
  EXPECT_THAT(refusal_of("6", "4"), HasSubstr("; 8 would fit"));
  EXPECT_THAT(refusal_of("96", "0"), HasSubstr("parallel.context"));
  EXPECT_THAT(refusal(kMinimal + "parallel: {context: 4294967296, pipeline: 4294967296}\n"),
              HasSubstr("must be at most 4096"));
  EXPECT_EQ(refusal(kMinimal + "parallel: {context: 2, data: 2, shard: 4}\n"), "accepted");
  EXPECT_THAT(refusal(kMinimal + "parallel: {context: 2, data: 2, shard: 2}\n"),
              HasSubstr("2 times parallel.replicate, 1, is not parallel.data times parallel.context, 4"));
}

TEST(LoadRunConfig, ReadsTheEscapesOfJson) {
  const auto path_of = [](const std::string& text) {
    return parse_run_config(R"({"model": {"path": "m"}, "data": {"path": )" + text + "}}", "run.json")
        .data.path.at(0);
  };
  EXPECT_EQ(path_of(R"("a\/b\\\"\u00e9\n")"), "a/b\\\"\u00e9\n");
  EXPECT_EQ(path_of(R"("\ud83d\ude00.txt")"), "\U0001F600.txt");
  EXPECT_EQ(path_of(R"("\\ud83d\\ude00")"), "\\ud83d\\ude00") << "no escapes";
}

TEST(LoadRunConfig, KeepsNumbersAndTruthOutOfQuotes) {
  EXPECT_EQ(parse_run_config(kMinimal + "train: {precision: 'fp32'}\n", "run.yaml").train.precision,
            DType::fp32);
  EXPECT_EQ(refusal(R"({"model": {"path": "m"}, "data": {"path": "a"}, "train": {"steps": "5"}})"),
            "run.yaml:1:59: train.steps: expected an integer, found the text \"5\" in quotes");
  EXPECT_THAT(refusal(R"({"parallel": {"sparse_gradients": "true"}})"), HasSubstr("expected true or false"));
}

TEST(LoadRunConfig, ReadsTheHomeFolderInPaths) {
  const std::string home = std::getenv("HOME");  // NOLINT(concurrency-mt-unsafe): nobody sets it
  const RunConfig config = parse_run_config(std::string(kMinimal) +
                                                "checkpoint: {path: ~/saved}\n"
                                                "report: {metrics: ~/m.jsonl, tensorboard: ~other/curves}\n",
                                            "run.yaml", {"data.path=[~/a/*.txt, b~/c, ~/d]"});
  EXPECT_THAT(config.data.path, ElementsAre(home + "/a/*.txt", "b~/c", home + "/d"));
  EXPECT_EQ(config.checkpoint.path, home + "/saved");
  EXPECT_EQ(config.report.metrics, home + "/m.jsonl");
  EXPECT_EQ(config.report.tensorboard, "~other/curves");
}

TEST(LoadRunConfig, RepeatsPathsOfAnyBytes) {
  std::string path = "x";
  for (int byte = 1; byte < 256; ++byte) path += static_cast<char>(byte);
  RunConfig config = parse_run_config(kMinimal, "run.yaml");
  config.data.path = {path, "caf\xe9.txt"};
  config.model.path = "\xff\xfe";
  EXPECT_EQ(parse_run_config(dump(config), "dump"), config);
}

TEST(LoadRunConfig, TypesTheFreeModelConfigLikeJson) {
  const auto config = parse_run_config(
      "data: {path: a}\nmodel:\n  architecture: gpt2\n"
      "  config: {a: 1, b: -2.5e-3, c: true, d: null, e: gelu_new, f: '1', g: [1, x], h: {i: ~}, j: "
      "18446744073709551615}\n",
      "run.yaml");
  EXPECT_EQ(config.model.config,
            nlohmann::json::parse(R"({"a": 1, "b": -2.5e-3, "c": true, "d": null, "e": "gelu_new", "f": "1",
                                      "g": [1, "x"], "h": {"i": null}, "j": 18446744073709551615})"));
  EXPECT_TRUE(config.model.config["a"].is_number_integer());
  EXPECT_TRUE(config.model.config["b"].is_number_float());
}

TEST(Overrides, ReplaceValuesOfTheFileInOrder) {
  const RunConfig config =
      parse_run_config(kMinimal + "train: {steps: 5}\n", "run.yaml",
                       {"train.steps=6", "train.steps=7", "optimizer.schedule={type: linear, warmup: 2}",
                        "data.path=[x, 'y']", "device.link.h2d=2GB/s", "device.link.h2d=unlimited"});
  EXPECT_EQ(config.train.steps, 7);
  EXPECT_EQ(config.schedule.type, ScheduleType::linear);
  EXPECT_EQ(config.schedule.warmup, 2);
  EXPECT_THAT(config.data.path, ElementsAre("x", "y"));
  EXPECT_EQ(config.device.h2d_per_second, std::nullopt);
}

TrainSection length_of(const std::string& train, const std::vector<std::string>& overrides) {
  return parse_run_config(kMinimal + "train: " + train + "\n", "run.yaml", overrides).train;
}

TEST(LengthOfARun, IsInStepsOrInEpochsByWhoHasTheLastWord) {
  EXPECT_EQ(length_of("{epochs: 2.5}", {}).epochs, 2.5);
  EXPECT_EQ(length_of("{steps: 5}", {"train.epochs=3"}).epochs, 3);
  const TrainSection in_steps = length_of("{epochs: 3}", {"train.steps=5"});
  EXPECT_EQ(in_steps.epochs, std::nullopt);
  EXPECT_EQ(in_steps.steps, 5);
  EXPECT_EQ(
      refusal(kMinimal + "train: {steps: 5, epochs: 3}\n"),
      "run.yaml:3:19: train.epochs: train.steps gives the length of the run, too; take one of them out");
  EXPECT_THAT(refusal(kMinimal + "train: {epochs: 0}\n"),
              HasSubstr("train.epochs: must be greater than 0, not 0"));
}

TEST(LengthOfARun, FollowsFromEpochsOnceTheDataAreRead) {
  RunConfig config = parse_run_config(kMinimal + "train: {epochs: 1.5, batch: 8}\n", "run.yaml");
  set_steps_of_epochs(config, 20);
  EXPECT_EQ(config.train.steps, 4);  // 30 sequences
  config.train.epochs = 1e-9;
  set_steps_of_epochs(config, 20);
  EXPECT_EQ(config.train.steps, 1);
  config.train.epochs = 1e300;
  EXPECT_THROW(set_steps_of_epochs(config, 20), ConfigError);
}

// Invariant of numbers (LengthOfARun.*): A run that is made shorter than its warm-up still reaches its
// learning rate. The warm-up becomes a tenth of the run's steps.
TEST(LengthOfARun, CutsAWarmupThatSomebodyElseHasGiven) {
  const std::string file = kMinimal + "train: {steps: 200}\noptimizer: {schedule: {warmup: 50}}\n";
  const RunConfig cut = parse_run_config(file, "run.yaml", {"train.steps=20"});
  EXPECT_EQ(cut.schedule.warmup, 2);
  EXPECT_EQ(cut_warmup_text(cut),
            "optimizer.schedule.warmup: 50 steps of warm-up are more than the run's 20, so it is cut to 2");
  const RunConfig whole = parse_run_config(file, "run.yaml", {"train.steps=50"});
  EXPECT_EQ(whole.schedule.warmup, 50);
  EXPECT_EQ(cut_warmup_text(whole), "");
  RunConfig in_epochs = parse_run_config(file, "run.yaml", {"train.epochs=1"});
  EXPECT_EQ(in_epochs.schedule.warmup, 50);
  set_steps_of_epochs(in_epochs, 8 * 30);
  EXPECT_EQ(in_epochs.schedule.warmup, 3);
}

TEST(Overrides, ReachIntoTheFreeModelConfig) {
  const RunConfig config =
      parse_run_config("model: {architecture: llama, config: {a: 1, b: 2}}\ndata: {path: x}\n", "run.yaml",
                       {"model.config.a=5", "model.config.rope_scaling.factor=8.0"});
  EXPECT_EQ(config.model.config,
            nlohmann::json::parse(R"({"a": 5, "b": 2, "rope_scaling": {"factor": 8.0}})"));
  EXPECT_EQ(
      refusal("model: {architecture: llama, config: {a: 1}}\ndata: {path: x}\n", {"model.config.a.b=5"}),
      "--set model.config.a.b=5: model.config: is not a map on the way to a.b");
}

TEST(Overrides, AreNamedInErrors) {
  EXPECT_EQ(refusal(kMinimal, {"train.stepz=5"}),
            "--set train.stepz=5: unknown key 'train.stepz': did you mean 'train.steps'?");
  EXPECT_EQ(refusal(kMinimal, {"train.steps=many"}),
            "--set train.steps=many: train.steps: expected an integer, found 'many'");
  EXPECT_EQ(refusal(kMinimal, {"train.steps"}), "--set train.steps: expected section.key=value");
  EXPECT_EQ(refusal(kMinimal, {"train.steps="}),
            "--set train.steps=: train.steps: expected an integer, found nothing");
  EXPECT_THAT(refusal(kMinimal, {"train.betas=[1"}),
              StartsWith("--set train.betas=[1: this is not valid YAML: "));
}

TEST(Overrides, AreBlamedForACombinationTheyMakeImpossible) {
  EXPECT_EQ(refusal(kMinimal + "train: {batch: 8}\n", {"train.microbatch=3"}),
            "--set train.microbatch=3: train.batch: 8 sequences do not divide into microbatches of 3 on 1 "
            "data rank; 6 or 9 would fit");
}

TEST(Positions, AreLineAndColumnOfTheKey) {
  EXPECT_EQ(refusal(kMinimal + "optimizer:\n  lr: 1e-3\n  bettas: [0, 0]\n"),
            "run.yaml:5:3: unknown key 'optimizer.bettas': did you mean 'optimizer.betas'?");
  EXPECT_EQ(refusal(kMinimal + "optimizer: {lr: 1, schedule: {typ: cosine}}\n"),
            "run.yaml:3:31: unknown key 'optimizer.schedule.typ': did you mean 'optimizer.schedule.type'?");
  EXPECT_EQ(
      refusal(kMinimal + "train:\n\n  batch: 10\n  microbatch: 4\n"),
      "run.yaml:5:3: train.batch: 10 sequences do not divide into microbatches of 4 on 1 data rank; 8 or "
      "12 would fit");
}

// Invariant (UnknownKeys.*): Bad input gets a sentence.
TEST(UnknownKeys, SuggestTheNearestKeyOrSection) {
  EXPECT_THAT(refusal(kMinimal + "optimzer: {lr: 1}\n"), HasSubstr("'optimzer': did you mean 'optimizer'?"));
  EXPECT_THAT(refusal(kMinimal, {"optimzer.lr=1"}), HasSubstr("did you mean 'optimizer.lr'?"));
  EXPECT_THAT(refusal(kMinimal + "modelss: []\n"), HasSubstr("did you mean 'models'?"));
  EXPECT_THAT(refusal(kMinimal + "swep: {}\n"), HasSubstr("did you mean 'sweep'?"));
}

TEST(UnknownKeys, SuggestTheSectionThatHasAKeyOfThatName) {
  EXPECT_THAT(refusal(kMinimal + "train: {lr: 1}\n"), HasSubstr("'train.lr': did you mean 'optimizer.lr'?"));
  EXPECT_THAT(refusal(kMinimal + "seed: 1\n"), HasSubstr("'seed': did you mean 'train.seed'?"));
}

TEST(UnknownKeys, ListTheSectionsKeysWhereNothingIsNear) {
  EXPECT_THAT(refusal(kMinimal + "memory: {fragmentation: 1}\n"),
              HasSubstr("the keys of memory are nvme, placement, device, host"));
  EXPECT_THAT(refusal(kMinimal + "zzzzzzzzzz: 1\n"), HasSubstr("the sections are model, data, train"));
}

TEST(DataSources, AreReadInOrder) {
  const std::string model = "model: {architecture: llama}\n";
  const std::string sources = "data: {sources: [{path: [a, 'b/*'], weight: 3}, {path: c}]}\n";
  EXPECT_THAT(parse_run_config(model + sources, "run.yaml").data.sources,
              ElementsAre(DataSource{{"a", "b/*"}, 3}, DataSource{{"c"}, 1}));
}

TEST(DataSources, AreRefusedWithTheNumberOfTheSource) {
  const auto refusal_of = [](const std::string& sources) {
    return refusal("model: {architecture: llama}\n", {"data.sources=" + sources});
  };
  EXPECT_THAT(refusal_of("[{path: a}, {weight: 2}]"),
              HasSubstr("data.sources: source 2: names no files; add them"));
  EXPECT_THAT(refusal_of("[{path: a, weight: 0}]"),
              HasSubstr("source 1: weight: must be greater than 0, not 0"));
  EXPECT_THAT(refusal_of("[{path: a, share: 1}]"),
              HasSubstr("source 1: share: is no key of a source, which has path and weight"));
  EXPECT_THAT(refusal_of("[{path: a, path: b}]"), HasSubstr("source 1: its key 'path' is given twice"));
  EXPECT_THAT(refusal_of("{path: a}"), HasSubstr("expected a list such as [{path: "));
  EXPECT_THAT(refusal_of("[{path: ids.bin}]"), HasSubstr("'ids.bin' holds token ids, not text"));
  EXPECT_THAT(refusal(kMinimal, {"data.sources=[{path: b}]"}),
              HasSubstr("data.path: give either data.path or data.sources, not both"));
}

TEST(Fp8, IsStoredAsBf16AndGoesWithWhatNeedsThat) {
  const RunConfig config = parse_run_config(
      kMinimal + "train: {precision: fp8}\noptimizer: {master: split}\nparallel: {reduce_dtype: bf16}\n",
      "run.yaml");
  EXPECT_EQ(config.train.precision, kFp8);
  EXPECT_EQ(config.precision(), DType::bf16);
  EXPECT_EQ(config.rounding(), Rounding::e4m3);
  EXPECT_EQ(parse_run_config(dump(config), "dump.yaml"), config);
  EXPECT_THAT(refusal(kMinimal + "train: {precision: fp8, loss_scale: {initial: 8}}\n"),
              HasSubstr("the loss is scaled with train.precision fp16 only"));
}

TEST(Fp8, IsWhatParametersAreKeptAsOnlyWhereProductsRoundThem) {
  const RunConfig config = parse_run_config(kMinimal +
                                                "train: {precision: fp8, freeze: ['*.1.*']}\nmemory: {host: "
                                                "1GiB, trained_as: fp8, frozen_as: fp8}\n",
                                            "run.yaml");
  EXPECT_EQ(config.memory.trained_as, ParameterFormat::fp8);
  EXPECT_EQ(config.memory.frozen_as, ParameterFormat::fp8);
  EXPECT_EQ(parse_run_config(dump(config), "dump.yaml"), config);
  for (const char* precision : {"bf16", "fp16", "fp32"}) {
    EXPECT_THAT(refusal(kMinimal + "train: {precision: " + precision + "}\nmemory: {trained_as: fp8}\n"),
                HasSubstr("run.yaml:4:10: memory.trained_as: fp8 needs train.precision fp8"));
    EXPECT_THAT(refusal(kMinimal + "train: {freeze: ['*.1.*'], precision: " + precision +
                        "}\nmemory: {frozen_as: fp8}\n"),
                HasSubstr("memory.frozen_as: fp8 needs train.precision fp8"));
  }
  EXPECT_THAT(
      refusal(kMinimal + "memory: {trained_as: fp8}\nparallel: {pipeline: 2, schedule: pipedream_2bw}\n"),
      HasSubstr("memory.trained_as: fp8 goes with no parallel.schedule that keeps versions"));
  EXPECT_THAT(refusal(kMinimal + "memory: {trained_as: fp4}\n"),
              HasSubstr("expected precision or fp8 or int8 or nf4, found 'fp4'"));
}

TEST(Blocks, AreWhatFrozenParametersAreKeptAsInAnyPrecision) {
  for (const char* precision : {"auto", "fp8", "bf16", "fp16", "fp32"}) {
    for (const ParameterFormat format : {ParameterFormat::int8, ParameterFormat::nf4}) {
      const std::string word(word_of(format));
      const RunConfig config = parse_run_config(
          kMinimal + "train: {precision: " + precision + "}\nmemory: {frozen_as: " + word + "}\n",
          "run.yaml");
      EXPECT_EQ(config.memory.frozen_as, format);
      EXPECT_EQ(parse_run_config(dump(config), "dump.yaml"), config);
      EXPECT_THAT(refusal(kMinimal + "memory: {trained_as: " + word + "}\n"),
                  HasSubstr("memory.trained_as: int8 and nf4 are for what is frozen, memory.frozen_as; use "
                            "precision or fp8"));
    }
  }
}

TEST(Adapter, RefusesWhatGoesWithoutOneOrBesideOne) {
  const RunConfig lora = parse_run_config(kMinimal + "adapter: {type: lora, targets: q_proj}\n", "run.yaml");
  EXPECT_TRUE(lora.freezes());
  EXPECT_EQ(lora.adapter.targets, std::vector<std::string>{"q_proj"});
  EXPECT_THAT(
      refusal(kMinimal + "adapter: {rank: 4}\n"),
      HasSubstr("run.yaml:3:11: adapter.rank: belongs to adapter.type lora or rslora or dora, not none"));
  EXPECT_THAT(refusal(kMinimal + "adapter: {path: a}\n"), HasSubstr("adapter.path: belongs to adapter.type"));
  EXPECT_THAT(refusal(kMinimal + "adapter: {type: lora, rank: 0}\n"),
              HasSubstr("adapter.rank: must be at least 1, not 0"));
  EXPECT_THAT(refusal(kMinimal + "adapter: {type: lora, targets: []}\n"),
              HasSubstr("adapter.targets: must name at least one layer"));
  EXPECT_THAT(refusal(kMinimal + "adapter: {type: lora}\ntrain: {freeze: '*.bias'}\n"),
              HasSubstr("adapter.type: with adapters all but them is frozen; take train.freeze out"));
}

TEST(AutomaticPrecision, IsTheDefaultAndLeavesTheChoiceOpen) {
  EXPECT_EQ(parse_run_config(kMinimal, "run.yaml").train.precision, std::nullopt);
  for (const char* value : {"auto", "'auto'"}) {
    const std::string train = std::string("train: {precision: ") + value + "}\n";
    EXPECT_EQ(
        parse_run_config(kMinimal + train, "run.yaml", {"train.precision=fp32", "train.precision=auto"}),
        parse_run_config(kMinimal, "run.yaml"));
  }
}

TEST(AutomaticPrecision, GoesWithWhatNeedsBf16ButNotWithLossScaling) {
  const RunConfig split = parse_run_config(kMinimal + "optimizer: {master: split}\n", "run.yaml");
  EXPECT_EQ(split.optimizer.master, MasterFormat::split);
  const RunConfig reduced = parse_run_config(kMinimal + "parallel: {reduce_dtype: bf16}\n", "run.yaml");
  EXPECT_EQ(reduced.parallel.reduce_dtype, ReduceDtype::bf16);
  EXPECT_THAT(refusal(kMinimal + "train: {precision: auto, loss_scale: {initial: 8}}\n"),
              HasSubstr("the loss is scaled with train.precision fp16 only"));
}

// Invariant (WrongTypes.*): Bad input gets a sentence.
TEST(WrongTypes, SayWhatWasExpectedAndFound) {
  EXPECT_EQ(refusal(kMinimal + "train: {steps: 1.5}\n"),
            "run.yaml:3:9: train.steps: expected an integer, found '1.5'");
  EXPECT_THAT(refusal(kMinimal + "train: {loss_scale: {initial: 8}}\n"),
              HasSubstr("the loss is scaled with train.precision fp16 only"));
  EXPECT_THAT(refusal(kMinimal + "train: {steps: [1]}\n"), HasSubstr("expected an integer, found a list"));
  EXPECT_THAT(refusal(kMinimal + "train: {steps: 99999999999999999999}\n"), HasSubstr("expected an integer"));
  EXPECT_THAT(refusal(kMinimal + "train: {seed: -1}\n"), HasSubstr("expected an integer, found '-1'"));
  EXPECT_THAT(refusal(kMinimal + "parallel: {zero_stage: 4294967296}\n"), HasSubstr("expected an integer"));
  EXPECT_THAT(refusal(kMinimal + "train: {precision: fp9}\n"),
              HasSubstr("expected auto or fp32 or bf16 or fp16 or fp8, found 'fp9'"));
  EXPECT_THAT(refusal(kMinimal + "optimizer: {lr: '1e-3'}\n"),
              HasSubstr("expected a number, found the text \"1e-3\" in quotes"));
  EXPECT_THAT(refusal(kMinimal + "optimizer: {lr: .nan}\n"), HasSubstr("expected a number"));
  EXPECT_THAT(refusal(kMinimal + "optimizer: {betas: [0.9]}\n"), HasSubstr("expected a list of two numbers"));
  EXPECT_THAT(refusal(kMinimal + "optimizer: {type: sophia}\n"),
              HasSubstr("expected adamw or ademamix or muon or normuon or lion or rmsprop or adagrad or "
                        "adagrad_rowwise or adafactor or sgd, found "
                        "'sophia'"));
  EXPECT_THAT(refusal(kMinimal + "memory: {device: 2 gigs}\n"),
              HasSubstr("expected a size such as 2GiB, 512MB or unlimited, found '2 gigs'"));
  EXPECT_THAT(refusal(kMinimal + "device: {link: {h2d: fast}}\n"),
              HasSubstr("expected a rate such as 1GB/s"));
  EXPECT_THAT(refusal("model: {path: {a: 1}}\n"), HasSubstr("model.path: expected text, found a map"));
  EXPECT_THAT(refusal("data: {path: [[a]]}\n"), HasSubstr("expected text, found a list"));
  EXPECT_THAT(refusal("model: {config: 3}\n"), HasSubstr("expected a map, found '3'"));
  EXPECT_THAT(
      refusal(kMinimal + "train: fast\n"),
      AllOf(StartsWith("run.yaml:3:1: train: expected a map of keys ("), HasSubstr("steps, epochs, batch")));
}

// Invariant (ImpossibleValues.*): Bad input gets a sentence.
TEST(ImpossibleValues, AreRefusedAtTheirKey) {
  EXPECT_EQ(refusal(kMinimal + "train: {batch: -8}\n"),
            "run.yaml:3:9: train.batch: must be at least 1, not -8");
  EXPECT_EQ(refusal(kMinimal + "train: {steps: 0}\n"),
            "run.yaml:3:9: train.steps: must be at least 1, not 0");
  EXPECT_THAT(refusal(kMinimal + "optimizer: {betas: [0.9, 1.0]}\n"),
              HasSubstr("3:13: optimizer.betas: both must be at least 0 and less than 1, not [0.9, 1]"));
  EXPECT_THAT(refusal(kMinimal + "optimizer: {epsilon: 0}\n"),
              HasSubstr("optimizer.epsilon: must be greater than 0, not 0"));
  EXPECT_THAT(refusal(kMinimal + "optimizer: {type: rmsprop, alpha: 1}\n"),
              HasSubstr("optimizer.alpha: must be at least 0 and less than 1, not 1"));
  EXPECT_THAT(refusal(kMinimal + "optimizer: {lr: -1}\n"), HasSubstr("must not be negative"));
  EXPECT_THAT(refusal(kMinimal + "optimizer: {schedule: {minimum_ratio: 2}}\n"),
              HasSubstr("between 0 and 1"));
  EXPECT_THAT(refusal(kMinimal + "parallel: {zero_stage: 4}\n"), HasSubstr("must be 0, 1, 2 or 3"));
  EXPECT_THAT(refusal(kMinimal + "memory: {host: 0}\n"), HasSubstr("more than 0 bytes"));
  EXPECT_THAT(refusal(kMinimal + "device: {link: {d2h: 0GB/s}}\n"), HasSubstr("more than 0 bytes"));
  EXPECT_THAT(refusal("model: {path: m}\ndata: {path: a, token_bytes: 3}\n"), HasSubstr("must be 2, 4 or 8"));
  EXPECT_THAT(refusal("model: {path: m}\ndata: {path: a, validation_fraction: 1}\n"),
              HasSubstr("less than 1"));
}

TEST(ImpossibleCombinations, PointAtTheKeyThatIsGiven) {
  const std::string short_run = kMinimal + "train: {steps: 10}\noptimizer: {schedule: {warmup: 11}}\n";
  EXPECT_EQ(refusal(short_run),
            "run.yaml:4:24: optimizer.schedule.warmup: 11 steps of warm-up are more than the run's 10 "
            "(train.steps)");
  EXPECT_THAT(refusal(kMinimal + "train: {microbatch: 3}\n"),
              StartsWith("run.yaml:3:9: train.batch: 8 sequences"));
  EXPECT_EQ(refusal("data: {path: a}\n"),
            "run.yaml: model.path: no model is given: set model.path to a folder, or model.architecture and "
            "model.config");
  EXPECT_EQ(refusal("model: {path: m, architecture: gpt2}\ndata: {path: a}\n"),
            "run.yaml:1:9: model.path: give either model.path or model.architecture, not both");
  EXPECT_THAT(refusal("model: {path: m, config: {a: 1}}\ndata: {path: a}\n"),
              StartsWith("run.yaml:1:18: model.config: belongs to model.architecture"));
  EXPECT_EQ(refusal("model: {path: m}\n"),
            "run.yaml: data.path: no data is given: set data.path to the files to train on");
  EXPECT_EQ(refusal("model: {path: m}\ndata: {path: [a.txt, b.bin]}\n"),
            "run.yaml:2:8: data.tokenizer: 'b.bin' holds token ids, not text: set data.tokenizer to none");
  EXPECT_THAT(
      refusal("model: {path: m}\ndata: {path: a, validation_fraction: 0}\ntrain: {validate_every: 5}\n"),
      StartsWith("run.yaml:3:9: train.validation_batches: train.validate_every needs held-out data"));
}

TEST(NvmeTier, NeedsAHostTierAndAFolder) {
  EXPECT_EQ(refusal(kMinimal + "memory: {nvme: {path: /scratch, size: 64GiB}}\n"),
            "run.yaml:3:17: memory.nvme.path: needs memory.host: what is read from drives passes through "
            "host memory");
  EXPECT_THAT(refusal(kMinimal + "memory: {host: 1GiB, placement: {gradients: nvme}}\n"),
              HasSubstr("memory.placement.gradients: nvme needs memory.nvme.path"));
  EXPECT_THAT(refusal(kMinimal + "memory: {placement: {gradients: host}}\n"),
              HasSubstr("memory.placement.gradients: host needs memory.host"));
  EXPECT_THAT(
      refusal(kMinimal + "memory: {host: 1GiB, placement: {parameters: host, optimizer_state: device}}\n"),
      HasSubstr("memory.placement.parameters: parameters that are updated on the device live there"));
  EXPECT_THAT(refusal(kMinimal + "memory: {host: 1GiB, nvme: {path: a, verify: maybe}}\n"),
              HasSubstr("memory.nvme.verify: expected true or false"));
}

TEST(Ranks, AreCheckedAgainstTheBatchAndOneAnother) {
  EXPECT_THAT(refusal(kMinimal + "parallel: {data: 3}\n"),
              HasSubstr("do not divide into microbatches of 1 on 3 data ranks; 6 or 9 would fit"));
  EXPECT_THAT(refusal(kMinimal + "parallel: {data: 4, replicate: 3}\n"),
              HasSubstr("parallel.replicate: 3 does not divide parallel.data, 4"));
  EXPECT_THAT(refusal(kMinimal + "parallel: {reduce_dtype: fp16}\n"),
              HasSubstr("parallel.reduce_dtype: expected fp32 or bf16"));
  for (const char* precision : {"fp32", "fp16"}) {
    EXPECT_THAT(refusal(kMinimal + "train: {precision: " + precision + "}\nparallel: {reduce_dtype: bf16}\n"),
                HasSubstr("parallel.reduce_dtype: bf16 needs train.precision bf16"));
  }
  EXPECT_EQ(parse_run_config(kMinimal, "run.yaml", {}, 4).parallel.data, 4) << "as many as were started";
  EXPECT_EQ(parse_run_config(kMinimal + "parallel: {data: 2}\n", "run.yaml", {}, 4).parallel.data, 2);
}

TEST(Ranks, AreReplicasTimesShardsWhereBothAreGiven) {
  const auto section = [](const std::string& keys) {
    return fmt::format("{}train: {{batch: 8}}\nparallel: {{{}}}\n", kMinimal, keys);
  };
  EXPECT_EQ(parse_run_config(section("replicate: 2, shard: 2"), "run.yaml").parallel.data, 4);
  EXPECT_EQ(parse_run_config(section("shard: 4"), "run.yaml").parallel.data, 4);
  EXPECT_THAT(refusal(section("data: 8, replicate: 2, shard: 2")),
              HasSubstr("parallel.shard: 2 times parallel.replicate, 2, is not parallel.data, 8"));
  EXPECT_THAT(refusal(section("replicate: 2, shard: 0")), HasSubstr("must be at least 1, not 0"));
  EXPECT_THAT(refusal(section("replicate: 4611686018427387904, shard: 4611686018427387904")),
              HasSubstr("is more ranks than there can be"));
}

TEST(Pipelines, TakeTheirPartOfTheRanksThatWereStarted) {
  const std::string pipeline = kMinimal + "train: {batch: 8}\nparallel: {pipeline: 2}\n";
  EXPECT_EQ(parse_run_config(pipeline, "run.yaml", {}, 4).parallel.data, 2);
  EXPECT_EQ(parse_run_config(pipeline, "run.yaml", {}, 4).ranks(), 4);
  EXPECT_THAT(refusal(kMinimal + "parallel: {chunks: 2}\n"), HasSubstr("needs parallel.pipeline"));
  EXPECT_THAT(refusal(kMinimal + "plan: {order: layer_major}\nparallel: {pipeline: 2}\n"),
              HasSubstr("plan.order: parallel.schedule is the order of a pipeline"));
  EXPECT_THAT(refusal(kMinimal + "parallel: {pipeline: 5000}\n"), HasSubstr("must be at most 4096"));
  EXPECT_THAT(refusal(kMinimal + "parallel: {tensor: 0}\n"),
              HasSubstr("parallel.tensor: must be at least 1"));
  EXPECT_EQ(
      parse_run_config(kMinimal + "parallel: {tensor: 2, pipeline: 2}\n", "run.yaml", {}, 8).parallel.data,
      2);
}

TEST(SequenceParallelism, TakesTokensThatDivide) {
  const std::string tokens =
      kMinimal + "train: {batch: 3, microbatch: 3}\nparallel: {tensor: 4, sequence: true}\n";
  EXPECT_THAT(refusal(tokens, {"data.sequence_length=30"}),
              HasSubstr("parallel.sequence: the 3 · 30 tokens of a microbatch do not divide among 4 ranks of "
                        "parallel.tensor; make train.microbatch times data.sequence_length a multiple of 4"));
  EXPECT_EQ(refusal(tokens, {"data.sequence_length=32"}), "accepted");
  EXPECT_EQ(refusal(tokens, {"data.sequence_length=30", "parallel.tensor=1"}), "accepted");
}

TEST(PartsThisBuildDoesNotHave, AreRefusedWithTheReason) {
  EXPECT_THAT(refusal(kMinimal + "device: {kind: cuda, link: {h2d: 1GB/s}}\n"),
              HasSubstr("device.link.h2d: slows down the CPU device only"));
  EXPECT_THAT(refusal(kMinimal + "device: {kind: cuda, flops: 1e9}\n"),
              HasSubstr("device.flops: slows down the CPU device only"));
}

// Invariant (BrokenFiles.*): Bad input gets a sentence.
TEST(BrokenFiles, AreRefusedWithAPosition) {
  EXPECT_EQ(refusal("model: {path: m}\ndata: {path: *.txt}\n"),
            "run.yaml:2:14: this is not valid YAML: the referenced anchor is not defined; put a text that "
            "begins with * "
            "in quotes");
  EXPECT_THAT(refusal("model:\n\tpath: m\n"), HasSubstr("; line 2 is indented by a tab: write spaces"));
  EXPECT_THAT(refusal("model:\n  path: m\n\tconfig: {}\n"), HasSubstr("; line 3 is indented by a tab"));
  EXPECT_THAT(refusal("model: {path: [m\ndata: 1"), StartsWith("run.yaml:2:5: this is not valid YAML: "));
  EXPECT_EQ(refusal(kMinimal + "train: {steps: 1, seed: 2, steps: 3}\n"),
            "run.yaml:3:28: 'train.steps' is given twice");
  EXPECT_EQ(refusal(kMinimal + "data: {}\n"), "run.yaml:3:1: 'data' is given twice");
  EXPECT_THAT(refusal("model: {architecture: gpt2, config: {a: 1, a: 2}}\n"),
              HasSubstr("its key 'a' is given twice"));
  EXPECT_EQ(refusal("{model: {path: m}, data: {path: a}}\ntrain: {}\n"),
            "run.yaml:2:1: the one YAML document of the file ended before this line");
  EXPECT_THAT(refusal(kMinimal + "---\nx: 1\n"), HasSubstr("the one YAML document of the file ended"));
  EXPECT_THAT(refusal("model: {path: m}}\n"), StartsWith("run.yaml:1:17: this is not valid YAML: "));
  EXPECT_THAT(refusal("- a\n"), StartsWith("run.yaml:1:1: expected a map of keys (model, data, "));
  EXPECT_THAT(refusal("[a]: 1\n"), HasSubstr("a key must be a word"));
  EXPECT_EQ(refusal("model: {architecture: gpt2, config: &x {a: *x}}\n"),
            "run.yaml:1:44: this alias stands within what it stands for");
  EXPECT_THAT(refusal(""), HasSubstr("no model is given"));
}

std::string times(int count, const std::string& part) {
  std::string text;
  for (int i = 0; i < count; ++i) text += part;
  return text;
}

// Invariant (HugeFiles.*): No file crashes a reader.
TEST(HugeFiles, AreRefusedBeforeTheyAreBuilt) {
  const std::string deep = "nested more than 64 levels deep";
  for (const int levels : {65, 100'000}) {
    EXPECT_THAT(refusal("model: {architecture: gpt2, config: {a: " + times(levels, "[") + times(levels, "]") +
                        "}}\n"),
                AllOf(StartsWith("run.yaml:1:"), HasSubstr(deep)));
  }
  EXPECT_THAT(refusal("a:\n" + times(300, "- ") + "b"), HasSubstr(deep)) << "block style";
  EXPECT_THAT(refusal(kMinimal, {"model.config" + times(100'000, ".a") + "=1"}), HasSubstr(deep));
  EXPECT_THAT(refusal("model: {architecture: gpt2, config: {a: [" + times(100'000, "1, ") + "1]}}\n"),
              AllOf(StartsWith("run.yaml:1:"), HasSubstr("more than 100000 values")));
  EXPECT_THAT(refusal("#" + std::string(std::size_t{5} << 20, 'x')), HasSubstr("bytes are more than"));
}

TEST(HugeFiles, ThatAliasesMakeOfSmallOnesAreRefused) {
  std::string bomb = "model: {architecture: gpt2, config: {a0: &a0 [1]";
  for (int i = 1; i < 60; ++i) bomb += fmt::format(", a{0}: &a{0} [*a{1}, *a{1}]", i, i - 1);
  EXPECT_THAT(refusal(bomb + "}}\ndata: {path: x}\n"),
              AllOf(StartsWith("run.yaml:1:"), HasSubstr("more than 100000 values")));
  const RunConfig few = parse_run_config(
      "model: {architecture: gpt2, config: {a: &x {b: &y [1, 2]}, c: *x, d: *y}}\ndata: {path: x}\n",
      "run.yaml");
  EXPECT_EQ(few.model.config.dump(), R"({"a":{"b":[1,2]},"c":{"b":[1,2]},"d":[1,2]})");
}

TEST(BrokenFiles, WithTextsForTheModelThatAreNotUtf8AreRefused) {
  EXPECT_EQ(refusal("model: {architecture: gpt2, config: {a: \"\xe9\"}}\n"),
            "run.yaml:1:29: model.config: holds a text that is not UTF-8");
  EXPECT_THAT(refusal("model: {architecture: gpt2, config: {\"\xe9\": 1}}\n"), HasSubstr("not UTF-8"));
  EXPECT_THAT(refusal(kMinimal, {"model.config.\xe9=1"}), HasSubstr("not UTF-8"));
}

TEST(BrokenFiles, WithKeysForTheModelThatAreNoneInADumpAreRefused) {
  const std::string key(1000, 'k');
  EXPECT_EQ(refusal("model: {architecture: gpt2, config: {\n  ? " + key + "\n  : 1}}\n"),
            "run.yaml:1:29: model.config: has a key of more than 1000 bytes");
  EXPECT_THAT(refusal(kMinimal, {"model.config." + key + "=1"}),
              HasSubstr("has a key of more than 1000 bytes"));
}

TEST(BrokenFiles, NeverEscapeAsAnythingButAConfigError) {
  const std::string whole = dump(parse_run_config(
      "model: {architecture: llama, config: {a: [1, 'x'], b: {c: 1e-5}}}\ndata: {path: [a, b]}\n"
      "memory: {host: 1GiB}\ndevice: {link: {h2d: 1GB/s}}\n",
      "run.yaml"));
  const std::string alphabet = "\t\n -:,{}[]&*#?|>!%@'\"~\\\0\xff<=.019ae";
  const CounterRandom random(/*seed=*/1, /*stream=*/0);
  int accepted = 0;
  for (std::uint64_t round = 0; round < 500; ++round) {
    std::string text = whole;
    for (std::uint64_t change = 0; change < 1 + round % 4; ++change) {
      const auto words = random.words(4 * round + change);
      const std::size_t position = words[0] % text.size();
      const char character = alphabet[words[1] % alphabet.size()];
      if (words[2] % 3 == 0) text.erase(position, words[3] % 20);
      if (words[2] % 3 == 1) text.insert(position, 1, character);
      if (words[2] % 3 == 2) text[position] = character;
    }
    try {
      const RunConfig config = parse_run_config(text, "run.yaml");
      EXPECT_EQ(parse_run_config(dump(config), "dump"), config) << text;
      ++accepted;
    } catch (const ConfigError& error) {
      EXPECT_THAT(error.what(), StartsWith("run.yaml:")) << text;
    }
  }
  EXPECT_GT(accepted, 20);
  EXPECT_LT(accepted, 900);
}

TEST(BrokenFiles, ThatCannotBeReadAreNamed) {
  try {
    load_run_config("/nonexistent/run.yaml");
    FAIL() << "a missing file was accepted";
  } catch (const ConfigError& error) {
    EXPECT_STREQ(error.what(), "/nonexistent/run.yaml: cannot read the run file: No such file or directory");
  }
  const std::string folder = std::filesystem::temp_directory_path().string();
  EXPECT_THROW(load_run_config(folder), ConfigError);
}

TEST(ExampleFiles, AreValid) {
  for (const char* folder : {"examples", "bench/runs"}) {
    std::size_t examples = 0;
    for (const auto& entry : std::filesystem::directory_iterator(test::source_folder() / folder)) {
      if (entry.path().extension() != ".yaml") continue;
      EXPECT_NO_THROW(load_run_models(entry.path().string())) << entry.path();
      ++examples;
    }
    EXPECT_GE(examples, 2U) << folder;
  }
}

}  // namespace
}  // namespace strata
