// Keys of the optimizer, of its schedule, and of averages and spikes.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/config/choices.h"
#include "engine/config/describe.h"
#include "engine/config/load.h"
#include "engine/config/optimizer_section.h"
#include "engine/config/run_config.h"
#include "tests/config/support.h"

namespace strata {
namespace {

using test::kMinimal;
using test::refusal;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(ClipBy, PreviousStepNeedsANormThatUpdatesNeedNotWaitFor) {
  const auto refused = [](const std::string& rest) {
    return refusal(kMinimal + rest, {"optimizer.clip_by=previous_step"});
  };
  EXPECT_THAT(refused("optimizer: {clip_norm: 0}\n"),
              HasSubstr("optimizer.clip_by: clip_norm is 0, so nothing is clipped; leave clip_by out"));
  EXPECT_THAT(refused("train: {precision: fp16}\n"),
              HasSubstr("updates of train.precision fp16 wait for the norm in any case; leave clip_by out"));
  EXPECT_THAT(
      refused("parallel: {pipeline: 2, schedule: pipedream_2bw}\n"),
      HasSubstr("parallel.schedule pipedream_2bw has several steps under way, and none is the previous"));
}

TEST(Schedule, KeysBelongToTheirTypes) {
  const auto refused = [](const std::string& schedule) {
    return refusal(kMinimal + "optimizer: {schedule: {" + schedule + "}}\n");
  };
  EXPECT_EQ(
      refused("type: cosine, decay_ratio: 0.1"),
      "run.yaml:3:38: optimizer.schedule.decay_ratio: belongs to optimizer.schedule.type wsd, not cosine");
  EXPECT_THAT(refused("shape: sqrt"), HasSubstr("type wsd, not constant"));
  EXPECT_THAT(refused("power: 1"), HasSubstr("type polynomial, not constant"));
  EXPECT_THAT(refused("cycles: 2"), HasSubstr("type cosine_restarts, not constant"));
  EXPECT_THAT(refused("timescale: 2"), HasSubstr("type inverse_sqrt, not constant"));
  EXPECT_THAT(refused("points: [[0, 1]]"), HasSubstr("type piecewise, not constant"));
  EXPECT_EQ(
      refused("type: piecewise"),
      "run.yaml:3:24: optimizer.schedule.points: piecewise needs points: give [[step, factor on lr], …]");
}

TEST(Schedule, APlateauIsOfHeldOutLosses) {
  EXPECT_EQ(refusal(kMinimal + "optimizer: {schedule: {type: plateau}}\n"),
            "run.yaml:3:24: optimizer.schedule.type: plateau watches the held-out loss; give "
            "train.validate_every");
  const std::string validates =
      "model: {path: m}\ndata: {path: a.txt, validation: b.txt}\ntrain: {validate_every: 5}\n"
      "optimizer: {schedule: {type: plateau";
  EXPECT_EQ(parse_run_config(validates + ", patience: 0}}\n", "run.yaml").schedule.patience, 0);
  EXPECT_THAT(refusal(validates + ", factor: 1}}\n"),
              HasSubstr("optimizer.schedule.factor: must be at least 0 and less than 1, not 1"));
  EXPECT_THAT(refusal(kMinimal + "optimizer: {schedule: {patience: 2}}\n"),
              HasSubstr("type plateau, not constant"));
  EXPECT_THAT(refusal(kMinimal, {"optimizer.groups=[{tensors: a, schedule: {type: plateau}}]"}),
              HasSubstr("group 1: schedule: type: plateau is a schedule of the whole run"));
}

TEST(Schedule, PointsRise) {
  const auto points = [](const std::string& points) {
    return refusal(kMinimal + "optimizer: {schedule: {type: piecewise, points: " + points + "}}\n");
  };
  EXPECT_THAT(points("[[0, 1], [0, 2]]"), HasSubstr("the points' steps must rise, not [[0, 1], [0, 2]]"));
  EXPECT_THAT(points("[[-1, 1]]"), HasSubstr("a point's step must be between 0 and"));
  EXPECT_THAT(points("[[1, -1]]"), HasSubstr("a point's factor must not be negative"));
  EXPECT_THAT(points("[[1]]"), HasSubstr("expected a step and a factor, as [800, 0.1], found"));
  EXPECT_THAT(points("[[0, 1], [1.5, 1]]"), HasSubstr("point 2: expected an integer, found '1.5'"));
  EXPECT_THAT(points("3"), HasSubstr("expected a list such as [[0, 1], [800, 0.1]], found"));
}

TEST(TensorGroups, AreReadInOrder) {
  const std::string groups =
      "optimizer: {groups: [{tensors: '*.bias', weight_decay: 0}, {tensors: [a.*, b], lr_factor: 0.1}]}\n";
  EXPECT_THAT(parse_run_config(kMinimal + groups, "run.yaml").optimizer.groups,
              ElementsAre(TensorGroup{{"*.bias"}, {}, 0}, TensorGroup{{"a.*", "b"}, 0.1, {}}));
  EXPECT_THAT(parse_run_config(kMinimal + groups, "run.yaml", {"optimizer.groups=[]"}).optimizer.groups,
              ElementsAre());
}

TEST(TensorGroups, MayHaveTheirOwnSchedule) {
  const std::string cosine = "optimizer: {schedule: {type: cosine, warmup: 7}, groups: ";
  const ScheduleSection wsd = {.type = ScheduleType::wsd, .decay_ratio = 0.5, .shape = DecayShape::sqrt};
  EXPECT_THAT(parse_run_config(kMinimal + cosine +
                                   "[{tensors: a, schedule: {type: wsd, decay_ratio: 0.5, shape: sqrt}}]}\n",
                               "run.yaml")
                  .optimizer.groups,
              ElementsAre(TensorGroup{{"a"}, {}, {}, wsd}));
  const auto refused = [](const std::string& schedule) {
    return refusal(kMinimal, {"optimizer.groups=[{tensors: a, schedule: " + schedule + "}]"});
  };
  const std::string place = "optimizer.groups: group 1: schedule: ";
  EXPECT_THAT(refused("cosine"),
              HasSubstr(place + "expected a map such as {type: cosine, warmup: 100}, found"));
  EXPECT_THAT(refused("{typ: cosine}"), HasSubstr(place + "typ is no key of optimizer.schedule"));
  EXPECT_THAT(refused("{type: cosin}"), HasSubstr(place + "type: expected constant or linear or cosine or"));
  EXPECT_THAT(refused("{warmup: 1, warmup: 2}"), HasSubstr(place + "its key 'warmup' is given twice"));
  EXPECT_THAT(refused("{warmup: -1}"), HasSubstr(place + "warmup: must not be negative, not -1"));
  EXPECT_THAT(refused("{power: 3}"),
              HasSubstr(place + "power: belongs to optimizer.schedule.type polynomial, not constant"));
}

TEST(TensorGroups, AreRefusedWithTheNumberOfTheGroup) {
  const auto refusal_of = [](const std::string& groups) {
    return refusal(kMinimal, {"optimizer.groups=" + groups});
  };
  const std::string first = "[{tensors: '*.bias', weight_decay: 0}, ";
  EXPECT_THAT(refusal_of(first + "{tensors: a, lr: 0.1}]"),
              HasSubstr("optimizer.groups: group 2: lr: is no key of a group, which has tensors, lr_factor, "
                        "weight_decay, schedule and type"));
  EXPECT_THAT(refusal_of(first + "{lr_factor: 0.1}]"),
              HasSubstr("group 2: names no tensors; add patterns of their names"));
  EXPECT_THAT(refusal_of(first + "{tensors: a}]"),
              HasSubstr("group 2: changes nothing; add lr_factor, weight_decay, schedule or type"));
  EXPECT_THAT(refusal_of(first + "{tensors: a, lr_factor: -1}]"),
              HasSubstr("group 2: lr_factor: must not be negative, not -1"));
  EXPECT_THAT(refusal_of(first + "{tensors: a, weight_decay: much}]"),
              HasSubstr("group 2: weight_decay: expected a number, found 'much'"));
  EXPECT_THAT(refusal_of(first + "{tensors: a, lr_factor: 1, lr_factor: 2}]"),
              HasSubstr("group 2: its key 'lr_factor' is given twice"));
  EXPECT_THAT(refusal_of("[{tensors: '\xc3\xa9', lr_factor: 1}]"), HasSubstr("plain ASCII"));
  EXPECT_THAT(refusal_of("[a]"), HasSubstr("group 1: expected a map such as {tensors: '*.bias', "));
  EXPECT_THAT(refusal_of("{tensors: a}"), HasSubstr("expected a list such as [{tensors: '*.bias', "));
}

TEST(MasterFormats, ThatAreSmallAreRefusedWithAnyPrecisionButBf16) {
  for (const std::string master : {"split", "none"}) {
    for (const std::string precision : {"fp32", "fp16"}) {
      EXPECT_THAT(
          refusal(kMinimal + "train: {precision: " + precision + "}\noptimizer: {master: " + master + "}\n"),
          AllOf(HasSubstr("run.yaml:4:13: optimizer.master: " + master + " needs train.precision bf16"),
                HasSubstr("use fp32 with any other precision")));
    }
  }
  EXPECT_THAT(refusal(kMinimal + "optimizer: {master: bf16}\n"),
              HasSubstr("expected fp32 or split or none, found 'bf16'"));
  EXPECT_THAT(refusal(kMinimal + "optimizer: {moments: fp16}\n"),
              HasSubstr("expected fp32 or bf16 or 8bit, found 'fp16'"));
}

TEST(OptimizerType, RefusesKeysOfOthers) {
  const RunConfig sgd = parse_run_config(kMinimal + "optimizer: {type: sgd, momentum: 0.9}\n", "run.yaml");
  EXPECT_EQ(sgd.optimizer.type, OptimizerType::sgd);
  EXPECT_EQ(sgd.optimizer.momentum, 0.9);
  EXPECT_THAT(refusal(kMinimal + "optimizer: {momentum: 0.9}\n"),
              HasSubstr("run.yaml:3:13: optimizer.momentum: belongs to optimizer.type muon or normuon or sgd "
                        "or rmsprop, not adamw"));
  EXPECT_THAT(refusal(kMinimal + "optimizer: {type: sgd, betas: [0.8, 0.9]}\n"),
              HasSubstr("optimizer.betas: belongs to optimizer.type adamw or ademamix or muon or normuon or "
                        "lion, not sgd"));
  EXPECT_THAT(
      refusal(kMinimal + "optimizer: {type: sgd, epsilon: 1}\n"),
      HasSubstr("optimizer.epsilon: belongs to optimizer.type adamw or ademamix or muon or normuon or "
                "rmsprop or adagrad or adagrad_rowwise or adafactor, not sgd"));
  EXPECT_THAT(
      refusal(kMinimal + "optimizer: {type: lion, epsilon: 1e-8}\n"),
      HasSubstr("optimizer.epsilon: belongs to optimizer.type adamw or ademamix or muon or normuon or "
                "rmsprop or adagrad or adagrad_rowwise or adafactor, not lion"));
  EXPECT_THAT(refusal(kMinimal + "optimizer: {type: rmsprop, betas: [0.8, 0.9]}\n"),
              HasSubstr("optimizer.betas: belongs to optimizer.type adamw or ademamix or muon or normuon or "
                        "lion, not rmsprop"));
  EXPECT_THAT(refusal(kMinimal + "optimizer: {type: adagrad, alpha: 0.9}\n"),
              HasSubstr("optimizer.alpha: belongs to optimizer.type rmsprop or ademamix, not adagrad"));
  EXPECT_THAT(refusal(kMinimal + "optimizer: {type: adamw, beta3: 0.99}\n"),
              HasSubstr("optimizer.beta3: belongs to optimizer.type ademamix, not adamw"));
  EXPECT_THAT(refusal(kMinimal + "optimizer: {type: ademamix, slow_warmup: 9, betas: [0, 0.9]}\n"),
              HasSubstr("slow_warmup: beta3 cannot rise from the first of optimizer.betas, which is 0"));
  EXPECT_THAT(refusal(kMinimal + "optimizer: {type: ademamix, beta3: 1}\n"),
              HasSubstr("optimizer.beta3: must be greater than 0 and less than 1, not 1"));
  for (const char* type : {"lion", "adagrad"})
    EXPECT_THAT(refusal(fmt::format("{}optimizer: {{type: {}, momentum: 0.9}}\n", kMinimal, type)),
                HasSubstr(fmt::format(
                    "optimizer.momentum: belongs to optimizer.type muon or normuon or sgd or rmsprop, not {}",
                    type)));
  EXPECT_THAT(refusal(kMinimal + "optimizer: {type: sgd, momentum: 1}\n"),
              HasSubstr("optimizer.momentum: must be at least 0 and less than 1, not 1"));
  EXPECT_THAT(refusal(kMinimal + "optimizer: {type: sgd, moments: bf16}\n"),
              HasSubstr("optimizer.moments: sgd without optimizer.momentum keeps no moments"));
  EXPECT_EQ(parse_run_config(kMinimal + "optimizer: {type: sgd, momentum: 0.5, moments: bf16}\n", "run.yaml")
                .optimizer.moments,
            MomentFormat::bf16);
}

TEST(OptimizerType, GivesItsDefaultsAndTakesItsKeys) {
  const auto optimizer_of = [](const std::string& keys) {
    return parse_run_config(kMinimal + "optimizer: {" + keys + "}\n", "run.yaml").optimizer;
  };
  EXPECT_THAT(betas_of(optimizer_of("type: adamw")), ElementsAre(0.9, 0.95));
  EXPECT_THAT(betas_of(optimizer_of("type: lion")), ElementsAre(0.9, 0.99));
  EXPECT_THAT(betas_of(optimizer_of("type: lion, betas: [0.95, 0.98]")), ElementsAre(0.95, 0.98));
  EXPECT_EQ(epsilon_of(optimizer_of("type: adamw")), 1e-8);
  EXPECT_EQ(epsilon_of(optimizer_of("type: rmsprop")), 1e-8);
  EXPECT_EQ(epsilon_of(optimizer_of("type: adagrad")), 1e-10);
  EXPECT_EQ(epsilon_of(optimizer_of("type: adagrad, epsilon: 1e-6")), 1e-6);
  EXPECT_EQ(alpha_of(optimizer_of("type: rmsprop")), 0.99);
  EXPECT_EQ(alpha_of(optimizer_of("type: ademamix")), 5);
  EXPECT_EQ(alpha_of(optimizer_of("type: ademamix, alpha: 8")), 8);
  EXPECT_THAT(betas_of(optimizer_of("type: ademamix")), ElementsAre(0.9, 0.999));
  const OptimizerSection rmsprop = optimizer_of("type: rmsprop, alpha: 0.9, momentum: 0.8, epsilon: 1e-6");
  EXPECT_EQ(rmsprop.alpha, 0.9);
  EXPECT_EQ(rmsprop.momentum, 0.8);
  EXPECT_EQ(epsilon_of(rmsprop), 1e-6);
  for (const char* type : {"lion", "rmsprop", "adagrad"})
    EXPECT_EQ(optimizer_of(fmt::format("type: {}, moments: bf16", type)).moments, MomentFormat::bf16);
  for (const char* type : {"adamw", "ademamix", "lion", "muon"})
    EXPECT_EQ(optimizer_of(fmt::format("type: {}, moments: 8bit", type)).moments, MomentFormat::coded);
}

TEST(Adafactor, HasSettingsOfItsOwnAndKeepsNoMoments) {
  const auto adafactor = [](const std::string& keys) {
    return parse_run_config(kMinimal + "optimizer: {type: adafactor" + keys + "}\n", "run.yaml").optimizer;
  };
  EXPECT_EQ(epsilon_of(adafactor("")), 1e-30);
  EXPECT_EQ(adafactor("").decay_rate, -0.8);
  EXPECT_EQ(adafactor("").clip_threshold, 1);
  EXPECT_EQ(adafactor(", decay_rate: -0.5").decay_rate, -0.5);
  EXPECT_THAT(refusal(kMinimal + "optimizer: {type: adafactor, decay_rate: 0.8}\n"),
              HasSubstr("optimizer.decay_rate: must be less than 0, not 0.8"));
  EXPECT_THAT(refusal(kMinimal + "optimizer: {type: adafactor, clip_threshold: 0}\n"),
              HasSubstr("optimizer.clip_threshold: must be greater than 0, not 0"));
  EXPECT_THAT(refusal(kMinimal + "optimizer: {type: adafactor, moments: bf16}\n"),
              HasSubstr("optimizer.moments: adafactor keeps no moments; leave it out"));
  EXPECT_THAT(refusal(kMinimal + "optimizer: {type: lion, clip_threshold: 2}\n"),
              HasSubstr("optimizer.clip_threshold: belongs to optimizer.type adafactor, not lion"));
  EXPECT_THAT(refusal(kMinimal + "optimizer: {scale_parameter: true}\n"),
              HasSubstr("adafactor's steps are optimizer.lr"));
}

TEST(OptimizerType, AnswersEightBitOptimizersOfOtherToolsWithTheFormatOfMoments) {
  for (const char* type : {"adamw_8bit", "paged_adamw_8bit", "adamw_bnb_8bit"}) {
    EXPECT_THAT(refusal(kMinimal + fmt::format("optimizer: {{type: {}}}\n", type)),
                HasSubstr("write adamw, with optimizer.moments: 8bit"));
  }
  EXPECT_THAT(refusal(kMinimal + "optimizer: {moments: int8}\n"), HasSubstr("write 8bit"));
  EXPECT_THAT(refusal(kMinimal + "train.ema: {decay: 0.9, format: 8bit}\n"),
              HasSubstr("expected fp32 or bf16"));
}

TEST(Muon, HasAMomentumAndAdamWBesideIt) {
  const auto muon = [](const std::string& keys) {
    return parse_run_config(kMinimal + "optimizer: {type: muon" + keys + "}\n", "run.yaml").optimizer;
  };
  EXPECT_EQ(momentum_of(muon("")), 0.95);
  EXPECT_EQ(momentum_of(muon(", momentum: 0.9")), 0.9);
  EXPECT_EQ(momentum_of(OptimizerSection()), 0);
  EXPECT_EQ(muon("").muon_scaling, MuonScaling::match_rms_adamw);
  EXPECT_THAT(betas_of(muon("")), ElementsAre(0.9, 0.95));
  EXPECT_EQ(muon(", groups: [{tensors: a, type: adamw}]").groups.front().type, OptimizerType::adamw);
  const RunConfig config = parse_run_config(
      kMinimal + "optimizer: {type: muon, groups: [{tensors: a, type: adamw}]}\n", "run.yaml");
  EXPECT_EQ(parse_run_config(dump(config), "dump"), config);
}

TEST(Muon, RefusesWhatItCannotDo) {
  EXPECT_THAT(refusal(kMinimal + "optimizer: {muon_scaling: original}\n"),
              HasSubstr("optimizer.muon_scaling: belongs to optimizer.type muon, not adamw"));
  EXPECT_THAT(
      refusal(kMinimal + "optimizer: {type: lion, groups: [{tensors: a, type: muon}]}\n"),
      HasSubstr("optimizer.groups: type of group 1 belongs to optimizer.type muon or normuon, not lion"));
  EXPECT_THAT(refusal(kMinimal + "optimizer: {type: muon, groups: [{tensors: a, type: sgd}]}\n"),
              HasSubstr("optimizer.groups: type of group 1 must be muon or adamw, not sgd"));
}

TEST(EmaAndSpike, RefuseKeysThatDoNothing) {
  for (const char* key : {"every: 2", "format: bf16"})
    EXPECT_THAT(refusal(fmt::format("{}train: {{ema: {{{}}}}}\n", kMinimal, key)),
                HasSubstr("does nothing while train.ema.decay is 0"));
  EXPECT_THAT(refusal(kMinimal + "train: {spike: {window: 9}}\n"),
              HasSubstr("does nothing while train.spike.factor is 0"));
}

TEST(EmaAndSpike, RefuseNumbersThatHaveNoMeaning) {
  EXPECT_THAT(refusal(kMinimal + "train: {ema: {decay: 1}}\n"),
              HasSubstr("train.ema.decay: must be at least 0 and less than 1, not 1"));
  EXPECT_THAT(refusal(kMinimal + "train: {spike: {roll_back: 2}}\n"),
              HasSubstr("train.spike.roll_back: does nothing while train.spike.factor is 0"));
  EXPECT_THAT(
      refusal(kMinimal + "train: {spike: {factor: 3, roll_back: 2}, max_skipped_steps: 2}\n"),
      HasSubstr("train.spike.roll_back: spikes are skipped steps, and 2 of these in a row end the run "
                "(train.max_skipped_steps); give fewer"));
  EXPECT_THAT(
      refusal(kMinimal + "train: {spike: {factor: 3, roll_back: 2}}\ncheckpoint: {every_minutes: 0}\n"),
      HasSubstr("the run goes back to checkpoints, and saves none before its end; give "
                "checkpoint.every"));
  EXPECT_THAT(refusal(kMinimal + "train: {spike: {factor: 0.5}}\n"),
              HasSubstr("train.spike.factor: must be 0, or greater than 1, not 0.5"));
  EXPECT_THAT(refusal(kMinimal + "train: {spike: {factor: 3}}\noptimizer: {clip_by: previous_step}\n"),
              HasSubstr("train.spike makes updates wait for the norm in any case; leave clip_by out"));
}

}  // namespace
}  // namespace strata
