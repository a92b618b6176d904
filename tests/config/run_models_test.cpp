// Run files of several models: which models they have, what is the run's and what a model's.
#include "engine/config/run_models.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "base/error.h"
#include "engine/config/describe.h"
#include "engine/config/run_config.h"
#include "tests/config/support.h"

namespace strata {
namespace {

using test::kMinimal;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Pair;
using ::testing::StartsWith;

using Files = std::map<std::string, std::string>;

/// The models of a run file among others.
RunModels parse(const std::string& text, const std::vector<std::string>& overrides = {},
                const Files& files = {}, std::int64_t ranks = 1) {
  return parse_run_models(text, "run.yaml", overrides, ranks, [&](const std::string& path) {
    if (files.contains(path)) return files.at(path);
    throw ConfigError(path + ": no such file");
  });
}

std::string refusal_among_models(const std::string& text, const std::vector<std::string>& overrides = {},
                                 const Files& files = {}) {
  try {
    parse(text, overrides, files);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "accepted";
}

std::vector<std::string> names(const RunModels& run) {
  std::vector<std::string> result;
  result.reserve(run.models.size());
  for (const NamedRun& model : run.models) result.push_back(model.name);
  return result;
}

std::vector<std::uint64_t> seeds(const RunModels& run) {
  std::vector<std::uint64_t> result;
  result.reserve(run.models.size());
  for (const NamedRun& model : run.models) result.push_back(model.config.train.seed);
  return result;
}

TEST(RunModels, AreOneWithoutANameInAFileOfOne) {
  const std::string text = kMinimal + "checkpoint: {path: out}\nreport: {metrics: m.jsonl, tensorboard: t}\n";
  const RunModels run = parse(text, {"train.seed=3"});
  EXPECT_FALSE(run.is_several);
  ASSERT_THAT(names(run), ElementsAre(""));
  EXPECT_THAT(run.models[0].overrides, IsEmpty());
  EXPECT_EQ(run.models[0].config, parse_run_config(text, "run.yaml", {"train.seed=3"}));
  EXPECT_EQ(run.checkpoint_path, "out");
  EXPECT_EQ(run.metrics, "m.jsonl");
  EXPECT_EQ(run.tensorboard, "t");
  EXPECT_EQ(dump(run), dump(run.models[0].config));
}

TEST(RunModels, AreNoneForWhatTakesOneModel) {
  try {
    parse_run_config(kMinimal + "sweep: {train.seed: [1]}\n", "run.yaml");
    FAIL() << "several models were taken for one";
  } catch (const ConfigError& error) {
    EXPECT_STREQ(error.what(), "run.yaml: this run file has several models; give one of a single model");
  }
}

TEST(Sweep, IsTheProductWhoseLastKeyIsTheFastest) {
  const RunModels run = parse(
      kMinimal + "train: {seed: 9, steps: 7}\nsweep: {optimizer.lr: [1e-4, 3e-4], train.seed: [1, 2]}\n");
  EXPECT_TRUE(run.is_several);
  EXPECT_THAT(names(run),
              ElementsAre("lr=1e-4,seed=1", "lr=1e-4,seed=2", "lr=3e-4,seed=1", "lr=3e-4,seed=2"));
  EXPECT_THAT(seeds(run), ElementsAre(1, 2, 1, 2));
  EXPECT_EQ(run.models[3].config.optimizer.learning_rate, 3e-4);
  EXPECT_EQ(run.models[3].config.train.steps, 7);
  EXPECT_THAT(run.models[2].overrides, ElementsAre(Pair("optimizer.lr", "0.0003"), Pair("train.seed", "1")));
}

TEST(Sweep, ReachesIntoTheModelsConfigAndIntoSections) {
  const RunModels run = parse(
      "model: {architecture: gpt2, config: {n_layer: 1, n_head: 2}}\ndata: {path: a}\n"
      "sweep: {model: {config: {n_layer: [2, 4]}}, optimizer: {schedule: {warmup: [0, 1]}}, "
      "model.config.rope.factor: [8.0]}\n");
  ASSERT_THAT(names(run), ElementsAre("n_layer=2,warmup=0,factor=8.0", "n_layer=2,warmup=1,factor=8.0",
                                      "n_layer=4,warmup=0,factor=8.0", "n_layer=4,warmup=1,factor=8.0"));
  EXPECT_EQ(run.models[3].config.model.config.dump(), R"({"n_head":2,"n_layer":4,"rope":{"factor":8.0}})");
  EXPECT_THAT(run.models[3].overrides,
              ElementsAre(Pair("model.config.n_layer", "4"), Pair("optimizer.schedule.warmup", "1")));
}

TEST(Sweep, NamesModelsByAsManyWordsAsTellKeysApart) {
  EXPECT_THAT(
      names(parse("model: {architecture: gpt2}\ndata: {path: x}\nsweep: {optimizer.type: [sgd], "
                  "optimizer.schedule.type: [linear], train.seed: [4], model.config.a.b: [1], "
                  "model.config.b: [2], model.config.config.b: [3]}\n")),
      ElementsAre("optimizer.type=sgd,schedule.type=linear,seed=4,a.b=1,model.config.b=2,config.config.b="
                  "3"));
}

TEST(Sweep, GivesNamesWithoutWhatNoFileHas) {
  EXPECT_THAT(
      names(parse("model: {path: m}\nsweep: {data.path: [a/b.txt, [c d, e*]], optimizer.betas: [[0.9, "
                  "0.95]]}\n")),
      ElementsAre("path=a_b.txt,betas=0.9,0.95", "path=c_d,e_,betas=0.9,0.95"));
}

TEST(Sweep, CanBeGivenOnTheCommandLine) {
  EXPECT_THAT(seeds(parse(kMinimal, {"sweep={train.seed: [5, 6]}"})), ElementsAre(5, 6));
  EXPECT_EQ(refusal_among_models(kMinimal, {"sweep={train.seed: [5, x]}"}),
            "--set sweep={train.seed: [5, x]}: train.seed: expected an integer, found 'x'");
}

TEST(Sweep, IsRefusedWithThePlaceOfWhatIsWrong) {
  const auto refusal_of = [](const std::string& sweep, const std::vector<std::string>& overrides = {}) {
    return refusal_among_models(kMinimal + "sweep:\n  " + sweep + "\n", overrides);
  };
  EXPECT_EQ(refusal_of("train.seed: [1, x]"), "run.yaml:4:19: train.seed: expected an integer, found 'x'");
  EXPECT_EQ(
      refusal_of("train.batch: [8, 6]\n  train.microbatch: [2, 4]"),
      "run.yaml:4:20: train.batch: 6 sequences do not divide into microbatches of 4 on 1 data rank; 4 or "
      "8 would fit");
  EXPECT_EQ(refusal_of("optimizer.bettas: [1]"),
            "run.yaml:4:3: unknown key 'optimizer.bettas': did you mean 'optimizer.betas'?");
  EXPECT_EQ(refusal_of("optimizer: [1]"),
            "run.yaml:4:3: optimizer is a section; sweep its keys (schedule, type, lr, betas, beta3, "
            "slow_warmup, epsilon, alpha, momentum, muon_scaling, decay_rate, clip_threshold, weight_decay, "
            "decay, groups, clip_norm, "
            "clip_by, master, moments)");
  EXPECT_EQ(refusal_of("train.seed: 1"), "run.yaml:4:3: train.seed: expected a list of values, as [1, 2]");
  EXPECT_EQ(refusal_of("train.seed: []"), "run.yaml:4:3: train.seed: expected a list of values, as [1, 2]");
  EXPECT_EQ(refusal_of("train.seed: [1]\n  train: {seed: [2]}"),
            "run.yaml:5:11: 'train.seed' is given twice");
  EXPECT_EQ(refusal_of("model.config: [{a: 1}]\n  model.config.b: [2]"),
            "run.yaml:5:3: 'model.config.b' and 'model.config' overlap");
  EXPECT_EQ(refusal_of("memory.device: [1GiB]"),
            "run.yaml:4:19: memory.device is the run's: give it beside sweep:, not in it");
  EXPECT_EQ(refusal_of("select.keep: [0.5]"),
            "run.yaml:4:3: unknown key 'select.keep': did you mean 'select.keep'?");
  EXPECT_THAT(refusal_of("[]: [1]"), HasSubstr("a key must be a word"));
  EXPECT_THAT(refusal_among_models(kMinimal + "sweep: {}\n"),
              StartsWith("run.yaml:3:1: sweep: expected a map such as {train.seed: [1, 2]}"));
  EXPECT_EQ(refusal_of("train.seed: [1, 1]"),
            "run.yaml:3:1: models 1 and 2 are both named 'seed=1': give them a name: each in models");
  EXPECT_THAT(refusal_of("model.path: [" + std::string(96, 'x') + "]"),
              AllOf(StartsWith("run.yaml:3:1: the name of model 1, 'path=xxx"),
                    HasSubstr("is longer than 100 characters: give it a name: in models")));
}

TEST(Sweep, IsNotSetOver) {
  const std::string text = "train:\n  seed: 4\nsweep: {train.seed: [1, 2], model.config.a: [1]}\n";
  for (const std::string override : {"train.seed=3", "train={steps: 4, seed: 3}"}) {
    EXPECT_EQ(refusal_among_models(kMinimal + text, {override}),
              "--set " + override +
                  ": train.seed is swept (run.yaml:5:9), and a --set would give all its models "
                  "one value");
  }
  EXPECT_THAT(refusal_among_models(kMinimal + text, {"model.config={b: 1}"}),
              HasSubstr("model.config.a is swept"));
  EXPECT_THAT(refusal_among_models(kMinimal + "models: [{}, {train: {seed: 5}}]\n" + text),
              HasSubstr("run.yaml:3:23: train.seed is swept (run.yaml:6:9), so no entry can give it"));
}

TEST(Models, AreLaidOverTheRestOfTheFile) {
  const RunModels run = parse(kMinimal + R"(train: {seed: 4, steps: 9}
models:
  - {}
  - name: slow
    optimizer.lr: 1e-5
    train: {seed: 5}
  - train:
      batch: 16
sweep: {data.sequence_length: [8, 16]}
)",
                              {"train.steps=11"});
  EXPECT_THAT(names(run), ElementsAre("model-1,sequence_length=8", "model-1,sequence_length=16",
                                      "slow,sequence_length=8", "slow,sequence_length=16",
                                      "model-3,sequence_length=8", "model-3,sequence_length=16"));
  EXPECT_THAT(seeds(run), ElementsAre(4, 4, 5, 5, 4, 4));
  for (const NamedRun& model : run.models) EXPECT_EQ(model.config.train.steps, 11);
  EXPECT_THAT(run.models[2].overrides,
              ElementsAre(Pair("data.sequence_length", "8"), Pair("optimizer.lr", "1e-05"),
                          Pair("train.seed", "5"), Pair("train.batch", "8")))
      << "in the order in which models give them";
}

const Files kFiles = {
    {"runs/small.yaml",
     "model: {path: small}\ndata: {path: s.txt}\nmemory: {device: 1GiB}\nplan: {lanes: serial}\n"
     "train: {seed: 7, threads: 3}\n"},
    {"large.json",
     R"({"model": {"path": "large"}, "data": {"path": "l.txt"}, "checkpoint": {"path": "own"}})"},
};

TEST(Models, OfRunFilesHaveBudgetsOfTheRunAndNothingElseOfIt) {
  const RunModels run = parse(
      "train: {steps: 5, watchdog: 60}\nmemory: {device: 3GiB}\n"
      "models: [runs/small.yaml, {run: large.json, train: {seed: 8}}]\n",
      {"optimizer.lr=2"}, kFiles);
  ASSERT_THAT(names(run), ElementsAre("small", "large"));
  const RunConfig &small = run.models[0].config, &large = run.models[1].config;
  EXPECT_EQ(small.model.path, "small");
  EXPECT_THAT(seeds(run), ElementsAre(7, 8));
  for (const RunConfig& config : {small, large}) {
    EXPECT_EQ(config.train.steps, 100) << "the default, not the run's";
    EXPECT_EQ(config.memory.device, 3 * GiB);
    EXPECT_EQ(config.train.watchdog, 60);
    EXPECT_EQ(config.train.threads, 0);
    EXPECT_EQ(config.plan.lanes, LaneMode::overlapped);
    EXPECT_EQ(config.optimizer.learning_rate, 2);
  }
  EXPECT_EQ(parse(kFiles.at("runs/small.yaml")).models[0].config.memory.device, GiB) << "alone";
}

TEST(Models, HaveFoldersAndMetricsOfTheirOwn) {
  const std::string text =
      "checkpoint: {path: out/, every: 5}\nreport: {metrics: out/m.jsonl, tensorboard: t}\n"
      "models: [runs/small.yaml, large.json, {name: a, run: large.json, checkpoint.path: else, "
      "report.metrics: a.jsonl, report.tensorboard: else}]\n";
  const RunModels run = parse(text, {}, kFiles);
  EXPECT_EQ(run.checkpoint_path, "out/");
  EXPECT_EQ(run.metrics, "out/m.jsonl");
  EXPECT_EQ(run.tensorboard, "t");
  EXPECT_EQ(run.models[0].config.checkpoint.path, "out/small");
  EXPECT_EQ(run.models[1].config.checkpoint.path, "own");
  EXPECT_EQ(run.models[2].config.checkpoint.path, "else");
  EXPECT_EQ(run.models[0].config.report.metrics, "out/m.small.jsonl");
  EXPECT_EQ(run.models[2].config.report.metrics, "a.jsonl");
  EXPECT_EQ(run.models[0].config.report.tensorboard, "t/small");
  EXPECT_EQ(run.models[2].config.report.tensorboard, "else");
  const RunModels set = parse(text, {"checkpoint.path=there"}, kFiles);
  EXPECT_EQ(set.checkpoint_path, "there");
  EXPECT_EQ(set.models[1].config.checkpoint.path, "there/large") << "a --set counts for all";
  const RunModels by_name = parse(kMinimal + "models: [{checkpoint.path: a}, {}, {checkpoint: none}]\n");
  EXPECT_EQ(by_name.checkpoint_path, "out/run");
  EXPECT_EQ(by_name.models[1].config.checkpoint.path, "out/run/model-2");
  EXPECT_EQ(by_name.models[2].config.checkpoint.path, "");
  EXPECT_EQ(parse(dump(by_name)), by_name);
  const RunModels none = parse(kMinimal + "checkpoint: none\nmodels: [{checkpoint.path: a}, {}]\n");
  EXPECT_EQ(none.checkpoint_path, "");
  EXPECT_EQ(none.models[0].config.checkpoint.path, "a");
  EXPECT_EQ(none.models[1].config.checkpoint.path, "");
  EXPECT_EQ(parse(dump(none)), none);
}

TEST(Models, ShareNoFolderAndNoFile) {
  const auto refusal_of = [](const std::string& models) {
    return refusal_among_models(
        kMinimal + "checkpoint: {path: out}\nreport: {metrics: m.jsonl, tensorboard: t}\nmodels: [" + models +
        "]\n");
  };
  EXPECT_EQ(refusal_of("{checkpoint.path: a/b}, {checkpoint.path: ./a//b/}"),
            "run.yaml:5:35: checkpoint.path: model 'model-1' and model 'model-2' have one folder, './a//b/': "
            "give it for the run only, or one for each model");
  EXPECT_THAT(refusal_of("{checkpoint.path: out}"), HasSubstr("the run and model 'model-1' have one folder"));
  EXPECT_THAT(refusal_of("{checkpoint.path: out/model-2}, {}"), HasSubstr("have one folder"));
  EXPECT_THAT(refusal_of("{report: {metrics: m.model-2.jsonl}}, {}"),
              HasSubstr("report.metrics: model 'model-1' and model 'model-2' have one file"));
  EXPECT_THAT(refusal_of("{report.tensorboard: t}"),
              HasSubstr("report.tensorboard: the run and model 'model-1' have one folder"));
}

TEST(Models, AreRefusedWithThePlaceOfWhatIsWrong) {
  const auto refusal_of = [](const std::string& models, const Files& files = {}) {
    return refusal_among_models(kMinimal + "models:\n" + models + "\n", {}, files);
  };
  EXPECT_EQ(refusal_of("  - train: {stepz: 1}"),
            "run.yaml:4:13: unknown key 'train.stepz': did you mean 'train.steps'?");
  EXPECT_EQ(refusal_of("  - nmae: x"), "run.yaml:4:5: unknown key 'nmae': did you mean 'name'?");
  EXPECT_EQ(refusal_of("  - train: {steps: x}"),
            "run.yaml:4:13: train.steps: expected an integer, found 'x'");
  EXPECT_EQ(refusal_of("  - {}\n  - memory: {device: 1GiB}"),
            "run.yaml:5:14: memory.device is the run's: give it beside models:, not in one");
  for (const std::string key : {"train.threads: 1", "train: {watchdog: 5}", "plan.lanes: serial",
                                "device: {kind: cpu}", "memory.nvme.path: x"})
    EXPECT_THAT(refusal_of("  - " + key), HasSubstr("is the run's: give it beside models:, not in one"))
        << key;
  EXPECT_EQ(refusal_of("  - sweep: {train.seed: [1]}"),
            "run.yaml:4:5: sweep is the run's: give it beside models or sweep, not in one");
  EXPECT_EQ(refusal_of("  - 5: 1"),
            "run.yaml:4:5: unknown key '5': the sections are " + refusal_of("  - 5: 1").substr(48));
  EXPECT_THAT(refusal_of("  - [a]"),
              StartsWith("run.yaml:4:5: models: expected a run file or a map of keys"));
  EXPECT_THAT(refusal_of("  -"), HasSubstr("models: expected a run file or a map of keys"));
  EXPECT_EQ(refusal_of("  - {name: a, name: b}"), "run.yaml:4:15: 'name' is given twice");
  EXPECT_EQ(refusal_of("  - {run: [a]}"), "run.yaml:4:6: run: expected text");
  EXPECT_THAT(refusal_of("  []"), HasSubstr("run.yaml:3:1: models: expected a list such as [small.yaml, "));
  EXPECT_EQ(refusal_of("  - x.yaml"), "run.yaml:4:5: x.yaml: no such file");
  EXPECT_EQ(refusal_of("  - x.yaml", {{"x.yaml", "data: {path: [a}\n"}}).substr(0, 9), "x.yaml:1:");
  EXPECT_EQ(refusal_of("  - x.yaml", {{"x.yaml", "model: {path: a}\n"}}),
            "x.yaml: data.path: no data is given: set data.path to the files to train on");
  EXPECT_THAT(refusal_of("  - x.yaml", {{"x.yaml", "memory: {devise: 1GiB}\n"}}),
              StartsWith("x.yaml:1:10: unknown key 'memory.devise'"))
      << "what does not count is read";
  EXPECT_EQ(
      refusal_among_models("models: [{train: {seed: 2}}]\n"),
      "run.yaml:1:10: model.path: no model is given: set model.path to a folder, or model.architecture and "
      "model.config");
}

TEST(Models, OfARunFileThatHasSeveralAreRefused) {
  const std::string nested = "models: [run.yaml]\n";
  EXPECT_EQ(refusal_among_models(nested, {}, {{"run.yaml", nested}}),
            "run.yaml:1:1: models: a run file that another one names has one model");
  for (const std::string key : {"sweep: {train.seed: [1]}", "select: {keep: 0.2}"})
    EXPECT_THAT(refusal_among_models(nested, {}, {{"run.yaml", kMinimal + key}}),
                HasSubstr("names has one model"))
        << key;
}

TEST(Models, HaveNamesThatAreFitForFilesAndTheirOwn) {
  const auto refusal_of = [](const std::string& name) {
    return refusal_among_models(kMinimal + "models: [{name: " + name + "}]\n");
  };
  EXPECT_EQ(refusal_of("'a-B.9_=,+'"), "accepted");
  EXPECT_EQ(refusal_of(std::string(100, 'a')), "accepted");
  EXPECT_EQ(
      refusal_of("a/b"),
      "run.yaml:3:10: name: 'a/b' is not made of letters, digits and . _ = , + -, as the names of files");
  for (const std::string name : {"'.'", "'..'", "a b", "\xc3\xa9", "'a\\0'"})
    EXPECT_THAT(refusal_of(name), HasSubstr("is not made of letters")) << name;
  EXPECT_THAT(refusal_of("''"), HasSubstr("name: expected text"));
  EXPECT_THAT(refusal_of(std::string(101, 'a')), HasSubstr("is longer than 100 characters"));
  EXPECT_EQ(
      refusal_among_models("models: [runs/small.yaml, {run: runs/small.yaml, train.seed: 2}]\n", {}, kFiles),
      "run.yaml:1:1: models 1 and 2 are both named 'small': give them a name: each in models");
}

TEST(Models, AreAtMostAThousand) {
  std::string list = "1";
  for (int i = 2; i <= 32; ++i) list += fmt::format(", {}", i);
  const std::string sweep = "sweep: {train.seed: [" + list + "], train.steps: [" + list;
  EXPECT_EQ(refusal_among_models(kMinimal + sweep + "]}\n"),
            "run.yaml: models and sweep give more than 1000 models");
  EXPECT_EQ(parse(kMinimal + "sweep: {train.seed: [" + list + "]}").models.size(), 32);
  std::string entries = "{}";
  for (int i = 0; i < 1000; ++i) entries += ", {}";
  EXPECT_EQ(refusal_among_models(kMinimal + "models: [" + entries + "]\n"),
            "run.yaml:3:1: a run has at most 1000 models, not 1001");
  std::string keys;
  for (int i = 0; i < 33; ++i) keys += fmt::format("model.config.a{}: [1], ", i);
  EXPECT_THAT(refusal_among_models(kMinimal + "sweep: {" + keys + "}\n"),
              HasSubstr("a sweep has at most 32 keys"));
}

TEST(Models, HaveNoMoreValuesThanAFewFiles) {
  std::string seeds = "0";
  for (int i = 1; i < 1000; ++i) seeds += fmt::format(", {}", i);
  const std::string large =
      "model: {architecture: gpt2, config: {a: " + std::string(100'000, 'x') + "}}\ndata: {path: x}\n";
  EXPECT_EQ(refusal_among_models(large + "sweep: {train.seed: [1, 2]}\n"), "accepted");
  EXPECT_THAT(refusal_among_models(large + "sweep: {train.seed: [" + seeds + "]}\n"),
              HasSubstr("the models of this run have more than 8388608 bytes of values together"));
  std::string entries = "{model.config: {}}";
  for (int i = 1; i < 1000; ++i) entries += ", {model.config: {}}";
  EXPECT_THAT(refusal_among_models(large + "models: [" + entries + "]\n"),
              HasSubstr("bytes of values together"));
}

TEST(Models, HaveTheSameRanks) {
  const std::string models =
      "train: {microbatch: 1}\nmodels: [{name: a, parallel: {data: 2}}, {name: b, parallel: {pipeline: 2}}, ";
  EXPECT_EQ(refusal_among_models(kMinimal + models + "]\n"), "accepted")
      << "the default of data: all that are left";
  EXPECT_THAT(refusal_among_models(kMinimal + models + "{name: c, parallel.tensor: 4}]\n"),
              HasSubstr("parallel: models 'a' and 'c' are for 2 and 4 ranks"));
  EXPECT_EQ(
      parse(kMinimal + "models: [{parallel.pipeline: 2}, {}]\n", {}, {}, 4).models[0].config.parallel.data,
      2);
}

TEST(Models, TakeNoPassesAcrossSteps) {
  for (const std::string schedule : {"pipedream", "pipedream_2bw"}) {
    EXPECT_THAT(
        refusal_among_models(
            kMinimal + "parallel: {pipeline: 2}\nmodels: [{}, {parallel.schedule: " + schedule + "}]\n"),
        StartsWith("run.yaml:4:15: parallel.schedule: model 'model-2' has passes that reach across steps"));
  }
}

TEST(Select, HasRungsWithinEveryModel) {
  const std::string sweep = kMinimal + "sweep: {train.steps: [400, 300]}\n";
  const RunModels run = parse(sweep + "select: {rung_steps: [100, 299], keep: 0.25, by: training}\n");
  EXPECT_EQ(run.select, (Selection{{100, 299}, 0.25, SelectBy::training}));
  EXPECT_EQ(parse(sweep).select, Selection());
  const auto refusal_of = [&](const std::string& select, const std::vector<std::string>& overrides = {}) {
    return refusal_among_models(sweep + "select: {" + select + "}\n", overrides);
  };
  EXPECT_EQ(
      refusal_of("rung_steps: [100, 300]"),
      "run.yaml:4:10: select.rung_steps: 300 is not less than the 300 train.steps of model 'steps=300'");
  for (const std::string steps : {"[0]", "[5, 5]", "[6, 5]", "[-1, 5]"}) {
    EXPECT_THAT(refusal_of("rung_steps: " + steps),
                StartsWith("run.yaml:4:10: select.rung_steps: must be positive and rise, not " + steps));
  }
  EXPECT_THAT(refusal_of("rung_steps: 5"), HasSubstr("expected a list of integers, found '5'"));
  for (const std::string keep : {"0", "1", "-0.5", "2"}) {
    EXPECT_EQ(refusal_of("rung_steps: [5], keep: " + keep),
              "run.yaml:4:27: select.keep: must be more than 0 and less than 1, not " + keep);
  }
  EXPECT_THAT(refusal_of("rung_steps: [5], by: luck"), HasSubstr("expected validation or training"));
  EXPECT_THAT(refusal_of("kep: 1"), HasSubstr("unknown key 'select.kep': did you mean 'select.keep'?"));
  EXPECT_EQ(
      refusal_of("keep: 0.2"),
      "run.yaml:4:10: select.keep: is of no effect without select.rung_steps, the steps at which models are "
      "compared");
  EXPECT_EQ(refusal_of("keep: 0.2", {"select.rung_steps=[7]"}), "accepted");
}

TEST(Select, ByValidationNeedsHeldOutData) {
  const std::string models =
      kMinimal + "select: {rung_steps: [5]}\nmodels: [{}, {data.validation_fraction: 0}]\n";
  EXPECT_THAT(refusal_among_models(models),
              StartsWith("run.yaml:3:10: select.by: validation needs held-out data, and model "
                         "'model-2' has none"));
  EXPECT_EQ(refusal_among_models(models, {"select.by=training"}), "accepted");
  EXPECT_EQ(refusal_among_models(models, {"data.validation=b.txt"}), "accepted");
}

TEST(Select, NeedsSeveralModels) {
  EXPECT_EQ(refusal_among_models(kMinimal + "select:\n  rung_steps: [5]\n"),
            "run.yaml:4:3: select.rung_steps: there is one model; add models or sweep");
  EXPECT_EQ(refusal_among_models(kMinimal + "select:\n"), "accepted") << "all its keys are commented out";
}

TEST(DumpOfModels, ReadsBackAsTheSameRun) {
  const std::vector<std::pair<std::string, std::vector<std::string>>> runs = {
      {kMinimal + "sweep: {train.seed: [1]}\n", {}},
      {kMinimal + "sweep: {optimizer.lr: [1e-4, 3e-4], train.seed: [1, 2]}\nselect: {rung_steps: [9, 10]}\n",
       {"train.steps=50", "memory.device=1GiB"}},
      {kMinimal + "checkpoint: {path: out, every: 3}\nreport: {metrics: m, tensorboard: t}\nmodels: [{}, "
                  "{checkpoint.path: x}, "
                  "{checkpoint: {path: '', every: 0}, report: {metrics: '', tensorboard: ''}}]\n",
       {}},
      {"memory: {host: 1GiB}\ntrain: {threads: 2}\nmodels: [runs/small.yaml, large.json, {name: c, run: "
       "runs/small.yaml, parallel: {data: 2, shard: 2}, data.validation: [x, y]}]\n",
       {"parallel.data=2"}},
      {"model: {architecture: gpt2, config: {a: 1, b: {c: 2}, \"d e: #\": [x]}}\ndata: {path: x}\nmodels: "
       "[{}, "
       "{model: {config: {b: 2}}}, {model.config.b.c: 3}, {model.config.f: null}]\nsweep: {model.config.a: "
       "[1, "
       "x]}\n",
       {}},
      {"model: {architecture: gpt2, config: {a.b: 1}}\ndata: {path: x}\nmodels: [{}, {model.config.c: 3}, "
       "{model: {config: {}}}]\n",
       {}},
      {kMinimal + "models: [{train.freeze: []}, {train.freeze: ['*.b'], train.seed: 4}, {optimizer.groups: "
                  "[{tensors: a, lr_factor: 2}], train.batch: 16}]\n",
       {}},
  };
  for (const auto& [text, overrides] : runs) {
    const RunModels run = parse(text, overrides, kFiles);
    const std::string dumped = dump(run);
    const RunModels again = parse(dumped);
    EXPECT_EQ(again.is_several, run.is_several);
    EXPECT_EQ(again.select, run.select);
    EXPECT_EQ(again.checkpoint_path, run.checkpoint_path);
    EXPECT_EQ(again.metrics, run.metrics);
    EXPECT_EQ(again.tensorboard, run.tensorboard);
    ASSERT_EQ(names(again), names(run));
    for (std::size_t i = 0; i < run.models.size(); ++i) {
      EXPECT_EQ(again.models[i].overrides, run.models[i].overrides) << dumped;
      EXPECT_EQ(again.models[i].config, run.models[i].config) << dumped;
    }
    EXPECT_EQ(again, run);
    EXPECT_EQ(dump(again), dumped);
  }
}

TEST(DumpOfModels, ShowsWhatTheyDifferInAtEach) {
  const std::string dumped =
      dump(parse(kMinimal + "checkpoint: {path: out}\nsweep: {optimizer.lr: [1e-4, 3e-4]}\n"));
  EXPECT_THAT(dumped, AllOf(HasSubstr("\n  # lr: (each model's own)\n"), HasSubstr("\n  path: \"out\"\n"),
                            HasSubstr(R"(
select:
  # rung_steps: (not given)
  keep: 0.5
  by: validation
models:
  - name: "lr=1e-4"
    optimizer.lr: 0.0001
  - name: "lr=3e-4"
    optimizer.lr: 0.0003
)")));
}

}  // namespace
}  // namespace strata
