#include "engine/config/describe.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <regex>
#include <set>

#include "engine/config/keys.h"
#include "engine/config/load.h"
#include "engine/config/run_config.h"

namespace strata {
namespace {

using ::testing::HasSubstr;

/// For every key, a value that is not its default; with all of them the file is valid.
const std::map<std::string, std::string> kOtherValues = {
    {"model.path", "'models/it''s \"mine\": #1'"},
    {"model.architecture", "gpt2"},
    {"model.config", "{a: 1, b: 1e-5, c: 'x: {y}', d: [true, null, -3], e: {f: 0.1}}"},
    {"data.path", "[a.txt, 'b c/*.txt']"},
    {"data.sources", "[{path: [w, 'a b/*'], weight: 0.7}, {path: c}]"},
    {"data.validation", "held-out.txt"},
    {"data.validation_fraction", "0.25"},
    {"data.tokenizer", "none"},
    {"data.tokenizer_path", "models/tokenizer.json"},
    {"data.cache", "ids"},
    {"data.begin_token", "always"},
    {"data.format", "tokens"},
    {"data.fields", "{messages: talk, \"prompt\": 'a: \"b\"'}"},
    {"data.token_bytes", "4"},
    {"data.sequence_length", "124"},
    {"data.shuffle", "false"},
    {"data.packing", "documents"},
    {"train.steps", "1099511627776"},
    {"train.batch", "24"},
    {"train.microbatch", "4"},
    {"train.precision", "fp16"},
    {"train.seed", "18446744073709551615"},
    {"train.recompute", "none"},
    {"train.freeze", "[\"*.mlp.*\", \"model.embed_tokens.*\"]"},
    {"train.dropout", "true"},
    {"train.epochs", "2.5"},
    {"train.validate_every", "11"},
    {"train.validation_batches", "12"},
    {"train.threads", "3"},
    {"train.watchdog", "60"},
    {"train.max_skipped_steps", "3"},
    {"train.loss_scale.initial", "1024"},
    {"train.loss_scale.growth", "3"},
    {"train.loss_scale.backoff", "0.25"},
    {"train.loss_scale.interval", "7"},
    {"train.samples.prompts", "[Once upon a time, \"a: 'b'\"]"},
    {"train.samples.every", "10"},
    {"train.samples.max_length", "20"},
    {"train.samples.temperature", "0.7"},
    {"train.samples.top_p", "0.9"},
    {"train.samples.top_k", "40"},
    {"train.samples.chat", "true"},
    {"train.ema.decay", "0.99"},
    {"train.ema.every", "10"},
    {"train.ema.format", "bf16"},
    {"train.spike.factor", "4"},
    {"train.spike.roll_back", "2"},
    {"train.spike.window", "50"},
    {"adapter.type", "rslora"},
    {"adapter.rank", "8"},
    {"adapter.alpha", "3"},
    {"adapter.rank_pattern", "{q_proj: 4, 'layers\\.[01]\\..*': 2}"},
    {"adapter.alpha_pattern", "{v_proj: 0.5}"},
    {"adapter.targets", "[q_proj, 'mlp.*']"},
    {"adapter.dropout", "0.1"},
    {"adapter.path", "adapters"},
    {"optimizer.type", "sgd"},
    {"optimizer.momentum", "0.9"},
    {"optimizer.muon_scaling", "original"},
    {"optimizer.decay_rate", "-0.5"},
    {"optimizer.clip_threshold", "2"},
    {"optimizer.lr", "0.1"},
    {"optimizer.betas", "[0.3333333333333333, 1e-300]"},
    {"optimizer.beta3", "0.999"},
    {"optimizer.slow_warmup", "1000"},
    {"optimizer.epsilon", "1.2345678901234567e-8"},
    {"optimizer.alpha", "0.95"},
    {"optimizer.weight_decay", "0"},
    {"optimizer.decay", "all"},
    {"optimizer.groups",
     "[{tensors: '*.bias', weight_decay: 0}, {tensors: [a, \"b'*\"], lr_factor: 1e-3, weight_decay: 0.25}, "
     "{tensors: c, schedule: {}}, {tensors: d, schedule: {type: piecewise, warmup: 500, points: [[3, "
     "0.5]]}}]"},
    {"optimizer.clip_norm", "3"},
    {"optimizer.clip_by", "previous_step"},
    {"optimizer.master", "split"},
    {"optimizer.moments", "bf16"},
    {"optimizer.schedule.type", "linear"},
    {"optimizer.schedule.warmup", "5"},
    {"optimizer.schedule.minimum_ratio", "0.05"},
    {"optimizer.schedule.decay_ratio", "0.3"},
    {"optimizer.schedule.shape", "sqrt"},
    {"optimizer.schedule.power", "1.5"},
    {"optimizer.schedule.cycles", "4"},
    {"optimizer.schedule.timescale", "70"},
    {"optimizer.schedule.points", "[[0, 1], [800, 0.316], [900, 1e-1]]"},
    {"optimizer.schedule.factor", "0.3"},
    {"optimizer.schedule.patience", "4"},
    {"optimizer.schedule.threshold", "0.01"},
    {"optimizer.schedule.cooldown", "2"},
    {"parallel.data", "2"},
    {"parallel.replicate", "2"},
    {"parallel.shard", "2"},
    {"parallel.context", "2"},
    {"parallel.pipeline", "2"},
    {"parallel.sequence", "true"},
    {"parallel.schedule", "zero_bubble"},
    {"parallel.chunks", "3"},
    {"parallel.stages", "[embedding, block.1]"},
    {"parallel.zero_stage", "0"},
    {"parallel.reduce_dtype", "bf16"},
    {"parallel.sparse_gradients", "false"},
    {"memory.device", "1536MiB"},
    {"memory.host", "1000000001"},
    {"memory.trained_as", "fp8"},
    {"memory.frozen_as", "fp8"},
    {"memory.nvme.path", "[/scratch, b]"},
    {"memory.nvme.size", "3GiB"},
    {"memory.nvme.engine", "threads"},
    {"memory.nvme.verify", "true"},
    {"memory.nvme.limit.read", "1GB/s"},
    {"memory.nvme.limit.write", "500MB/s"},
    {"memory.placement.parameters", "nvme"},
    {"memory.placement.optimizer_state", "host"},
    {"memory.placement.gradients", "nvme"},
    {"memory.placement.activations", "host"},
    {"plan.order", "layer_major"},
    {"plan.lanes", "serial"},
    {"plan.machine", "machine.json"},
    {"plan.search", "auto"},
    {"device.link.h2d", "1GB/s"},
    {"device.link.d2h", "3KiB/s"},
    {"device.link.ranks", "5MB/s"},
    {"device.flops", "2.5e9"},
    {"device.product_table", "products.txt"},
    {"checkpoint.path", "out"},
    {"checkpoint.every", "9"},
    {"checkpoint.every_minutes", "7.5"},
    {"checkpoint.keep", "8"},
    {"checkpoint.wait_for_space", "60"},
    {"report.metrics", "m.jsonl"},
    {"report.tensorboard", "events"},
    {"report.trace.path", "t.pftrace"},
    {"report.trace.steps", "[3, 5-7]"},
};
/// Keys with one value only, so far; and device.kind, whose other value excludes device.link.
const std::set<std::string> kSingleValued = {"parallel.tensor", "device.kind"};

const std::string kPlateau = "schedule: {type: plateau}";

/// What an optimizer needs to have the key.
const std::map<std::string, std::string> kTypes = {
    {"optimizer.momentum", "type: sgd"},
    {"optimizer.muon_scaling", "type: muon"},
    {"optimizer.decay_rate", "type: adafactor"},
    {"optimizer.clip_threshold", "type: adafactor"},
    {"optimizer.alpha", "type: rmsprop"},
    {"optimizer.beta3", "type: ademamix"},
    {"optimizer.slow_warmup", "type: ademamix"},
    {"optimizer.schedule.decay_ratio", "schedule: {type: wsd}"},
    {"optimizer.schedule.shape", "schedule: {type: wsd}"},
    {"optimizer.schedule.power", "schedule: {type: polynomial}"},
    {"optimizer.schedule.cycles", "schedule: {type: cosine_restarts}"},
    {"optimizer.schedule.timescale", "schedule: {type: inverse_sqrt}"},
    {"optimizer.schedule.points", "schedule: {type: piecewise}"},
    {"optimizer.schedule.factor", kPlateau},
    {"optimizer.schedule.patience", kPlateau},
    {"optimizer.schedule.threshold", kPlateau},
    {"optimizer.schedule.cooldown", kPlateau},
};

/// A valid file around one override: a model by path or by architecture, as the key needs.
RunConfig with_override(const std::string& path, const std::string& value) {
  const std::string model = path == "model.path" ? "" : "model: {architecture: llama}\n";
  const auto type = kTypes.find(path);
  const bool validates = type != kTypes.end() && type->second == kPlateau;
  const std::string train = validates                              ? "train: {validate_every: 5}\n"
                            : path.starts_with("train.loss_scale") ? "train: {precision: fp16}\n"
                            : path == "train.samples.every"        ? "train: {samples: {prompts: a}}\n"
                            : path.starts_with("train.ema")        ? "train: {ema: {decay: 0.5}}\n"
                            : path.starts_with("train.spike")      ? "train: {spike: {factor: 2}}\n"
                                                                   : "";
  const std::string ranks = path == "parallel.replicate" ? "parallel: {data: 4}\n"
                            : path == "parallel.chunks"  ? "parallel: {pipeline: 2}\n"
                                                         : "";
  const std::string optimizer = type == kTypes.end() ? "" : "optimizer: {" + type->second + "}\n";
  const std::string adapter = path.starts_with("adapter.") ? "adapter: {type: lora}\n" : "";
  const std::string drives = path.starts_with("memory.") ? "memory: {host: 1GiB, nvme: {path: d}}\n" : "";
  const std::string trace =
      path.starts_with("report.trace.") ? "report: {trace: {path: other, steps: 1}}\n" : "";
  const std::string data = validates                ? "data: {path: a, validation: v}\n"
                           : path == "data.sources" ? ""
                           : path == "data.format"  ? "data: {path: a, tokenizer: none}\n"
                           : path == "data.fields"  ? "data: {path: a, tokenizer: auto, tokenizer_path: t}\n"
                                                    : "data: {path: a}\n";
  return parse_run_config(
      model + train + ranks + adapter + optimizer + drives + trace + data + "checkpoint: {path: p}\n",
      "run.yaml", {path + "=" + value});
}

TEST(Dump, ReadsBackAsTheSameConfigForEveryKey) {
  for (const Key& key : config_keys()) {
    if (kSingleValued.contains(key.path)) continue;
    ASSERT_TRUE(kOtherValues.contains(key.path)) << key.path << " needs a value in this test";
    const RunConfig config = with_override(key.path, kOtherValues.at(key.path));
    EXPECT_NE(key.get(config), key.get(RunConfig())) << key.path << " was not set";
    EXPECT_EQ(parse_run_config(dump(config), "dump"), config) << key.path << "\n" << dump(config);
  }
}

TEST(Dump, ReadsBackAsTheSameConfigForAllKeysAtOnce) {
  std::vector<std::string> overrides;
  for (const auto& [path, value] : kOtherValues) {
    // Not with train.steps, with model.architecture, with data.path, with token ids, with a pipeline, with
    // optimizer.betas, with a linear schedule, with train.freeze, and the last four with train.precision
    // fp16, which train.loss_scale needs.
    if (path != "train.epochs" && path != "model.path" && path != "data.sources" && path != "data.fields" &&
        !path.starts_with("adapter.") && path != "optimizer.type" && !kTypes.contains(path) &&
        path != "plan.order" && path != "memory.frozen_as" && path != "optimizer.clip_by" &&
        path != "optimizer.master" && path != "parallel.reduce_dtype" && path != "memory.trained_as")
      overrides.push_back(path + "=" + value);
  }
  const RunConfig config = parse_run_config("", "run.yaml", overrides);
  EXPECT_EQ(parse_run_config(dump(config), "dump"), config) << dump(config);
  EXPECT_EQ(dump(parse_run_config(dump(config), "dump")), dump(config));
}

TEST(Dump, ShowsEveryKeyOnceInItsSection) {
  RunConfig config;
  config.model.path = "m";
  config.data.path = {"a"};
  EXPECT_EQ(dump(config), R"(# The full effective run file: a run with it repeats this one.
model:
  path: "m"
  # architecture: (not given)
  # config: (not given)
data:
  path: ["a"]
  # sources: (not given)
  # validation: (not given)
  validation_fraction: 0.05
  tokenizer: bytes
  format: auto
  # fields: (not given)
  # tokenizer_path: (not given)
  begin_token: auto
  # cache: (not given)
  token_bytes: 2
  sequence_length: 512
  shuffle: true
  packing: none
train:
  steps: 100
  # epochs: (not given)
  batch: 8
  microbatch: 1
  precision: auto
  seed: 1
  recompute: auto
  # freeze: (not given)
  dropout: false
  validate_every: 0
  validation_batches: 8
  threads: 0
  watchdog: 900
  max_skipped_steps: 20
  loss_scale:
    initial: 65536
    growth: 2
    backoff: 0.5
    interval: 2000
  samples:
    # prompts: (not given)
    every: 0
    max_length: 128
    temperature: 0
    top_p: 1
    top_k: 0
    chat: false
  ema:
    decay: 0
    every: 1
    format: fp32
  spike:
    factor: 0
    window: 100
    roll_back: 0
adapter:
  type: none
  rank: 16
  alpha: 32
  # rank_pattern: (not given)
  # alpha_pattern: (not given)
  targets: ["all-linear"]
  dropout: 0
  # path: (not given)
optimizer:
  type: adamw
  lr: 0.0003
  # betas: (default [0.9, 0.95], of lion [0.9, 0.99], of ademamix [0.9, 0.999])
  beta3: 0.9999
  slow_warmup: 0
  # epsilon: (default 1e-08, of adagrad and adagrad_rowwise 1e-10, of adafactor 1e-30)
  # alpha: (default 0.99, of ademamix 5)
  # momentum: (default 0, of muon and normuon 0.95)
  muon_scaling: match_rms_adamw
  decay_rate: -0.8
  clip_threshold: 1
  weight_decay: 0.1
  decay: matrices
  # groups: (not given)
  clip_norm: 1
  clip_by: step
  master: fp32
  moments: fp32
  schedule:
    type: constant
    warmup: 0
    minimum_ratio: 0.1
    decay_ratio: 0.2
    shape: linear
    power: 2
    cycles: 1
    # timescale: (default the warm-up, or 10000 without one)
    # points: (not given)
    factor: 0.5
    patience: 10
    threshold: 0.0001
    cooldown: 0
parallel:
  data: 1
  replicate: 1
  # shard: (not given)
  tensor: 1
  sequence: false
  context: 1
  pipeline: 1
  schedule: 1f1b
  chunks: 1
  # stages: (not given)
  zero_stage: 3
  reduce_dtype: fp32
  sparse_gradients: true
memory:
  device: unlimited
  # host: (not given)
  trained_as: precision
  frozen_as: precision
  nvme:
    # path: (not given)
    size: unlimited
    engine: auto
    verify: false
    limit:
      # read: (not given)
      # write: (not given)
  placement:
    parameters: auto
    optimizer_state: auto
    gradients: auto
    activations: auto
plan:
  # order: (not given)
  lanes: overlapped
  # machine: (not given)
  search: none
device:
  kind: cpu
  flops: 0
  # product_table: (not given)
  link:
    # h2d: (not given)
    # d2h: (not given)
    # ranks: (not given)
checkpoint:
  path: none
  every: 0
  every_minutes: 30
  keep: 2
  wait_for_space: 3600
report:
  # metrics: (not given)
  # tensorboard: (not given)
  trace:
    # path: (not given)
    # steps: (not given)
)");
}

TEST(HelpConfig, DocumentsEveryKeyWithItsDefault) {
  const std::string help = help_config();
  const std::string on_one_line = std::regex_replace(help, std::regex("\\s+"), " ");
  for (const Key& key : config_keys()) {
    EXPECT_FALSE(key.doc.empty()) << key.path;
    EXPECT_THAT(on_one_line, HasSubstr(" " + key.path.substr(key.path.rfind('.') + 1) + ": " + key.type))
        << key.path;
  }
  EXPECT_THAT(help, HasSubstr("\n  sequence_length:  integer (tokens); default 512\n"));
  EXPECT_THAT(help, HasSubstr("\n    warmup:  integer (steps); default 0\n"));
  EXPECT_THAT(help, HasSubstr("\n  host:  size; no default\n"));
}

TEST(HelpConfig, DocumentsEveryKeyOfARunOfSeveralModels) {
  const std::string help = help_config();
  for (const char* line :
       {"\nmodels:  list of run files and maps; no default\n    Several models",
        "\nsweep:  map of lists; no default\n    Values", "\nselect:  Which of several models",
        "\n  rung_steps:  list of integers (steps); no default\n", "\n  keep:  number; default 0.5\n",
        "\n  by:  validation or training; default validation\n"})
    EXPECT_THAT(help, HasSubstr(line));
}

TEST(HelpConfig, FitsATerminal) {
  std::size_t begin = 0;
  const std::string help = help_config();
  for (std::size_t end = help.find('\n'); end != std::string::npos; end = help.find('\n', begin)) {
    EXPECT_LE(end - begin, 100U) << help.substr(begin, end - begin);
    begin = end + 1;
  }
}

TEST(ConfigKeys, StandInASectionThatIsDocumented) {
  std::set<std::string> sections;
  for (const Section& section : config_sections())
    EXPECT_TRUE(sections.insert(section.path).second) << section.path;
  std::set<std::string> paths;
  for (const Key& key : config_keys()) {
    EXPECT_TRUE(paths.insert(key.path).second) << key.path;
    EXPECT_TRUE(sections.contains(key.path.substr(0, key.path.rfind('.')))) << key.path;
  }
  for (const Key& key : config_keys()) {
    for (const std::string& related : key.related) EXPECT_TRUE(paths.contains(related)) << related;
  }
}

}  // namespace
}  // namespace strata
