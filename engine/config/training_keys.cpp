#include <algorithm>
#include <limits>

#include "engine/config/run_config.h"
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

/// A check that a key which some of the section's types have was given to none of the others.
template <typename S, typename T>
auto belongs_to(S RunConfig::*section, std::string_view key_of_type, std::vector<T> types, auto S::*field) {
  return [=](const RunConfig& c) -> std::string {
    const S& given = c.*section;
    if (std::ranges::find(types, given.type) != types.end() || given.*field == S().*field) return "";
    std::vector<std::string_view> words;
    words.reserve(types.size());
    for (const T type : types) words.push_back(word_of(type));
    return fmt::format("belongs to {} {}, not {}", key_of_type, fmt::join(words, " or "),
                       word_of(given.type));
  };
}

void add_model(std::vector<Key>& keys) {
  using S = ModelSection;
  SectionKeys<S> section(keys, "model", &RunConfig::model);
  require(section.add<Path>("path", &S::path, "",
                            "A Hugging Face folder: config.json with model.safetensors or its sharded index. "
                            "It is relative to the current directory, as every path in a run file."),
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
      "In place of model.path: the model_type of a model with random weights by train.seed. It is gpt2, "
      "llama, mistral, qwen2, qwen3, olmo2, phi3, granite, gemma2, gemma3_text, mixtral, qwen3_moe or "
      "starcoder2.");
  require(
      section.add<Json>(
          "config", &S::config, "",
          "Sizes and options of model.architecture, in the words of its config.json: num_hidden_layers, "
          "n_embd, vocab_size, …. Keys that are left out have the defaults of transformers."),
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
  using S = DataSection;
  SectionKeys<S> section(keys, "data", &RunConfig::data);
  require(
      section.add<FilePatterns>(
          "path", &S::path, "",
          "Files to train on: names or patterns (*, ?, [a-z], and ** for any depth of folders). They are "
          "read in the order of their names. With tokenizer none they are .bin files of token ids (nanoGPT, "
          "llm.c), or Megatron's .bin with .idx. With bytes they are texts, with auto texts or records."),
      {"data.sources"}, [](const RunConfig& c) -> std::string {
        if (!c.data.path.empty() && !c.data.sources.empty())
          return "give either data.path or data.sources, not both";
        return c.data.path.empty() && c.data.sources.empty()
                   ? "no data is given: set data.path to the files to train on"
                   : "";
      });
  section.add<DataSources>(
      "sources", &S::sources, "",
      "In place of data.path: several sources, each with a path and a weight (1 if left out): [{path: "
      "'web/*.txt', weight: 0.7}, {path: 'code/*.txt', weight: 0.3}]. Every stretch of the run takes samples "
      "of each source in proportion to its weight, to a millionth. Each source has its own epochs.");
  section.add<FilePatterns>(
      "validation", &S::validation, "",
      "Held-out files, as in data.path. A file that both name is not trained on. Left out: "
      "the last data.validation_fraction of data.path, or of each source, is held out.");
  section.add<Number>("validation_fraction", &S::validation_fraction, "",
                      "The part of data.path, or of each source, that is held out if data.validation is not "
                      "given. It is at least one sequence, unless it is 0.",
                      proper_fraction);
  require(section.add<Word<Tokenizer>>(
              "tokenizer", &S::tokenizer, "",
              "bytes: every byte of a text is a token (0 to 255), and a 0 ends each file. none: the files "
              "hold token ids. auto: the tokenizer.json of the model's folder encodes texts once, and "
              "data.cache keeps the ids. With auto a file holds a text or records (data.format). Prompts, "
              "and messages that are not the assistant's, are then not trained on."),
          {"data.path", "data.sources", "data.validation", "data.tokenizer_path"}, check_tokenizer);
  require(section.add<Word<DataFormat>>(
              "format", &S::format, "",
              "What the files hold. text: each file is a text, whatever it looks like. records: JSON "
              "objects, for tokenizer auto. Their forms are text; prompt and completion; messages; "
              "ShareGPT's conversations; Alpaca's instruction, input and output. Records stand one in a "
              "line, in an array, or in a list under one key. tokens: token ids, whatever the file's name "
              "is. auto: content and name decide; tables and other foreign data are refused."),
          {"data.tokenizer"}, check_format);
  require(
      section.add<FieldNames>("fields", &S::fields, "",
                              "What records call their fields, if other than above: {messages: dialogue}, "
                              "{prompt: question, completion: answer}, {text: body}, or {instruction: task, "
                              "input: context, output: response}. Only the form that is named here counts."),
      {"data.tokenizer", "data.format"}, check_fields);
  section.add<Path>(
      "tokenizer_path", &S::tokenizer_path, "",
      "The folder with the tokenizer.json for tokenizer auto, or the file itself. Left out: model.path.");
  section.add<Word<BeginToken>>(
      "begin_token", &S::begin_token, "",
      "What texts and prompts begin with, if a tokenizer encodes them. It holds for training, held-out data, "
      "samples, and strata generate and evaluate of this run's checkpoints. auto: the tokens that the "
      "post-processor of tokenizer.json puts before a text. always: the same tokens, or if there are none, "
      "the bos_token of tokenizer_config.json. never: none. Conversations begin as their chat template "
      "says.");
  section.add<Path>("cache", &S::cache, "",
                    "The folder where tokenizer auto keeps token ids, in a folder for each set of texts and "
                    "tokenizer. Left out: strata/tokens in $XDG_CACHE_HOME, or in ~/.cache.");
  section.add<Integer<std::int64_t>>("token_bytes", &S::token_bytes, "bytes",
                                     "Width of a token id (2, 4 or 8) in a .bin file without a header.",
                                     [](const std::int64_t& value) -> std::string {
                                       return value == 2 || value == 4 || value == 8 ? ""
                                                                                     : "must be 2, 4 or 8";
                                     });
  section.add<Integer<std::int64_t>>("sequence_length", &S::sequence_length, "tokens",
                                     "Length of a training sequence.", at_least_one);
  section.add<Boolean>("shuffle", &S::shuffle, "",
                       "true: every epoch visits the sequences in a new random order, by train.seed. false: "
                       "the order of the files.");
  section.add<Word<DataPacking>>(
      "packing", &S::packing, "",
      "How documents share a sequence. none: as one text; attention sees all earlier tokens of the sequence. "
      "documents: attention stays within a document, positions begin anew with it, and its first token is no "
      "target. whole: as documents, and no document is cut that fits into a sequence. Documents are put "
      "together so that little room is left, and nothing is trained on there. A document is a text, a "
      "record, or an entry of Megatron's .idx.");
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
  using S = TrainSection;
  using Int = Integer<std::int64_t>;
  SectionKeys<S> section(keys, "train", &RunConfig::train);
  Key& steps = section.add<Int>("steps", &S::steps, "steps",
                                "Optimizer steps of the whole run, over all resumes.", at_least_one);
  steps.get = [get = steps.get](const RunConfig& c) { return c.train.epochs ? "" : get(c); };
  section.add<Number>(
      "epochs", &S::epochs, "epochs",
      "Passes over the training sequences, in place of train.steps: 3, or 0.5. The last step "
      "may begin another pass. Of train.steps and train.epochs, --set overrides the run file.",
      [](const std::optional<double>& value) { return value ? positive(*value) : ""; });
  require(section.add<Int>("batch", &S::batch, "sequences",
                           "Sequences per optimizer step, over all ranks. Gradient accumulation follows: "
                           "batch / (microbatch × data ranks) microbatches.",
                           at_least_one),
          {"train.microbatch", "parallel.data"}, check_batch);
  section.add<Int>("microbatch", &S::microbatch, "sequences", "Sequences that pass the model at once.",
                   at_least_one);
  section.add<PrecisionOrAuto>(
      "precision", &S::precision, "",
      "Type of weights, activations and products on the device. Sums, norms and loss are fp32 in each case. "
      "Optimizer state is fp32, unless optimizer.master or moments differ. fp16 scales the loss by itself "
      "(train.loss_scale). fp8: as bf16, but linear layers of blocks round the factors of their three "
      "products to e4m3. Each factor has a scale from its largest number. auto: the precision of the "
      "checkpoint from which the run resumes. A new run takes fp32 on CPUs without bf16 instructions, else "
      "bf16. A key that needs bf16 decides for bf16.");
  section.add<Integer<std::uint64_t>>("seed", &S::seed, "",
                                      "Determines initial weights and the order of the data.");
  section.add<Word<Recompute>>(
      "recompute", &S::recompute, "",
      "Activation checkpointing. full: the backward pass computes a block's activations again from its "
      "input. none: all are saved. auto: tensor by tensor, those that save the most computing for their "
      "bytes are saved. As many are saved as memory.device holds without moving more, or more if a step gets "
      "shorter by it. Results do not depend on this key.");
  section.add<PatternList>(
      "freeze", &S::freeze, "",
      "Patterns (*, ?, [a-z]; * matches dots, too) of names of tensors that are not trained, as in the "
      "Hugging Face file: ['model.embed_tokens.*', '*.mlp.*']. Such a tensor is stored once, in "
      "train.precision, without gradient and optimizer state.");
  section.add<Boolean>("dropout", &S::dropout, "",
                       "true: applies the dropout that the model's config.json asks for, of embeddings and "
                       "of residual branches (embd_pdrop, resid_pdrop). Masks are computed from train.seed "
                       "and the position in the run. Dropout of attention's probabilities is never applied. "
                       "false: none. Held-out losses are without dropout.");
  section.add<Int>("validate_every", &S::validate_every, "steps",
                   "Steps between measurements of the held-out loss; 0: never.", not_negative);
  require(section.add<Int>(
              "validation_batches", &S::validation_batches, "microbatches",
              "Held-out microbatches per measurement, the same ones each time; fewer if there are fewer.",
              at_least_one),
          {"train.validate_every", "data.validation_fraction"}, [](const RunConfig& c) -> std::string {
            return c.train.validate_every > 0 && c.data.validation.empty() && c.data.validation_fraction == 0
                       ? "train.validate_every needs held-out data: set data.validation or "
                         "data.validation_fraction"
                       : "";
          });
  section.add<Int>("threads", &S::threads, "",
                   "Threads that compute; 0: one per core, but two cores fewer with a GPU. Results do not "
                   "depend on this key.",
                   [](const std::int64_t& value) -> std::string {
                     constexpr std::int64_t kMostThreads = 4096;
                     return value > kMostThreads ? fmt::format("must be at most {}", kMostThreads)
                                                 : not_negative(value);
                   });
  section.add<Int>(
      "watchdog", &S::watchdog, "seconds",
      "How long a run waits for a drive, a file server, a device or another rank without any progress. Then "
      "the run ends with a sentence and status 1. Work that progresses, however slowly, is never ended.",
      at_least_one);
  section.add<Int>("max_skipped_steps", &S::max_skipped_steps, "steps",
                   "A run ends with a sentence and status 1 after this number of steps in a row without an "
                   "update. A step makes no update if its gradients are not finite.",
                   at_least_one);
}

/// Loss scaling must not look as if it did something when it does nothing.
std::string check_loss_scale(const RunConfig& config) {
  using S = TrainSection;
  const S defaults;
  const auto& t = config.train;
  const bool given =
      std::tie(t.loss_scale_initial, t.loss_scale_growth, t.loss_scale_backoff, t.loss_scale_interval) !=
      std::tie(defaults.loss_scale_initial, defaults.loss_scale_growth, defaults.loss_scale_backoff,
               defaults.loss_scale_interval);
  return given && t.precision != DType::fp16 ? "the loss is scaled with train.precision fp16 only" : "";
}

void add_loss_scale(std::vector<Key>& keys) {
  using S = TrainSection;
  SectionKeys<S> section(keys, "train.loss_scale", &RunConfig::train);
  const auto scaled = [](Key& key) { require(key, {"train.precision"}, check_loss_scale); };
  scaled(section.add<Number>("initial", &S::loss_scale_initial, "", "Factor on the loss in the first step.",
                             positive));
  scaled(section.add<Number>(
      "growth", &S::loss_scale_growth, "",
      "Factor on the scale after `interval` steps in a row with finite gradients.",
      [](const double& value) -> std::string { return value < 1 ? "must be at least 1" : ""; }));
  scaled(section.add<Number>(
      "backoff", &S::loss_scale_backoff, "",
      "Factor on the scale after a step whose gradients were not finite. Such a step makes no update.",
      [](const double& value) -> std::string {
        return value <= 0 || value >= 1 ? "must be between 0 and 1" : "";
      }));
  scaled(section.add<Integer<std::int64_t>>("interval", &S::loss_scale_interval, "steps",
                                            "Steps with finite gradients before the scale grows.",
                                            at_least_one));
}

std::string check_samples(const RunConfig& config) {
  const SamplesSection& samples = config.samples;
  constexpr std::size_t kMostPrompts = 256;
  if (samples.prompts.size() > kMostPrompts)
    return fmt::format("{} prompts are more than the {} that a run continues", samples.prompts.size(),
                       kMostPrompts);
  if (samples.prompts.empty() && samples.every > 0)
    return "there is nothing to continue: give train.samples.prompts";
  if (!samples.prompts.empty() && config.data.tokenizer == Tokenizer::none &&
      config.data.tokenizer_path.empty() && config.model.path.empty())
    return "prompts are text, and data.tokenizer none says nothing of a tokenizer: set "
           "data.tokenizer_path to a folder that has a tokenizer.json";
  return "";
}

void add_samples(std::vector<Key>& keys) {
  using S = SamplesSection;
  using Int = Integer<std::int64_t>;
  SectionKeys<S> section(keys, "train.samples", &RunConfig::samples);
  require(section.add<TextList>(
              "prompts", &S::prompts, "",
              "Texts that the model continues before the first step, between steps and after the last. "
              "Tokens are those of data.tokenizer. With none they are those of the tokenizer.json in "
              "data.tokenizer_path or model.path. Training does not depend on samples, unless "
              "parallel.schedule is pipedream or pipedream_2bw: their pipeline drains for samples."),
          {"train.samples.every", "data.tokenizer"}, check_samples);
  section.add<Int>("every", &S::every, "steps",
                   "Steps between samples; 0: only before the first step and after the last.", not_negative);
  section.add<Int>("max_length", &S::max_length, "tokens",
                   "The most tokens of a sample, with its prompt, and never more than data.sequence_length. "
                   "Every token is a forward pass over all samples.",
                   at_least_one);
  section.add<Number>("temperature", &S::temperature, "",
                      "Divides logits before a token is drawn, by train.seed; 0: the likeliest token.",
                      not_below_zero);
  section.add<Number>(
      "top_p", &S::top_p, "",
      "Draws from the fewest likeliest tokens whose probabilities reach this number; 1: from all.",
      positive_fraction);
  section.add<Int>("top_k", &S::top_k, "",
                   "Draws from at most this number of the likeliest tokens; 0: from all.", not_negative);
  section.add<Boolean>("chat", &S::chat, "",
                       "true: each prompt is a message of a user, written by the model's chat template.");
}

std::string rank_of_adapters(const std::int64_t& value) {
  constexpr std::int64_t kMostRank = 65536;
  return value > kMostRank ? fmt::format("must be at most {}", kMostRank) : at_least_one(value);
}

/// What is wrong with the first value that something is wrong with.
template <typename T, ValueCheck<T> check>
std::string each_value(const ValuesByPattern<T>& values) {
  for (const auto& [pattern, value] : values)
    if (std::string problem = check(value); !problem.empty()) return problem;
  return "";
}

void add_adapter(std::vector<Key>& keys) {
  using S = AdapterSection;
  SectionKeys<S> section(keys, "adapter", &RunConfig::adapter);
  require(section.add<Word<AdapterType>>(
              "type", &S::type, "",
              "lora: low-rank adapters (Hu et al. 2021). Layers that targets names get x · Aᵀ · Bᵀ · alpha / "
              "rank added to their output. A and B are trained, and all else is frozen. rslora: with alpha / "
              "sqrt(rank) as the factor. dora: as lora, and each row of the sum of weight and update is "
              "scaled to a trained magnitude (Liu et al. 2024). none: the model itself is trained."),
          {"train.freeze"}, [](const RunConfig& c) -> std::string {
            return c.adapter.type != AdapterType::none && !c.train.freeze.empty()
                       ? "with adapters all but them is frozen; take train.freeze out"
                       : "";
          });
  const auto of_adapters = [](Key& key, auto S::*field) {
    using enum AdapterType;
    require(key, {"adapter.type"},
            belongs_to<S, AdapterType>(&RunConfig::adapter, "adapter.type", {lora, rslora, dora}, field));
  };
  of_adapters(section.add<Integer<std::int64_t>>("rank", &S::rank, "", "Rows of A and columns of B.",
                                                 rank_of_adapters),
              &S::rank);
  of_adapters(section.add<Number>("alpha", &S::alpha, "", "Numerator of the factor on adapters.", positive),
              &S::alpha);
  of_adapters(
      section.add<ByPattern<Integer<std::int64_t>>>(
          "rank_pattern", &S::rank_pattern, "",
          "Ranks of layers that have another rank, as in PEFT's rank_pattern, such as {q_proj: 8, "
          "'layers\\.[0-3]\\..*': 4}. A pattern is a regular expression of a layer's name, or of the name's "
          "end behind a dot. The first pattern that matches counts.",
          each_value<std::int64_t, rank_of_adapters>),
      &S::rank_pattern);
  of_adapters(section.add<ByPattern<Number>>(
                  "alpha_pattern", &S::alpha_pattern, "",
                  "Alphas of layers that have another alpha, by patterns as in rank_pattern.",
                  each_value<double, positive>),
              &S::alpha_pattern);
  of_adapters(
      section.add<PatternList>(
          "targets", &S::targets, "",
          "Layers with adapters: names, ends of names as in PEFT's target_modules, such as [q_proj, v_proj], "
          "or patterns. all-linear: every linear layer of the blocks, except routers and experts.",
          [](const std::vector<std::string>& targets) -> std::string {
            return targets.empty() ? "must name at least one layer" : "";
          }),
      &S::targets);
  auto& dropout = section.add<Number>(
      "dropout", &S::dropout, "",
      "Probability with which an element of A's input is dropped, in each layer by itself (PEFT's "
      "lora_dropout). The others are divided by 1 - dropout. Not with dora.",
      [](const double& value) { return proper_fraction(static_cast<float>(value)); });
  of_adapters(dropout, &S::dropout);
  // PEFT's DoRA then drops what a part of the weight's own product reads, too.
  require(dropout, {"adapter.type"}, [](const RunConfig& c) -> std::string {
    return c.adapter.type == AdapterType::dora && c.adapter.dropout > 0
               ? "must be 0 with adapter.type dora: choose lora or rslora, or no dropout"
               : "";
  });
  of_adapters(section.add<Path>("path", &S::path, "",
                                "A folder of PEFT with adapters to begin with. Left out: random A, zero B, "
                                "and the norms of the weights as magnitudes."),
              &S::path);
}

std::string check_clip_by(const RunConfig& config) {
  if (config.optimizer.clip_by == ClipBy::step) return "";
  if (config.optimizer.clip_norm == 0) return "clip_norm is 0, so nothing is clipped; leave clip_by out";
  if (config.train.precision == DType::fp16)
    return "updates of train.precision fp16 wait for the norm in any case; leave clip_by out";
  return is_asynchronous(config.parallel.schedule)
             ? fmt::format(
                   "parallel.schedule {} has several steps under way, and none is the previous one; "
                   "leave clip_by out",
                   word_of(config.parallel.schedule))
             : "";
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
      "adamw: Adam with decoupled weight decay, as torch.optim.AdamW. lion: steps of the learning rate "
      "against the sign of a mean of gradients (Chen et al. 2023). rmsprop and adagrad: as in torch.optim, "
      "not centered and without lr_decay. sgd: stochastic gradient descent, as torch.optim.SGD. "
      "adamw keeps two arrays of optimizer state; lion, rmsprop and adagrad keep one; sgd keeps none. "
      "optimizer.momentum adds one.");
  section.add<Number>("lr", &S::learning_rate, "", "Learning rate after the warm-up.", not_below_zero);
  Key& betas = section.add<NumberPair>(
      "betas", &S::betas, "",
      "Of adamw: decay rates of the mean of gradients and of their squares. Of lion: the weight of the mean "
      "of gradients in a step's direction, and the decay rate of that mean.",
      [](const std::optional<std::array<double, 2>>& betas) -> std::string {
        const auto is_rate = [](double b) { return b >= 0 && b < 1; };
        return !betas || std::ranges::all_of(*betas, is_rate) ? ""
                                                              : "both must be at least 0 and less than 1";
      });
  betas.default_words = "default [0.9, 0.95], of lion [0.9, 0.99]";
  require(betas, {"optimizer.type"}, of({adamw, lion}, &S::betas));
  Key& epsilon = section.add<Number>(
      "epsilon", &S::epsilon, "", "Of adamw, rmsprop and adagrad: added to the root of the squares.",
      [](const std::optional<double>& epsilon) { return positive(epsilon.value_or(1)); });
  epsilon.default_words = "default 1e-08, of adagrad 1e-10";
  require(epsilon, {"optimizer.type"}, of({adamw, rmsprop, adagrad}, &S::epsilon));
  require(section.add<Number>("alpha", &S::alpha, "",
                              "Of rmsprop: the decay rate of the mean of the gradients' squares.",
                              proper_fraction),
          {"optimizer.type"}, of({rmsprop}, &S::alpha));
  require(section.add<Number>("momentum", &S::momentum, "",
                              "Of sgd and rmsprop: the factor on the momentum buffer in each step, before "
                              "the gradient is added. rmsprop divides the gradient by the root first. 0: "
                              "there is no buffer.",
                              proper_fraction),
          {"optimizer.type"}, of({sgd, rmsprop}, &S::momentum));
  section.add<Number>("weight_decay", &S::weight_decay, "",
                      "Decay per step, times the learning rate. adamw and lion shrink the weights by it. "
                      "sgd, rmsprop and adagrad add it to the gradient, so squares and momentum include it.",
                      not_below_zero);
  section.add<Word<Decay>>(
      "decay", &S::decay, "",
      "Which tensors weight_decay applies to: matrices only (not norms and biases), or all.");
  section.add<TensorGroups>("groups", &S::groups, "",
                            "Groups of tensors with other settings: [{tensors: '*.bias', weight_decay: 0}, "
                            "{tensors: ['model.embed_tokens.*', 'lm_head.*'], lr_factor: 0.1}]. tensors: "
                            "patterns of names, as in train.freeze. lr_factor: factor on the learning rate. "
                            "weight_decay: in place of optimizer.weight_decay and decay. schedule: a map in "
                            "place of optimizer.schedule, with its keys and their defaults. If several "
                            "groups fit a tensor, the last one with such a key gives it. A resumed run may "
                            "have other groups.");
  section.add<Number>("clip_norm", &S::clip_norm, "",
                      "Largest global norm of the gradient. 0: no clipping, and updates need not wait for "
                      "the end of the backward pass.",
                      not_below_zero);
  require(
      section.add<Word<ClipBy>>(
          "clip_by", &S::clip_by, "",
          "Which norm clipping reads. step: that of the gradients that are clipped, so that updates wait for "
          "all of them. previous_step: that of the step before, and the first step of a run is not clipped. "
          "Then updates need not wait, and gradients need not exist together. It is other mathematics: one "
          "step of huge gradients is not held back."),
      {"optimizer.clip_norm", "train.precision", "parallel.schedule"}, check_clip_by);
  require(
      section.add<Word<MasterFormat>>(
          "master", &S::master, "",
          "How exact weights are kept. fp32: beside the parameters. split: the parameters are the high "
          "halves, and 16 bits are kept beside them. That is 2 bytes per parameter less, with "
          "train.precision bf16 or fp8 only. A weight halfway between two bf16 numbers then has a parameter "
          "that is rounded away from zero instead of to even."),
      {"train.precision"}, [](const RunConfig& c) -> std::string {
        return c.optimizer.master == MasterFormat::split &&
                       c.train.precision.value_or(DType::bf16).storage != DType::bf16
                   ? "split needs train.precision bf16 or fp8, whose parameters are the high halves of the "
                     "fp32 masters; use fp32 with any other precision"
                   : "";
      });
  require(
      section.add<Word<MomentFormat>>("moments", &S::moments, "",
                                      "How moments, or the momentum buffer, are kept. bf16: rounded at "
                                      "random by train.seed, so that the mean is right. That is 2 bytes per "
                                      "parameter less for each. Results are near those of fp32, not equal."),
      {"optimizer.type", "optimizer.momentum"}, [](const RunConfig& c) -> std::string {
        const bool keeps_any = c.optimizer.type != sgd || c.optimizer.momentum > 0;
        return keeps_any || c.optimizer.moments == S().moments
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
  using enum ScheduleKind;
  SectionKeys<S> section(keys, "optimizer.schedule", &RunConfig::schedule);
  const auto of = [](ScheduleKind type, Key& key, auto S::*field) {
    require(key, {"optimizer.schedule.type"},
            belongs_to<S, ScheduleKind>(&RunConfig::schedule, "optimizer.schedule.type", {type}, field));
  };
  section.add<Word<ScheduleKind>>(
      "type", &S::type, "",
      "The learning rate from the end of the warm-up to the last step. Let p rise from 0 in the first step "
      "after the warm-up to 1 in the last step, and let r be minimum_ratio. constant: lr. linear: lr · (r + "
      "(1 - r) · (1 - p)). cosine: lr · (r + (1 - r) · (1 + cos πp) / 2). polynomial: lr · (r + (1 - r) · (1 "
      "- p)^power). cosine_restarts: cosine, `cycles` times. wsd: lr, and over the last part of the run a "
      "fall to lr · r (warm-up, stable, decay). inverse_sqrt: lr · √(timescale / (timescale + t)), t steps "
      "after the warm-up, and at least lr · r. piecewise: a line through points.");
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
                      "it, and inverse_sqrt never falls below it.",
                      fraction);
  of(wsd,
     section.add<Number>("decay_ratio", &S::decay_ratio, "",
                         "Of wsd: the part of the run's steps, at its end, over which the rate falls.",
                         positive_fraction),
     &S::decay_ratio);
  of(wsd,
     section.add<Word<ScheduleShape>>(
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
