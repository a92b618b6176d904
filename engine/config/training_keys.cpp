#include <algorithm>
#include <limits>

#include "engine/config/section_keys.h"

namespace strata {
namespace {

using namespace value;  // NOLINT(google-build-using-namespace): the table below reads as a table

std::string fraction(const double& value) {
  return value < 0 || value > 1 ? "must be between 0 and 1" : "";
}
std::string proper_fraction(const double& value) {
  return value < 0 || value >= 1 ? "must be at least 0 and less than 1" : "";
}
std::string positive_fraction(const double& value) {
  return value <= 0 || value > 1 ? "must be greater than 0 and at most 1" : "";
}
std::string positive(const double& value) {
  return value <= 0 ? "must be greater than 0" : "";
}

void add_model(std::vector<Key>& keys) {
  using S = RunConfig::ModelSection;
  SectionKeys<S> section(keys, "model", &RunConfig::model);
  require(section.add<Path>(
              "path", &S::path, "",
              "A Hugging Face model folder: config.json with model.safetensors or its sharded index. "
              "Relative to the current directory, as every path of this file."),
          {"model.architecture"}, [](const RunConfig& c) -> std::string {
            if (c.model.path.empty() && c.model.architecture.empty()) {
              return "no model is given: set model.path to a folder, or model.architecture and model.config";
            }
            if (!c.model.path.empty() && !c.model.architecture.empty()) {
              return "give either model.path or model.architecture, not both";
            }
            return "";
          });
  section.add<Text>(
      "architecture", &S::architecture, "",
      "Instead of model.path: the model_type (gpt2, llama, mistral, qwen2, qwen3, olmo2, phi3, granite, "
      "gemma2, gemma3_text, mixtral, qwen3_moe) of a model with random weights by train.seed.");
  require(
      section.add<Json>("config", &S::config, "",
                        "Sizes and options of model.architecture, in the words of its config.json: "
                        "num_hidden_layers, n_embd, vocab_size, …. Keys left out have the defaults of the "
                        "transformers library."),
      {}, [](const RunConfig& c) -> std::string {
        return !c.model.config.empty() && c.model.architecture.empty()
                   ? "belongs to model.architecture, which is not given; a model.path has its own config.json"
                   : "";
      });
}

std::string check_tokenizer(const RunConfig& config) {
  if (config.data.tokenizer == Tokenizer::none || config.data.format == DataFormat::text) return "";
  if (config.data.tokenizer == Tokenizer::automatic && config.model.path.empty() &&
      config.data.tokenizer_path.empty())
    return "auto needs a tokenizer.json: set data.tokenizer_path to a folder that has one, or to such a file";
  std::vector<DataSource> named = sources_of(config.data);
  named.push_back({config.data.validation});
  for (const DataSource& source : named) {
    for (const std::string& path : source.path) {
      if (path.ends_with(".bin") || path.ends_with(".idx")) {
        return fmt::format("'{}' holds token ids, not text: set data.tokenizer to none", path);
      }
    }
  }
  return "";
}

std::string check_format(const RunConfig& config) {
  const bool has_ids = config.data.tokenizer == Tokenizer::none;
  switch (config.data.format) {
    case DataFormat::automatic:
      return "";
    case DataFormat::tokens:
      return has_ids ? "" : "tokens are read with data.tokenizer none";
    case DataFormat::records:
      return config.data.tokenizer == Tokenizer::automatic ? "" : "records are read with data.tokenizer auto";
    case DataFormat::text:
      return has_ids
                 ? "data.tokenizer none reads token ids: set it to auto or bytes, or data.format to tokens"
                 : "";
  }
  return "";
}

std::string check_fields(const RunConfig& config) {
  const bool has_records =
      config.data.tokenizer == Tokenizer::automatic && config.data.format != DataFormat::text;
  return config.data.fields.empty() || has_records ? ""
                                                   : "names the fields of records, which are read with "
                                                     "data.tokenizer auto, and not with data.format text";
}

void add_data(std::vector<Key>& keys) {
  using S = RunConfig::DataSection;
  SectionKeys<S> section(keys, "data", &RunConfig::data);
  require(section.add<PathList>("path", &S::path, "",
                                "Files to train on, as names or patterns (*, ?, [a-z], and ** for any depth "
                                "of folders), read in the "
                                "order of their names. Text, unless tokenizer is none: then .bin files of "
                                "token ids (nanoGPT, llm.c) "
                                "or Megatron's .bin with .idx."),
          {"data.sources"}, [](const RunConfig& c) -> std::string {
            if (!c.data.path.empty() && !c.data.sources.empty())
              return "give either data.path or data.sources, not both";
            return c.data.path.empty() && c.data.sources.empty()
                       ? "no data is given: set data.path to the files to train on"
                       : "";
          });
  section.add<DataSources>(
      "sources", &S::sources, "",
      "Instead of data.path: several sources, each with a path and a weight (1 if left out), such as [{path: "
      "'web/*.txt', weight: 0.7}, {path: 'code/*.txt', weight: 0.3}]. Every stretch of the run takes samples "
      "of "
      "each by its part of the weights' sum, to a millionth, and each goes through its own epochs.");
  section.add<PathList>(
      "validation", &S::validation, "",
      "Held-out files, as in data.path; a file named by both is not trained on. Left out: the last "
      "data.validation_fraction of data.path, or of each source, is held out.");
  section.add<Number>(
      "validation_fraction", &S::validation_fraction, "",
      "The part of data.path, or of each source, that is held out if data.validation is not given; "
      "at least one sequence unless 0.",
      proper_fraction);
  require(
      section.add<Word<Tokenizer>>("tokenizer", &S::tokenizer, "",
                                   "bytes: every byte of a text file is a token (ids 0 to 255), and a 0 ends "
                                   "each file. none: the files hold token ids. auto: texts become ids by the "
                                   "tokenizer.json of the model's folder, once, and are kept in data.cache; "
                                   "each file is a text or holds records (data.format), of which prompts and "
                                   "what others than the assistant say are not trained on."),
      {"data.path", "data.sources", "data.validation", "data.tokenizer_path"}, check_tokenizer);
  require(
      section.add<Word<DataFormat>>(
          "format", &S::format, "",
          "What the files hold. text: each file is a text, whatever it looks like. records: JSON objects, "
          "which tokenizer auto reads, with text; prompt and completion; messages; ShareGPT's "
          "conversations; or Alpaca's instruction, input and output. One stands in each line, or they "
          "are the file's array, or a list under one of its keys. tokens: token ids, whatever the "
          "files' names are. auto: what content and name say; tables and other data that are not read "
          "are refused."),
      {"data.tokenizer"}, check_format);
  require(
      section.add<FieldNames>(
          "fields", &S::fields, "",
          "What records call their fields, where it is not the name above: {messages: dialogue}, {prompt: "
          "question, completion: answer}, {text: body}, or {instruction: task, input: context, output: "
          "response}. What a record has besides the form that is named here is passed over."),
      {"data.tokenizer", "data.format"}, check_fields);
  section.add<Path>("tokenizer_path", &S::tokenizer_path, "",
                    "The folder of the tokenizer.json that tokenizer auto takes, or such a file. Left out: "
                    "model.path.");
  section.add<Word<BeginToken>>(
      "begin_token", &S::begin_token, "",
      "What texts and prompts begin with where tokens are a tokenizer's: in training, held-out data and "
      "samples, "
      "and in strata generate and evaluate of this run's checkpoints. auto: the tokens that tokenizer.json's "
      "post-processor puts before a text. always: those, or the bos_token of tokenizer_config.json if it "
      "puts "
      "none. never: none. Conversations begin as their chat template says.");
  section.add<Path>("cache", &S::cache, "",
                    "The folder where tokenizer auto keeps token ids, by what texts and tokenizer contain. "
                    "Left out: strata/tokens in $XDG_CACHE_HOME, or in ~/.cache.");
  section.add<Integer<std::int64_t>>(
      "token_bytes", &S::token_bytes, "bytes",
      "Width of a token id, 2, 4 or 8, in a .bin file that has no header to tell it.",
      [](const std::int64_t& value) -> std::string {
        return value == 2 || value == 4 || value == 8 ? "" : "must be 2, 4 or 8";
      });
  section.add<Integer<std::int64_t>>("sequence_length", &S::sequence_length, "tokens",
                                     "Length of a training sequence.", at_least_one);
  section.add<Boolean>(
      "shuffle", &S::shuffle, "",
      "true: every epoch takes the sequences in a random order of its own, by train.seed. false: in the "
      "order of the files.");
  section.add<Word<DataPacking>>(
      "packing", &S::packing, "",
      "What several documents in a sequence are to one another. none: one text, of which attention sees all "
      "that stands before. documents: nothing; attention stays within each, positions begin anew with it, "
      "and its first token is nobody's target. whole: likewise, and documents are put together so that none "
      "is cut which is not longer than a sequence, and little room is left; nothing is trained on there. A "
      "document is a text: a file, an object of a .jsonl or .json, or what Megatron's .idx says.");
}

std::string check_batch(const RunConfig& config) {
  const auto& train = config.train;
  if (train.microbatch < 1 || config.parallel.data < 1) return "";  // reported at their own keys
  if (train.batch % train.microbatch == 0 && train.batch / train.microbatch % config.parallel.data == 0)
    return "";
  const std::int64_t ranks = config.parallel.data;
  std::string what = fmt::format("{} sequences do not divide into microbatches of {} on {} data rank{}",
                                 train.batch, train.microbatch, ranks, ranks == 1 ? "" : "s");
  constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max() / 2;
  if (train.batch > kMost || train.microbatch > kMost / ranks) return what;
  const std::int64_t each = train.microbatch * ranks, below = train.batch / each * each;
  return what + (below > 0 ? fmt::format("; {} or {} would fit", below, below + each)
                           : fmt::format("; {} would fit", each));
}

void add_train(std::vector<Key>& keys) {
  using S = RunConfig::TrainSection;
  using Int = Integer<std::int64_t>;
  SectionKeys<S> section(keys, "train", &RunConfig::train);
  section.add<Int>("steps", &S::steps, "steps", "Optimizer steps of the whole run, over all its resumptions.",
                   at_least_one);
  require(
      section.add<Int>("batch", &S::batch, "sequences",
                       "Sequences per optimizer step, over all ranks. Gradient accumulation follows: batch / "
                       "(microbatch × data ranks) microbatches.",
                       at_least_one),
      {"train.microbatch", "parallel.data"}, check_batch);
  section.add<Int>("microbatch", &S::microbatch, "sequences", "Sequences that pass the model at once.",
                   at_least_one);
  section.add<PrecisionOrAuto>(
      "precision", &S::precision, "",
      "Type of weights, activations and products on the device. Sums, norms and loss are fp32 either "
      "way, and the optimizer's state unless optimizer.master or moments say otherwise. fp16 scales the loss "
      "by itself (train.loss_scale). fp8: as bf16, but linear layers of blocks round what they multiply to "
      "e4m3, each matrix with a scale from its largest number, in all three products. auto: that of the "
      "checkpoint that the run goes on from; for a new run fp32 on CPUs if one of them has no bf16 "
      "instructions, else bf16. Where another key needs bf16, bf16.");
  section.add<Integer<std::uint64_t>>("seed", &S::seed, "",
                                      "Determines initial weights and the order of the data.");
  section.add<Word<Recompute>>(
      "recompute", &S::recompute, "",
      "full: the backward pass computes a block's activations again from its input. none: they are saved. "
      "auto: tensor by tensor, those are saved that spare the most computing for their bytes, as many as "
      "memory.device holds without moving anything more, or more if a step gets shorter by it. Results do "
      "not depend on it.");
  section.add<PatternList>(
      "freeze", &S::freeze, "",
      "Patterns (*, ?, [a-z]; * stands for dots, too) of the names of tensors that are not trained, as the "
      "Hugging Face file has them: ['model.embed_tokens.*', '*.mlp.*']. Such a tensor is stored once, in "
      "train.precision; it has no gradient and no optimizer state.");
  section.add<Boolean>(
      "dropout", &S::dropout, "",
      "true: the dropout that the model's config.json asks for, of embeddings and of residual branches "
      "(embd_pdrop, resid_pdrop). What is dropped follows from train.seed and from where it stands in the "
      "run "
      "alone. That of attention's probabilities is left out. false: none. Held-out losses are without it.");
  section.add<Int>("validate_every", &S::validate_every, "steps",
                   "Steps between measurements of the held-out loss; 0: never.", not_negative);
  require(section.add<Int>(
              "validation_batches", &S::validation_batches, "microbatches",
              "Held-out microbatches per measurement, the same ones each time; fewer if the held-out "
              "data has fewer.",
              at_least_one),
          {"train.validate_every", "data.validation_fraction"}, [](const RunConfig& c) -> std::string {
            return c.train.validate_every > 0 && c.data.validation.empty() && c.data.validation_fraction == 0
                       ? "train.validate_every needs held-out data: set data.validation or "
                         "data.validation_fraction"
                       : "";
          });
  section.add<Int>(
      "threads", &S::threads, "",
      "Threads that compute; 0: one per core, but two cores fewer with a GPU. Results do not depend on it.",
      [](const std::int64_t& value) -> std::string {
        constexpr std::int64_t kMostThreads = 4096;
        return value > kMostThreads ? fmt::format("must be at most {}", kMostThreads) : not_negative(value);
      });
  section.add<Int>("watchdog", &S::watchdog, "seconds",
                   "How long a run waits for a drive, a file server, a device or another rank that does not "
                   "advance at all, before it ends with a sentence and status 1. What computes, or advances "
                   "however slowly, is never ended.",
                   at_least_one);
  section.add<Int>(
      "max_skipped_steps", &S::max_skipped_steps, "steps",
      "So many steps in a row without an update, since their gradients were not finite, end the run with a "
      "sentence and status 1.",
      at_least_one);
}

/// Loss scaling must not look as if it did something when it does nothing.
std::string check_loss_scale(const RunConfig& config) {
  using S = RunConfig::TrainSection;
  const S defaults;
  const auto& t = config.train;
  const bool given =
      std::tie(t.loss_scale_initial, t.loss_scale_growth, t.loss_scale_backoff, t.loss_scale_interval) !=
      std::tie(defaults.loss_scale_initial, defaults.loss_scale_growth, defaults.loss_scale_backoff,
               defaults.loss_scale_interval);
  return given && t.precision != DType::fp16 ? "the loss is scaled with train.precision fp16 only" : "";
}

void add_loss_scale(std::vector<Key>& keys) {
  using S = RunConfig::TrainSection;
  SectionKeys<S> section(keys, "train.loss_scale", &RunConfig::train);
  const auto scaled = [](Key& key) { require(key, {"train.precision"}, check_loss_scale); };
  scaled(section.add<Number>("initial", &S::loss_scale_initial, "",
                             "What the loss is multiplied by at first.", positive));
  scaled(section.add<Number>(
      "growth", &S::loss_scale_growth, "",
      "Factor on the scale after `interval` steps in a row with finite gradients.",
      [](const double& value) -> std::string { return value < 1 ? "must be at least 1" : ""; }));
  scaled(section.add<Number>(
      "backoff", &S::loss_scale_backoff, "",
      "Factor on the scale after a step whose gradients were not finite; that step updates nothing.",
      [](const double& value) -> std::string {
        return value <= 0 || value >= 1 ? "must be between 0 and 1" : "";
      }));
  scaled(section.add<Integer<std::int64_t>>("interval", &S::loss_scale_interval, "steps",
                                            "Steps with finite gradients before the scale grows.",
                                            at_least_one));
}

std::string check_samples(const RunConfig& config) {
  const RunConfig::SamplesSection& samples = config.samples;
  constexpr std::size_t kMostPrompts = 256;
  if (samples.prompts.size() > kMostPrompts)
    return fmt::format("{} prompts are more than the {} that a run goes on with", samples.prompts.size(),
                       kMostPrompts);
  if (samples.prompts.empty() && samples.every > 0)
    return "there is nothing to go on with: give train.samples.prompts";
  if (!samples.prompts.empty() && config.data.tokenizer == Tokenizer::none &&
      config.data.tokenizer_path.empty() && config.model.path.empty())
    return "prompts are text, and data.tokenizer none says nothing of a tokenizer: set "
           "data.tokenizer_path to a folder that has a tokenizer.json";
  return "";
}

void add_samples(std::vector<Key>& keys) {
  using S = RunConfig::SamplesSection;
  using Int = Integer<std::int64_t>;
  SectionKeys<S> section(keys, "train.samples", &RunConfig::samples);
  require(section.add<TextList>(
              "prompts", &S::prompts, "",
              "Texts that the model goes on with before the first step, between steps and after the "
              "last, with the weights that it has then. Tokens are those of data.tokenizer; with none, "
              "those of the tokenizer.json in data.tokenizer_path or model.path. What is trained does "
              "not depend on it, unless parallel.schedule is a pipedream, whose pipeline drains for it."),
          {"train.samples.every", "data.tokenizer"}, check_samples);
  section.add<Int>("every", &S::every, "steps",
                   "Steps from one time that samples are taken to the next; 0: only before the first and "
                   "after the last.",
                   not_negative);
  section.add<Int>("max_length", &S::max_length, "tokens",
                   "Where a sample ends at the latest, its prompt included; never beyond "
                   "data.sequence_length. Every token is a forward pass over all samples.",
                   at_least_one);
  section.add<Number>("temperature", &S::temperature, "",
                      "What logits are divided by before a token is drawn, by train.seed; 0: the likeliest.",
                      not_below_zero);
  section.add<Number>(
      "top_p", &S::top_p, "",
      "Of the likeliest tokens the fewest whose probabilities reach it are drawn from; 1: all.",
      positive_fraction);
  section.add<Int>("top_k", &S::top_k, "", "At most so many of the likeliest tokens are drawn from; 0: all.",
                   not_negative);
  section.add<Boolean>("chat", &S::chat, "",
                       "true: each prompt is what a user says, and the model's chat template makes the text "
                       "that is gone on with.");
}

void add_adapter(std::vector<Key>& keys) {
  using S = RunConfig::AdapterSection;
  SectionKeys<S> section(keys, "adapter", &RunConfig::adapter);
  require(
      section.add<Word<AdapterType>>(
          "type", &S::type, "",
          "lora: low-rank adapters (Hu et al. 2021): layers of the blocks that targets names get x · Aᵀ "
          "· Bᵀ · alpha / rank added to what they make, A and B are trained, and all else is frozen. "
          "rslora: likewise with alpha / sqrt(rank). dora: as lora, and each row of the sum of "
          "weight and update is made as long as a trained magnitude says (Liu et al. 2024). none: the model "
          "itself is trained."),
      {"train.freeze"}, [](const RunConfig& c) -> std::string {
        return c.adapter.type != AdapterType::none && !c.train.freeze.empty()
                   ? "with adapters all but them is frozen; take train.freeze out"
                   : "";
      });
  /// A value that only adapters have.
  const auto of_adapters = [](Key& key, auto S::*field) {
    require(key, {"adapter.type"}, [field](const RunConfig& c) -> std::string {
      if (c.adapter.type != AdapterType::none || c.adapter.*field == S().*field) return "";
      return "belongs to adapter.type lora, rslora or dora, and this run has none";
    });
  };
  of_adapters(section.add<Integer<std::int64_t>>("rank", &S::rank, "", "Rows of A and columns of B.",
                                                 [](const std::int64_t& value) -> std::string {
                                                   constexpr std::int64_t kMostRank = 65536;
                                                   return value > kMostRank
                                                              ? fmt::format("must be at most {}", kMostRank)
                                                              : at_least_one(value);
                                                 }),
              &S::rank);
  of_adapters(
      section.add<Number>("alpha", &S::alpha, "", "What the factor on adapters is made of.", positive),
      &S::alpha);
  of_adapters(
      section.add<PatternList>(
          "targets", &S::targets, "",
          "Layers with adapters: their names or ends of them, as PEFT's target_modules, such as [q_proj, "
          "v_proj], or patterns of them; all-linear: every linear layer of the blocks, but not routers and "
          "experts.",
          [](const std::vector<std::string>& targets) -> std::string {
            return targets.empty() ? "must name at least one layer" : "";
          }),
      &S::targets);
  auto& dropout = section.add<Number>(
      "dropout", &S::dropout, "",
      "Probability with which an element of what A reads is left out, for each layer by "
      "itself (PEFT's lora_dropout); the others are divided by 1 - dropout. Not with dora.",
      [](const double& value) { return proper_fraction(static_cast<float>(value)); });
  of_adapters(dropout, &S::dropout);
  // PEFT's DoRA then drops what a part of the weight's own product reads, too.
  require(dropout, {"adapter.type"}, [](const RunConfig& c) -> std::string {
    return c.adapter.type == AdapterType::dora && c.adapter.dropout > 0
               ? "must be 0 with adapter.type dora: choose lora or rslora, or no dropout"
               : "";
  });
  of_adapters(section.add<Path>("path", &S::path, "",
                                "A folder of PEFT with adapters to begin with; left out: random A, B of "
                                "zeros, and the weights' norms as magnitudes."),
              &S::path);
}

void add_optimizer(std::vector<Key>& keys) {
  using S = RunConfig::OptimizerSection;
  SectionKeys<S> section(keys, "optimizer", &RunConfig::optimizer);
  /// Says where a key belongs that the run's type does not have, if it is not what it is when left out.
  const auto of = [](OptimizerType type, auto S::*field) {
    return [type, field](const RunConfig& c) -> std::string {
      if (c.optimizer.type == type || c.optimizer.*field == S().*field) return "";
      return fmt::format("belongs to optimizer.type {}, and this run has {}", word_of(type),
                         word_of(c.optimizer.type));
    };
  };
  section.add<Word<OptimizerType>>(
      "type", &S::type, "",
      "adamw: Adam with decoupled weight decay. sgd: stochastic gradient descent, which keeps one array of "
      "optimizer state with momentum and none without. As torch.optim.AdamW and torch.optim.SGD.");
  section.add<Number>("lr", &S::learning_rate, "", "Learning rate after the warm-up.", not_below_zero);
  require(section.add<NumberPair>(
              "betas", &S::betas, "", "Of adamw: decay rates of the mean of gradients and of their squares.",
              [](const std::array<double, 2>& betas) -> std::string {
                return std::ranges::all_of(betas, [](double b) { return b >= 0 && b < 1; })
                           ? ""
                           : "both must be at least 0 and less than 1";
              }),
          {"optimizer.type"}, of(OptimizerType::adamw, &S::betas));
  require(section.add<Number>("epsilon", &S::epsilon, "", "Of adamw: added to the root of the mean square.",
                              positive),
          {"optimizer.type"}, of(OptimizerType::adamw, &S::epsilon));
  require(section.add<Number>("momentum", &S::momentum, "",
                              "Of sgd: what is left of the momentum buffer in each step, which then adds the "
                              "gradient. 0: there is no buffer, and no optimizer state.",
                              proper_fraction),
          {"optimizer.type"}, of(OptimizerType::sgd, &S::momentum));
  section.add<Number>(
      "weight_decay", &S::weight_decay, "",
      "Decay per step, times the learning rate. sgd adds it to the gradient, so that momentum "
      "has it too.",
      not_below_zero);
  section.add<Word<Decay>>("decay", &S::decay, "",
                           "What weight_decay applies to: matrices only (not norms and biases), or all.");
  section.add<TensorGroups>(
      "groups", &S::groups, "",
      "Groups of tensors that are updated in another way: [{tensors: '*.bias', weight_decay: 0}, {tensors: "
      "['model.embed_tokens.*', 'lm_head.*'], lr_factor: 0.1}]. tensors: patterns of names as in "
      "train.freeze. lr_factor: what the learning rate of the schedule is multiplied by for them. "
      "weight_decay: theirs, whatever optimizer.weight_decay and decay say. Of several groups that fit a "
      "tensor, the last that gives lr_factor decides on that, and the last that gives weight_decay on "
      "that. A checkpoint does not depend on groups: a run may go on with others.");
  section.add<Number>(
      "clip_norm", &S::clip_norm, "",
      "Largest global norm of the gradient; 0: no clipping, and updates need not wait for the "
      "backward pass to end.",
      not_below_zero);
  require(
      section.add<Word<MasterFormat>>(
          "master", &S::master, "",
          "How the exact weights are kept. fp32: beside the parameters. split: 16 bits of them beside the "
          "parameters, which are the high half, so 2 bytes per parameter less; with train.precision bf16 "
          "or fp8 only. Where a weight lies halfway between two bf16 numbers its parameter is then rounded "
          "away from zero instead of to even."),
      {"train.precision"}, [](const RunConfig& c) -> std::string {
        return c.optimizer.master == MasterFormat::split &&
                       c.train.precision.value_or(DType::bf16).storage != DType::bf16
                   ? "split needs train.precision bf16 or fp8, whose parameters are the high halves of the "
                     "fp32 masters; use fp32 with any other precision"
                   : "";
      });
  require(section.add<Word<MomentFormat>>(
              "moments", &S::moments, "",
              "How the means of gradients and of their squares are kept, or the momentum buffer. bf16: "
              "rounded at "
              "random by train.seed, up or down with the mean right, so 2 bytes per parameter less for each; "
              "results are near those of fp32, not equal."),
          {"optimizer.type", "optimizer.momentum"}, [](const RunConfig& c) -> std::string {
            const bool keeps_any = c.optimizer.type == OptimizerType::adamw || c.optimizer.momentum > 0;
            return keeps_any || c.optimizer.moments == S().moments
                       ? ""
                       : "sgd without optimizer.momentum keeps no moments; leave it out, or give a momentum";
          });
}

void add_schedule(std::vector<Key>& keys) {
  using S = RunConfig::OptimizerSection;
  SectionKeys<S> section(keys, "optimizer.schedule", &RunConfig::optimizer);
  section.add<Word<ScheduleKind>>(
      "type", &S::schedule, "", "Course of the learning rate from the end of the warm-up to the last step.");
  require(section.add<Integer<std::int64_t>>(
              "warmup", &S::warmup, "steps",
              "Steps in which the learning rate rises linearly to optimizer.lr: step s, counted from 0, has "
              "lr · (s + 1) / (warmup + 1).",
              not_negative),
          {"train.steps"}, [](const RunConfig& c) -> std::string {
            if (c.optimizer.warmup <= c.train.steps) return "";
            return fmt::format("{} steps of warm-up are more than the run's {} (train.steps)",
                               c.optimizer.warmup, c.train.steps);
          });
  section.add<Number>("minimum_ratio", &S::minimum_ratio, "",
                      "The last step of linear and cosine has this part r of optimizer.lr. After the "
                      "warm-up, with p from 0 in its first "
                      "step to 1 in the last one, linear has lr · (r + (1 - r) · (1 - p)) and cosine lr · (r "
                      "+ (1 - r) · (1 + cos πp) / 2).",
                      fraction);
}

}  // namespace

void add_training_keys(std::vector<Key>& keys) {
  add_model(keys);
  add_data(keys);
  add_train(keys);
  add_loss_scale(keys);
  add_samples(keys);
  add_adapter(keys);
  add_optimizer(keys);
  add_schedule(keys);
}

}  // namespace strata
