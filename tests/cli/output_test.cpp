// What the program prints and writes: reports with the keys that docs/reference/reports.md names, the
// reference of the run file, the effective run file, plans.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <fstream>
#include <iterator>
#include <sstream>

#include "engine/config/describe.h"
#include "engine/config/keys.h"
#include "tests/cli/workspace.h"
#include "tests/support/drive.h"
#include "tests/support/source_folder.h"

namespace strata::test {
namespace {

using ::testing::AllOf;
using ::testing::Conditional;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::IsSupersetOf;
using ::testing::Not;
using ::testing::StartsWith;
using ::testing::UnorderedElementsAreArray;

class Output : public Workspace {
 protected:
  static std::string documentation(const std::string& name) {
    std::ifstream file(test::source_folder() / "docs" / name);
    return {std::istreambuf_iterator<char>(file), {}};
  }
};

void expect_keys(const nlohmann::json& object, const std::vector<std::string>& keys) {
  EXPECT_THAT(keys_of(object), UnorderedElementsAreArray(keys));
}

TEST_F(Output, OfTrainAsJsonHasTheDocumentedKeys) {
  if (const std::string reason = test::why_no_drive(path(".")); !reason.empty()) GTEST_SKIP() << reason;
  const nlohmann::json json = report(
      train("run.yaml", {"train.validate_every=3", "data.validation_fraction=0.01", "memory.device=128KiB",
                         "memory.nvme={path: ., size: 64MiB}", "memory.placement.optimizer_state=nvme"}));
  expect_keys(json, {"opening",       "data",
                     "loss",          "grad_norm",
                     "learning_rate", "validation",
                     "samples",       "steps",
                     "skipped_steps", "interrupted",
                     "precision",     "tokens_per_second",
                     "step_seconds",  "drain_seconds",
                     "bound_seconds", "bound_by",
                     "simulated",     "mfu",
                     "hfu",           "flops",
                     "machine",       "machine_measured",
                     "memory",        "traffic",
                     "scratch",       "products",
                     "slow_paths",    "differences_from_plan",
                     "ranks",         "state_hash"});
  EXPECT_LE(json["mfu"], 1);
  EXPECT_LE(json["hfu"], 1 + 1e-9);
  EXPECT_GT(json["bound_seconds"], 0);
  EXPECT_EQ(keys_of(json["machine_measured"]), keys_of(json["machine"]));
  for (const auto& [rate, measured] : json["machine_measured"].items())
    EXPECT_GE(json["machine"][rate], measured);
  ASSERT_EQ(json["ranks"].size(), 1U);
  expect_keys(json["ranks"][0], {"memory", "busy_seconds", "differences_from_plan"});
  for (const char* per_step : {"loss", "grad_norm", "learning_rate", "step_seconds", "drain_seconds"}) {
    EXPECT_EQ(json[per_step].size(), 6U) << per_step;
  }
  EXPECT_EQ(json["validation"].size(), 3U);
  for (const char* tier : {"device", "host", "nvme"}) {
    const nlohmann::json& memory = json["memory"][tier];
    expect_keys(memory, {"budget_bytes", "planned_peak_bytes", "measured_peak_bytes", "by_kind"});
    expect_keys(memory["by_kind"],
                {"parameter", "gradient", "optimizer_state", "activation", "workspace", "communication"});
    EXPECT_EQ(memory["planned_peak_bytes"], memory["measured_peak_bytes"]);
    EXPECT_LE(memory["planned_peak_bytes"], memory["budget_bytes"]);
  }
  for (const char* link : {"h2d", "d2h", "nvme_read", "nvme_write"}) {
    const nlohmann::json& traffic = json["traffic"][link];
    expect_keys(traffic, {"planned_bytes", "measured_bytes", "busy_seconds"});
    EXPECT_GT(traffic["busy_seconds"], 0);
    EXPECT_EQ(traffic["planned_bytes"], traffic["measured_bytes"]);
    EXPECT_GT(traffic["measured_bytes"], 0);
  }
}

/// The lines of a text up to the first that begins with `end`.
std::vector<std::string> lines_before(const std::string& end, const std::string& text) {
  std::istringstream stream(text);
  std::vector<std::string> lines;
  for (std::string line; std::getline(stream, line) && !line.starts_with(end);) lines.push_back(line);
  return lines;
}

TEST_F(Output, BeforeTheFirstStepIsShortUnlessAllIsAskedFor) {
  // A CPU without bf16 instructions has a line more in bf16.
  const Arguments plain = train("run.yaml", {"checkpoint.path=out", "train.precision=fp32"});
  const std::vector<std::string> lines = lines_before("step 1/", strata(plain).err);
  EXPECT_THAT(
      lines, ElementsAre(StartsWith("model    llama, "), StartsWith("data     1 file: 1 text, "),
                         AllOf(StartsWith("memory   device "), HasSubstr(" of ")),
                         AllOf(StartsWith("step     4 sequences of 24 tokens in microbatches of 2, "),
                               HasSubstr("; predicted "), HasSubstr(" ms, limited by ")),
                         "saves    to out, at the end, every 30 minutes", "start    random weights, seed 3"));
  for (const std::string& line : lines) EXPECT_LE(line.size(), 120U) << line;
  Arguments verbose = plain;
  verbose.insert(verbose.end(), {"--fresh", "--verbose", "--json", "report.json"});
  const Outcome all = strata(verbose);
  const std::vector<std::string> more = lines_before("step 1/", all.err);
  for (const char* detail : {"RAM      ", "FLOPs    ", "program  ", "scratch  "})
    EXPECT_THAT(more, Contains(StartsWith(detail)));
  EXPECT_THAT(all.out, AllOf(HasSubstr("\nMFU  "), HasSubstr("\ntraffic  ")));
  const auto kept =
      nlohmann::json::parse(std::ifstream(path("report.json")))["opening"].get<std::vector<std::string>>();
  EXPECT_THAT(more, IsSupersetOf(kept));
  EXPECT_THAT(kept, Contains(StartsWith("FLOPs    ")));
}

/// In a report of the same run without --verbose, too.
TEST_F(Output, BeforeTheFirstStepOfSeveralModelsIsShort) {
  write("sweep.yaml", run_file() + "sweep: {train.seed: [3, 4]}\n");
  const Outcome run =
      strata({"train", "sweep.yaml", "--set", "train.precision=fp32", "--json", "report.json"});
  const std::vector<std::string> lines = lines_before("2 models: ", run.err);
  EXPECT_THAT(lines, Contains(StartsWith("models   2, ")));
  EXPECT_THAT(lines, Contains(StartsWith("round    predicted ")));
  EXPECT_LE(lines.size(), 8U) << run.err;
  EXPECT_THAT(
      nlohmann::json::parse(std::ifstream(path("report.json")))["opening"].get<std::vector<std::string>>(),
      Contains(StartsWith("program  ")));
}

/// They are pasted into a shell as they stand.
TEST_F(Output, AtTheEndHasCommandsThatWork) {
  const Outcome run = strata(train("run.yaml", {"checkpoint.path=out"}));
  EXPECT_THAT(run.err, HasSubstr("\nthe model is in out/step-00000006\n"));
  for (const std::string next : {"  try it    ", "  export    "}) {
    const Outcome outcome = pasted(behind(next, run.err));
    EXPECT_EQ(outcome.status, 0) << next << outcome.err;
  }
  EXPECT_TRUE(std::filesystem::exists(path("out-exported/model.safetensors")));
  const Outcome more = pasted(behind("  train on  ", run.err));
  EXPECT_EQ(more.status, 0) << more.err;
  EXPECT_THAT(more.err, AllOf(HasSubstr("start    resuming from "), HasSubstr("step 12/12")));
}

/// The run file asks for fewer than the checkpoint has, so twice what it asks for may be no step at all.
TEST_F(Output, AtTheEndTrainsOnFromTheStepsThatTheCheckpointHas) {
  const auto offered = [&](const std::string& steps) {
    const Outcome run = strata(train("run.yaml", {"checkpoint.path=out", steps}));
    EXPECT_EQ(run.status, 0) << run.err;
    return behind("  train on  ", run.err);
  };
  offered("train.steps=6");
  EXPECT_THAT(offered("train.steps=2"), EndsWith(" --set 'train.steps=12'"));
  EXPECT_THAT(offered("train.epochs=0.01"), EndsWith(" --set 'train.epochs=2'"));
  EXPECT_THAT(pasted(offered("train.steps=2")).err, HasSubstr("step 12/12"));
}

/// Else the first answer a user sees is worse than the samples.
TEST_F(Output, AtTheEndDrawsAsTheRunDrewItsSamples) {
  const auto said = [&](const std::string& samples) {
    const Outcome run =
        strata(train("run.yaml", {"checkpoint.path=out", "train.steps=1", "train.samples=" + samples}));
    EXPECT_EQ(run.status, 0) << run.err;
    return behind("  try it    ", run.err);
  };
  const std::string drawn = said("{prompts: [th], max_length: 8, temperature: 0.7, top_p: 0.9, top_k: 5}");
  EXPECT_THAT(drawn, HasSubstr(" --prompt th --temperature 0.7 --top-p 0.9 --top-k 5"));
  EXPECT_EQ(pasted(drawn).status, 0);
  EXPECT_THAT(said("{prompts: [th], max_length: 8}"), EndsWith(" --prompt th"));
}

TEST_F(Output, OfTrainIsTheSameInAFileAndOnStandardOutput) {
  const Outcome outcome = strata({"train", "run.yaml", "--json", "report.json"});
  EXPECT_EQ(outcome.status, 0);
  std::ifstream file(path("report.json"));
  const nlohmann::json json = nlohmann::json::parse(file);
  EXPECT_THAT(outcome.out, HasSubstr("state hash " + json["state_hash"].get<std::string>()));
  EXPECT_EQ(state_hash(train("run.yaml")), json["state_hash"]);
}

TEST_F(Output, OfMetricsIsALinePerStepAndPerValidation) {
  ASSERT_EQ(strata(train("run.yaml", {"report.metrics=out/metrics.jsonl", "train.validate_every=6"})).status,
            0);
  std::ifstream file(path("out/metrics.jsonl"));
  int steps = 0, validations = 0;
  for (std::string line; std::getline(file, line);) {
    nlohmann::json json = nlohmann::json::parse(line);
    EXPECT_EQ(json.erase("data"), steps + validations == 0 ? 1 : 0);
    if (json.contains("validation_loss")) {
      expect_keys(json, {"step", "validation_loss"});
      EXPECT_EQ(json["step"], 6 * validations++);
    } else {
      expect_keys(json, {"step", "loss", "grad_norm", "learning_rate", "seconds", "skipped"});
      EXPECT_EQ(json["step"], ++steps);
    }
  }
  EXPECT_EQ(steps, 6);
  EXPECT_EQ(validations, 2);
}

/// In quotes, whatever a text has in it.
TEST_F(Output, OfSamplesIsALineEachAndWhatGenerateSays) {
  const Arguments arguments =
      train("run.yaml",
            {"train.samples.prompts=[line, '7 \x1b']", "train.samples.every=3", "train.samples.max_length=12",
             "report.metrics=metrics.jsonl", "checkpoint.path=out", "train.precision=fp32"});
  const Outcome outcome = strata(arguments);
  EXPECT_EQ(outcome.status, 0);
  std::ifstream file(path("metrics.jsonl"));
  std::vector<nlohmann::json> points;
  for (std::string line; std::getline(file, line);)
    if (nlohmann::json json = nlohmann::json::parse(line); json.contains("samples")) {
      json.erase("data");
      points.push_back(json);
    }
  ASSERT_EQ(points.size(), 3U);
  for (std::size_t i = 0; i < 3; ++i) {
    expect_keys(points[i], {"step", "seconds", "samples"});
    EXPECT_EQ(points[i]["step"], 3 * i);
    ASSERT_EQ(points[i]["samples"].size(), 2U);
    const nlohmann::json& sample = points[i]["samples"][1];
    expect_keys(sample, {"prompt", "text", "ids"});
    // What random weights say is kept, and not shown.
    EXPECT_THAT(outcome.err, Conditional(i > 0, HasSubstr(fmt::format("step {}: \"7 \\u001b\" ", 3 * i)),
                                         Not(HasSubstr("step 0: \""))));
  }
  const nlohmann::json generated = report({"generate", "out", "--tokenizer", "bytes", "--precision", "fp32",
                                           "--prompt", "line", "--max-tokens", "8"});
  EXPECT_EQ(generated["continuations"][0]["ids"], points.back()["samples"][0]["ids"]);
}

TEST_F(Output, OfDumpConfigIsARunFileThatRepeatsTheRun) {
  const Arguments overrides = {"train.seed=11", "optimizer.schedule.type=cosine",
                               "optimizer.schedule.warmup=2", "memory.device=128KiB", "train.recompute=none"};
  Arguments dumping = train("run.yaml", overrides);
  dumping.emplace_back("--dump-config");
  const Outcome dumped = strata(dumping);
  EXPECT_EQ(dumped.status, 0);
  EXPECT_EQ(dumped.err, "");
  write("dumped.yaml", dumped.out);
  EXPECT_EQ(state_hash(train("dumped.yaml")), state_hash(train("run.yaml", overrides)));
  EXPECT_NE(state_hash(train("dumped.yaml")), state_hash(train("run.yaml")));
  EXPECT_EQ(strata({"train", "dumped.yaml", "--dump-config"}).out, dumped.out);
}

TEST_F(Output, OfHelpConfigListsEveryKeyAndIsWhatTheDocumentationShows) {
  const Outcome help = strata({"train", "--help-config"});
  EXPECT_EQ(help.status, 0);
  EXPECT_EQ(help.out, help_config());
  for (const Key& key : config_keys()) {
    EXPECT_THAT(help.out, HasSubstr(key.path.substr(key.path.rfind('.') + 1) + ":")) << key.path;
  }
  EXPECT_THAT(documentation("reference/run-file.md"), HasSubstr("```text\n" + help.out + "```\n"));
}

/// Before `memory.device: unlimited` is worked out, which is what is left beside it.
TEST_F(Output, OfPlanReservesWhatNcclTakes) {
  const auto parts = [&](const Arguments& overrides) {
    Arguments plan = train("run.yaml", overrides);
    plan.front() = "plan";
    return report(plan)["scratch"]["parts"];
  };
  const std::string on_gpu = "device.kind=cuda";
  const nlohmann::json alone = parts({on_gpu}), ranks = parts({on_gpu, "parallel.data=2"});
  EXPECT_FALSE(alone.contains("NCCL's buffers"));
  EXPECT_EQ(ranks.contains("NCCL's buffers"), ranks.contains("cuBLASLt's workspace"))
      << "a build without CUDA knows neither";
  if (!ranks.contains("NCCL's buffers")) return;
  const nlohmann::json layers = parts({on_gpu, "parallel={data: 2, tensor: 2}"});
  EXPECT_GT(layers["NCCL's buffers"], ranks["NCCL's buffers"]);
  EXPECT_FALSE(parts({"parallel.data=2"}).contains("NCCL's buffers"));
}

// Invariant: The plan is exact.
TEST_F(Output, OfPlanIsWhatTheRunThenDoes) {
  if (const std::string reason = test::why_no_drive(path(".")); !reason.empty()) GTEST_SKIP() << reason;
  const Arguments overrides = {"memory.device=160KiB", "memory.nvme={path: ., size: 64MiB}",
                               "memory.placement.optimizer_state=nvme", "checkpoint={path: out, every: 4}"};
  Arguments plan = train("run.yaml", overrides);
  plan.front() = "plan";
  const nlohmann::json planned = report(plan);
  expect_keys(planned, {"parameters", "trained_parameters", "tokens_per_step", "order", "precision",
                        "units_with_device_state", "state_bytes_per_parameter", "memory", "traffic", "flops",
                        "certificate", "instructions", "scratch"});
  const nlohmann::json done = report(train("run.yaml", overrides));
  for (const char* tier : {"device", "host", "nvme"}) {
    EXPECT_EQ(planned["memory"][tier]["planned_peak_bytes"], done["memory"][tier]["measured_peak_bytes"])
        << tier;
  }
  for (const char* link : {"h2d", "d2h", "nvme_read", "nvme_write"}) {
    const nlohmann::json& traffic = planned["traffic"][link];
    EXPECT_EQ(6 * traffic["planned_bytes"].get<Bytes>() + 2 * traffic["save_bytes"].get<Bytes>(),
              done["traffic"][link]["measured_bytes"]);
    EXPECT_EQ(done["traffic"][link]["planned_bytes"], done["traffic"][link]["measured_bytes"]);
  }
}

TEST_F(Output, OfPlanForSeveralRanksSaysWhatStaysGathered) {
  const auto plan = [&](const std::string& device) {
    Arguments arguments = train("run.yaml", {"parallel.data=2", "train.batch=4", "memory.device=" + device});
    arguments.front() = "plan";
    return arguments;
  };
  const nlohmann::json ample = report(plan("1GiB")), tight = report(plan("160KiB"));
  const Bytes unsent = ample["kept_gathered"]["unsent_bytes"];
  EXPECT_GT(unsent, tight["kept_gathered"]["unsent_bytes"].get<Bytes>());
  EXPECT_GT(ample["kept_gathered"]["units"], 0);
  EXPECT_LT(ample["traffic"]["all_gather"]["planned_bytes"], tight["traffic"]["all_gather"]["planned_bytes"]);
  EXPECT_THAT(strata(plan("1GiB")).out,
              HasSubstr(fmt::format("so that {} less are sent per step", format_bytes(unsent))));
}

TEST_F(Output, OfPlanSaysWhatPackedParametersTake) {
  const auto planned = [&](const std::string& format) {
    Arguments arguments =
        train("run.yaml", {"train.precision=fp8", "memory.trained_as=" + format, "memory.device=160KiB"});
    arguments.front() = "plan";
    return arguments;
  };
  const nlohmann::json packed = report(planned("fp8")), plain = report(planned("precision"));
  EXPECT_FALSE(plain.contains("packed"));
  const Bytes bytes = packed["packed"]["bytes"], unpacked = packed["packed"]["unpacked_bytes"];
  EXPECT_LT(bytes, unpacked);
  EXPECT_LT(packed["traffic"]["h2d"]["planned_bytes"], plain["traffic"]["h2d"]["planned_bytes"]);
  EXPECT_THAT(strata(planned("fp8")).out,
              HasSubstr(fmt::format("packed   parameters of blocks are kept and travel in {}, in place of {}",
                                    format_bytes(bytes), format_bytes(unpacked))));
}

TEST_F(Output, OfPlanSaysWhatSamplesTake) {
  Arguments plan = train("run.yaml", {"train.samples={prompts: [a, b], max_length: 20}"});
  plan.front() = "plan";
  const std::string line =
      "samples  2 prompts, of at most 20 tokens with what follows; a token of each takes a forward pass of 2 "
      "x 20 "
      "tokens";
  EXPECT_THAT(strata(plan).out, HasSubstr(line + "\n"));
  EXPECT_EQ(report(plan)["samples"], nlohmann::json({{"prompts", 2}, {"max_length", 20}}));
}

TEST_F(Output, OfPlanAndTrainSaysWhichTensorsHaveWhichPolicy) {
  Arguments run = train("run.yaml", {"optimizer.groups=[{tensors: '*norm*', lr_factor: 0.5}]"});
  const std::string line = "adamw, lr x 0.5, weight decay 0: 224 parameters, model.layers.*.input_layernorm";
  Arguments verbose = run;
  verbose.emplace_back("--verbose");
  EXPECT_THAT(strata(verbose).err, HasSubstr(line));
  run.front() = "plan";
  EXPECT_THAT(strata(run).out, HasSubstr(line));
  const nlohmann::json policies = report(run)["policies"];
  ASSERT_EQ(policies.size(), 2U);
  expect_keys(policies[1],
              {"rule", "lr_factor", "scale", "schedule_of_group", "weight_decay", "parameters", "tensors"});
  EXPECT_EQ(policies[1]["lr_factor"], 0.5);
}

TEST_F(Output, OfPlanShowsTheProgram) {
  const Outcome outcome = strata({"plan", "run.yaml", "--program"});
  EXPECT_EQ(outcome.status, 0);
  EXPECT_THAT(outcome.out, HasSubstr("forward        block.1 mb=0 [compute]"));
  EXPECT_THAT(outcome.out, HasSubstr("device:block.1/parameter"));
}

TEST_F(Output, OfPlanShowsTheSchedule) {
  const Outcome outcome = strata({"plan", "run.yaml", "--schedule"});
  EXPECT_EQ(outcome.status, 0);
  EXPECT_THAT(outcome.out, HasSubstr("\nforward block.1 mb=0\n"));
  EXPECT_THAT(outcome.out, HasSubstr("\nupdate embedding\n"));
}

/// A closed descriptor would be that of the next file.
TEST_F(Output, OfClosedStreamsGoesIntoNoFile) {
  for (const char* closed : {"2>&-", ">&- 2>&-", "<&- >&- 2>&-"}) {
    const std::string command =
        std::string(STRATA_PROGRAM " train run.yaml --set report.metrics=m.jsonl ") + closed;
    EXPECT_EQ(Process("/bin/sh", {"-c", command}, {.folder = path(".")}).wait().status, 0) << closed;
    std::ifstream metrics(path("m.jsonl"));
    std::int64_t lines = 0;
    for (std::string line; std::getline(metrics, line); ++lines) EXPECT_TRUE(line.starts_with("{")) << line;
    EXPECT_GT(lines, 0) << closed;
    std::filesystem::remove(path("m.jsonl"));
  }
}

/// Also of a text so long that it is written before the end, and of one that is flushed as it comes.
TEST_F(Output, ThatIsLostFailsTheCommandAndAReaderThatEndsDoesNot) {
  make_model_folder("model");
  const auto shell = [&](const std::string& arguments, const std::string& to) {
    return Process("/bin/sh", {"-c", STRATA_PROGRAM " " + arguments + " " + to}, {.folder = path(".")})
        .wait();
  };
  for (const char* arguments : {"evaluate model --tokenizer bytes --data corpus.txt",
                                "generate model --tokenizer bytes --prompt a --max-tokens 3", "plan run.yaml",
                                "plan run.yaml --program", "train --help-config"})
    expect_sentence(shell(arguments, ">/dev/full"), 1,
                    {"strata: cannot write standard output: No space left on device"});
  expect_sentence(shell("train nowhere.yaml", ">/dev/full"), 2, {"nowhere.yaml"});
  const Outcome read_in_part = shell("train --help-config", "| head -n 1");
  EXPECT_EQ(read_in_part.status, 0);
  EXPECT_EQ(read_in_part.err, "");
}

TEST_F(Output, OfPlanForSeventyBillionParametersTakesLittleMemory) {
  write("large.yaml", R"(model:
  architecture: llama
  config: {num_hidden_layers: 80, hidden_size: 8192, num_attention_heads: 64, num_key_value_heads: 8,
           intermediate_size: 28672, vocab_size: 128256, max_position_embeddings: 8192}
data: {path: not-there-yet.txt, sequence_length: 4096}
train: {batch: 16, microbatch: 1, precision: bf16}
memory: {device: 80GiB, host: 2TiB}
)");
  const Outcome outcome = strata({"plan", "large.yaml"});
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("70.6 billion parameters in 82 units"));
  EXPECT_THAT(outcome.out, HasSubstr(" of 80.00 GiB"));
  EXPECT_THAT(outcome.out, HasSubstr(" of 2.00 TiB"));
  EXPECT_LT(outcome.peak_resident_bytes, GiB);
}

}  // namespace
}  // namespace strata::test
