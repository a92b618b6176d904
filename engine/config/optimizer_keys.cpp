#include <algorithm>

#include "engine/config/run_config.h"
#include "engine/config/section_keys.h"

namespace strata {
namespace {

using namespace value;  // NOLINT(google-build-using-namespace): the table below reads as a table

std::string check_clip_by(const RunConfig& config) {
  if (config.optimizer.clip_by == ClipBy::step) return "";
  if (config.optimizer.clip_norm == 0) return "clip_norm is 0, so nothing is clipped; leave clip_by out";
  if (config.train.precision == DType::fp16)
    return "updates of train.precision fp16 wait for the norm in any case; leave clip_by out";
  if (config.spike.factor > 0)
    return "train.spike makes updates wait for the norm in any case; leave clip_by out";
  return is_asynchronous(config.parallel.schedule)
             ? fmt::format(
                   "parallel.schedule {} has several steps under way, and none is the previous one; "
                   "leave clip_by out",
                   word_of(config.parallel.schedule))
             : "";
}

std::string check_group_types(const RunConfig& config) {
  using enum OptimizerType;
  const std::vector<TensorGroup>& groups = config.optimizer.groups;
  for (std::size_t g = 0; g < groups.size(); ++g) {
    if (!groups[g].type) continue;
    const OptimizerType type = config.optimizer.type;
    if (!orthogonalizes(type)) {
      return fmt::format("type of group {} belongs to optimizer.type muon or normuon, not {}", g + 1,
                         word_of(type));
    }
    if (*groups[g].type != type && *groups[g].type != adamw) {
      return fmt::format("type of group {} must be {} or adamw, not {}", g + 1, word_of(type),
                         word_of(*groups[g].type));
    }
  }
  return "";
}

void add_optimizer(std::vector<Key>& keys) {
  using S = OptimizerSection;
  SectionKeys<S> section(keys, "optimizer", &RunConfig::optimizer);
  using enum OptimizerType;
  const auto of = [](const std::vector<OptimizerType>& types, auto S::*field) {
    return belongs_to<S, OptimizerType>(&RunConfig::optimizer, "optimizer.type", types, field);
  };
  section.add<Word<OptimizerType>>(
      "type", &S::type, "",
      "adamw: Adam with decoupled weight decay, as torch.optim.AdamW. ademamix: adamw with a second, slow "
      "mean of gradients (Pagliardini et al. 2024). muon: steps of matrices of blocks with singular values "
      "near 1, as torch.optim.Muon, and adamw for all other tensors. normuon: muon, but with each row "
      "divided by the root of a mean of its squares (Li et al. 2025). lion: steps of the learning rate "
      "against the sign of a mean of gradients (Chen et al. 2023). rmsprop and adagrad: as in torch.optim, "
      "not centered and without lr_decay. adagrad_rowwise: adagrad with one number for each row of a "
      "matrix, as FBGEMM has it for tables of embeddings. adafactor: the gradient over the root of a mean "
      "of its squares. A matrix keeps a mean for each row and one for each column (Shazeer & Stern 2018), "
      "as transformers.Adafactor without scale_parameter and relative_step. sgd: stochastic gradient "
      "descent, as torch.optim.SGD. ademamix keeps three arrays of optimizer state, and adamw two; muon, "
      "normuon, lion, rmsprop and adagrad keep one; sgd, adafactor and adagrad_rowwise keep none. "
      "optimizer.momentum adds one.");
  section.add<Number>("lr", &S::learning_rate, "", "Learning rate after the warm-up.", not_below_zero);
  Key& betas = section.add<NumberPair>(
      "betas", &S::betas, "",
      "Of adamw, also beside muon and normuon, and of ademamix: decay rates of the mean of gradients and of "
      "their squares. normuon takes the second for rows, too. Of lion: the weight of the mean of gradients "
      "in a step's direction, and the decay rate of "
      "that mean.",
      [](const std::optional<std::array<double, 2>>& betas) -> std::string {
        const auto is_rate = [](double b) { return b >= 0 && b < 1; };
        return !betas || std::ranges::all_of(*betas, is_rate) ? ""
                                                              : "both must be at least 0 and less than 1";
      });
  betas.default_words = "default [0.9, 0.95], of lion [0.9, 0.99], of ademamix [0.9, 0.999]";
  require(betas, {"optimizer.type"}, of({adamw, ademamix, muon, normuon, lion}, &S::betas));
  require(section.add<Number>("beta3", &S::beta3, "", "Of ademamix: the decay rate of the slow mean.",
                              [](const double& value) -> std::string {
                                return value <= 0 || value >= 1 ? "must be greater than 0 and less than 1"
                                                                : "";
                              }),
          {"optimizer.type"}, of({ademamix}, &S::beta3));
  require(section.add<Integer<std::int64_t>>(
              "slow_warmup", &S::slow_warmup, "updates",
              "Of ademamix: updates in which alpha rises from 0 and beta3 from the first of betas. The paper "
              "takes all steps of the run. 0: they do not rise.",
              not_negative),
          {"optimizer.type"}, of({ademamix}, &S::slow_warmup));
  require(keys.back(), {"optimizer.type", "optimizer.betas"}, [](const RunConfig& c) -> std::string {
    return c.optimizer.slow_warmup > 0 && betas_of(c.optimizer)[0] == 0
               ? "beta3 cannot rise from the first of optimizer.betas, which is 0"
               : "";
  });
  Key& epsilon = section.add<Number>(
      "epsilon", &S::epsilon, "",
      "Of adamw, also beside muon, and of normuon, ademamix, rmsprop, adagrad and "
      "adagrad_rowwise: added to the root of the squares. Of adafactor: added to the squares.",
      [](const std::optional<double>& epsilon) { return positive(epsilon.value_or(1)); });
  epsilon.default_words = "default 1e-08, of adagrad and adagrad_rowwise 1e-10, of adafactor 1e-30";
  require(epsilon, {"optimizer.type"},
          of({adamw, ademamix, muon, normuon, rmsprop, adagrad, adagrad_rowwise, adafactor}, &S::epsilon));
  Key& alpha = section.add<Number>(
      "alpha", &S::alpha, "",
      "Of rmsprop: the decay rate of the mean of the gradients' squares. Of ademamix: the weight of the slow "
      "mean beside the other.",
      [](const std::optional<double>& alpha) { return not_below_zero(alpha.value_or(0)); });
  alpha.default_words = "default 0.99, of ademamix 5";
  require(alpha, {"optimizer.type"}, of({rmsprop, ademamix}, &S::alpha));
  require(alpha, {"optimizer.type"}, [](const RunConfig& c) -> std::string {
    const double rate = alpha_of(c.optimizer);
    if (c.optimizer.type != rmsprop || proper_fraction(rate).empty()) return "";
    return fmt::format("{}, not {}", proper_fraction(rate), rate);
  });
  Key& momentum = section.add<Number>(
      "momentum", &S::momentum, "",
      "Of sgd and rmsprop: the factor on the momentum buffer in each step, before the gradient is added. "
      "rmsprop divides the gradient by the root first. 0: there is no buffer. Of muon and normuon: the decay "
      "rate of the buffer, a mean of gradients; their step is Nesterov's.",
      [](const std::optional<double>& momentum) { return proper_fraction(momentum.value_or(0)); });
  momentum.default_words = "default 0, of muon and normuon 0.95";
  require(momentum, {"optimizer.type"}, of({muon, normuon, sgd, rmsprop}, &S::momentum));
  require(
      section.add<Word<MuonScaling>>(
          "muon_scaling", &S::muon_scaling, "",
          "Of muon: the factor on the learning rate, but not on the decay, of a matrix with `rows` outputs "
          "and `columns` inputs. match_rms_adamw: 0.2 · √max(rows, columns), so that steps are as long as "
          "those of adamw at one learning rate. original: √max(1, rows / columns). spectral_unclamped: "
          "√(rows / columns). normuon's steps have a root mean square of 0.2, times the rate."),
      {"optimizer.type"}, of({muon}, &S::muon_scaling));
  require(section.add<Number>(
              "decay_rate", &S::decay_rate, "",
              "Of adafactor: in update t, counted from 1, a mean of squares takes t^decay_rate of the "
              "gradient's squares.",
              [](const double& rate) { return rate < 0 ? std::string() : "must be less than 0"; }),
          {"optimizer.type"}, of({adafactor}, &S::decay_rate));
  require(section.add<Number>("clip_threshold", &S::clip_threshold, "",
                              "Of adafactor: the largest root mean square of a tensor's step, but for the "
                              "learning rate. Longer steps are made as long.",
                              positive),
          {"optimizer.type"}, of({adafactor}, &S::clip_threshold));
  section.add<Number>("weight_decay", &S::weight_decay, "",
                      "Decay per step, times the learning rate. adamw, ademamix, muon, normuon, lion, "
                      "adagrad_rowwise and adafactor shrink the weights by it. sgd, rmsprop and adagrad add "
                      "it to the gradient, so squares and "
                      "momentum include it.",
                      not_below_zero);
  section.add<Word<Decay>>(
      "decay", &S::decay, "",
      "Which tensors weight_decay applies to: matrices only (not norms and biases), or all.");
  require(section.add<TensorGroups>(
              "groups", &S::groups, "",
              "Groups of tensors with other settings: [{tensors: '*.bias', weight_decay: 0}, {tensors: "
              "['model.embed_tokens.*', 'lm_head.*'], lr_factor: 0.1}]. tensors: patterns of names, as in "
              "train.freeze. lr_factor: factor on the learning rate. weight_decay: in place of "
              "optimizer.weight_decay and decay. type: of a run with optimizer.type muon or normuon, that or "
              "adamw; so adamw updates a matrix of a block, or muon one outside of them. schedule: a map in "
              "place "
              "of optimizer.schedule, with its keys and their defaults. If several groups fit a tensor, "
              "the last one with such a key gives it. A resumed run may have other groups, but each tensor "
              "keeps its type."),
          {"optimizer.type"}, check_group_types);
  section.add<Number>("clip_norm", &S::clip_norm, "",
                      "Largest global norm of the gradient. 0: no clipping, and updates need not wait for "
                      "the end of the backward pass.",
                      not_below_zero);
  require(section.add<Word<ClipBy>>(
              "clip_by", &S::clip_by, "",
              "Which norm clipping reads. step: that of the gradients that are clipped, so that updates wait "
              "for all of them. previous_step: that of the step before, and the first step of a run is not "
              "clipped. Then updates need not wait, and gradients of a model whose state is on the host need "
              "not exist together. It is other mathematics: one step of huge gradients is not held back."),
          {"optimizer.clip_norm", "train.precision", "train.spike.factor", "parallel.schedule"},
          check_clip_by);
  require(
      section.add<Word<MasterFormat>>(
          "master", &S::master, "",
          "How exact weights are kept. fp32: beside the parameters. split: the parameters are the high "
          "halves, and 16 bits are kept beside them. That is 2 bytes per parameter less. A weight halfway "
          "between two bf16 numbers then has a parameter that is rounded away from zero instead of to even. "
          "none: nowhere. Updates change the parameters and round them at random by train.seed, so that "
          "the mean is right. That is 4 bytes per parameter less; results are near, not equal. split and "
          "none need train.precision bf16 or fp8."),
      {"train.precision"}, [](const RunConfig& c) -> std::string {
        const bool is_bf16 = c.train.precision.value_or(DType::bf16).storage == DType::bf16;
        return c.optimizer.master == MasterFormat::fp32 || is_bf16
                   ? ""
                   : fmt::format(
                         "{} needs train.precision bf16 or fp8, whose parameters have 16 bits of the "
                         "fp32 masters; use fp32 with any other precision",
                         word_of(c.optimizer.master));
      });
  require(section.add<Word<MomentFormat>>(
              "moments", &S::moments, "",
              "How moments, or the momentum buffer, are kept. bf16: rounded at "
              "random by train.seed, so that the mean is right. That is 2 bytes per "
              "parameter less for each. 8bit: floats of 8 bits that share "
              "exponents, rounded at random as well. That is 2.94 bytes per parameter less for each. "
              "Results are near those of fp32, not equal."),
          {"optimizer.type", "optimizer.momentum"}, [](const RunConfig& c) -> std::string {
            if (c.optimizer.moments == S().moments) return "";
            if (c.optimizer.type == adafactor || c.optimizer.type == adagrad_rowwise)
              return fmt::format("{} keeps no moments; leave it out", word_of(c.optimizer.type));
            return c.optimizer.type != sgd || momentum_of(c.optimizer) > 0
                       ? ""
                       : "sgd without optimizer.momentum keeps no moments; leave it out, or give a momentum";
          });
}

std::string check_points(const std::vector<SchedulePoint>& points) {
  for (std::size_t p = 0; p < points.size(); ++p) {
    if (points[p].step < 0 || points[p].step > kLargestCount)
      return fmt::format("a point's step must be between 0 and {}", kLargestCount);
    if (points[p].factor < 0) return "a point's factor must not be negative";
    if (p > 0 && points[p].step <= points[p - 1].step) return "the points' steps must rise";
  }
  return "";
}

void add_schedule(std::vector<Key>& keys) {
  using S = ScheduleSection;
  using Int = Integer<std::int64_t>;
  using enum ScheduleType;
  SectionKeys<S> section(keys, "optimizer.schedule", &RunConfig::schedule);
  const auto of = [](ScheduleType type, Key& key, auto S::*field) {
    require(key, {"optimizer.schedule.type"},
            belongs_to<S, ScheduleType>(&RunConfig::schedule, "optimizer.schedule.type", {type}, field));
  };
  Key& type = section.add<Word<ScheduleType>>(
      "type", &S::type, "",
      "The learning rate from the end of the warm-up to the last step. Let p rise from 0 in the first step "
      "after the warm-up to 1 in the last step, and let r be minimum_ratio. constant: lr. linear: lr · (r + "
      "(1 - r) · (1 - p)). cosine: lr · (r + (1 - r) · (1 + cos πp) / 2). polynomial: lr · (r + (1 - r) · (1 "
      "- p)^power). cosine_restarts: cosine, `cycles` times. wsd: lr, and over the last part of the run a "
      "fall to lr · r (warm-up, stable, decay). inverse_sqrt: lr · √(timescale / (timescale + t)), t steps "
      "after the warm-up, and at least lr · r. piecewise: a line through points. plateau: lr, lowered each "
      "time the held-out loss improves no more, and at least lr · r (torch.optim's ReduceLROnPlateau).");
  require(type, {"train.validate_every"}, [](const RunConfig& c) -> std::string {
    return c.schedule.type == plateau && c.train.validate_every == 0
               ? "plateau watches the held-out loss; give train.validate_every"
               : "";
  });
  require(section.add<Int>("warmup", &S::warmup, "steps",
                           "Steps in which the learning rate rises linearly to optimizer.lr. "
                           "Step s, counted from 0, has lr · (s + 1) / (warmup + 1). If --set or "
                           "train.epochs make the run shorter than its warm-up, a tenth of the "
                           "run's steps is taken.",
                           not_negative),
          {"train.steps"}, [](const RunConfig& c) -> std::string {
            if (c.train.epochs || c.schedule.warmup <= c.train.steps) return "";
            return fmt::format("{} steps of warm-up are more than the run's {} (train.steps)",
                               c.schedule.warmup, c.train.steps);
          });
  section.add<Number>("minimum_ratio", &S::minimum_ratio, "",
                      "The part of optimizer.lr that the last step has. constant and piecewise do not read "
                      "it, and inverse_sqrt and plateau never fall below it.",
                      fraction);
  of(wsd,
     section.add<Number>("decay_ratio", &S::decay_ratio, "",
                         "Of wsd: the part of the run's steps, at its end, over which the rate falls.",
                         positive_fraction),
     &S::decay_ratio);
  of(wsd,
     section.add<Word<DecayShape>>(
         "shape", &S::shape, "",
         "Of wsd: how the rate falls, with p from 0 to 1 over that part. linear: by 1 - p. cosine: by (1 + "
         "cos πp) / 2. sqrt: by 1 - √p."),
     &S::shape);
  of(polynomial, section.add<Number>("power", &S::power, "", "Of polynomial: its exponent.", positive),
     &S::power);
  of(cosine_restarts,
     section.add<Int>(
         "cycles", &S::cycles, "", "Of cosine_restarts: how often the rate falls from lr to its minimum.",
         [](const std::int64_t& value) -> std::string {
           constexpr std::int64_t kMostCycles = 1'000'000;
           return value > kMostCycles ? fmt::format("must be at most {}", kMostCycles) : at_least_one(value);
         }),
     &S::cycles);
  Key& timescale = section.add<Int>(
      "timescale", &S::timescale, "steps", "Of inverse_sqrt: after this number of steps the rate is lr / √2.",
      [](const std::optional<std::int64_t>& value) { return at_least_one(value.value_or(1)); });
  timescale.default_words = "default the warm-up, or 10000 without one";
  of(inverse_sqrt, timescale, &S::timescale);
  Key& points = section.add<SchedulePoints>(
      "points", &S::points, "",
      "Of piecewise: [[step, factor on lr], …], with rising steps that count from 0. Between two points the "
      "rate is a line, so points at neighboring steps make a jump. Before the first and after the last one "
      "their factors hold. A warm-up multiplies them. [[0, 1], [800, 1], [801, 0.1]]: a tenth after step "
      "800.",
      check_points);
  of(piecewise, points, &S::points);
  require(points, {"optimizer.schedule.type"}, [](const RunConfig& c) -> std::string {
    return c.schedule.type == piecewise && c.schedule.points.empty()
               ? "piecewise needs points: give [[step, factor on lr], …]"
               : "";
  });
  of(plateau,
     section.add<Number>("factor", &S::factor, "", "Of plateau: what a fall multiplies the rate by.",
                         proper_fraction),
     &S::factor);
  of(plateau,
     section.add<Int>("patience", &S::patience, "validations",
                      "Of plateau: the rate falls when more than this number of validations in a row, every "
                      "train.validate_every steps, have not improved the held-out loss.",
                      not_negative),
     &S::patience);
  of(plateau,
     section.add<Number>(
         "threshold", &S::threshold, "",
         "Of plateau: a validation improves the loss if it is below (1 - threshold) · the best one.",
         proper_fraction),
     &S::threshold);
  of(plateau,
     section.add<Int>("cooldown", &S::cooldown, "validations",
                      "Of plateau: validations behind a fall that patience does not count.", not_negative),
     &S::cooldown);
}

}  // namespace

void add_optimizer_keys(std::vector<Key>& keys) {
  add_optimizer(keys);
  add_schedule(keys);
}

}  // namespace strata
