#include <algorithm>
#include <limits>

#include "engine/config/run_config.h"
#include "engine/config/section_keys.h"

namespace strata {
namespace {

using namespace value;  // NOLINT(google-build-using-namespace): the table below reads as a table

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
  section.add<Int>(
      "max_skipped_steps", &S::max_skipped_steps, "steps",
      "A run ends with a sentence and status 1 after this number of steps in a row without an update. A "
      "step makes no update if its gradients are not finite, or if their norm is a spike (train.spike).",
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

/// A check that a key was not given beside a number of its section that turns all off: it must not look as
/// if it did something.
template <typename S>
auto belongs_beside(S RunConfig::*section, double S::*number, std::string_view key, auto S::*field) {
  return [=](const RunConfig& c) -> std::string {
    const S& given = c.*section;
    const bool does_nothing = given.*number == 0 && given.*field != S().*field;
    return does_nothing ? fmt::format("does nothing while {} is 0", key) : "";
  };
}

void add_ema(std::vector<Key>& keys) {
  using S = EmaSection;
  SectionKeys<S> section(keys, "train.ema", &RunConfig::ema);
  section.add<Number>(
      "decay", &S::decay, "",
      "Moving averages of what is trained, kept beside it: average = decay · average + (1 - decay) · weight. "
      "They begin as the weights after the first update. strata evaluate, generate, chat and export take "
      "them with --ema. 0: there are none.",
      proper_fraction);
  require(section.add<Integer<std::int64_t>>("every", &S::every, "updates",
                                             "Updates from one average to the next.", at_least_one),
          {"train.ema.decay"}, belongs_beside(&RunConfig::ema, &S::decay, "train.ema.decay", &S::every));
  require(section.add<Word<AverageFormat>>(
              "format", &S::format, "",
              "How averages are kept: fp32, or bf16, which is rounded at random by train.seed."),
          {"train.ema.decay"}, belongs_beside(&RunConfig::ema, &S::decay, "train.ema.decay", &S::format));
}

std::string check_roll_back(const RunConfig& config) {
  if (config.spike.roll_back == 0) return "";
  if (config.checkpoint.every == 0 && config.checkpoint.every_minutes == 0)
    return "the run goes back to checkpoints, and saves none before its end; give checkpoint.every";
  return config.spike.roll_back < config.train.max_skipped_steps
             ? ""
             : fmt::format(
                   "spikes are skipped steps, and {} of these in a row end the run "
                   "(train.max_skipped_steps); give fewer",
                   config.train.max_skipped_steps);
}

void add_spike(std::vector<Key>& keys) {
  using S = SpikeSection;
  SectionKeys<S> section(keys, "train.spike", &RunConfig::spike);
  section.add<Number>(
      "factor", &S::factor, "",
      "A step makes no update if the norm of its gradients is more than this factor times the mean norm of "
      "the steps before. Updates then wait for the norm of all gradients. 0: no step is a spike.",
      [](const double& value) -> std::string {
        return value == 0 || value > 1 ? "" : "must be 0, or greater than 1";
      });
  require(section.add<Integer<std::int64_t>>(
              "window", &S::window, "steps",
              "The mean is that of about the last `window` steps. A spike counts as the largest norm that is "
              "none. Before `window` steps have updated, none is a spike.",
              at_least_one),
          {"train.spike.factor"},
          belongs_beside(&RunConfig::spike, &S::factor, "train.spike.factor", &S::window));
  Key& roll_back = section.add<Integer<std::int64_t>>(
      "roll_back", &S::roll_back, "steps",
      "Behind this number of spikes in a row the run goes back to its newest checkpoint from before them, "
      "which is one of checkpoint.every steps if that is given. It leaves out the data from there to the "
      "last spike. A run that would go back to one checkpoint a fourth time ends. 0: it never goes back.",
      not_negative);
  require(roll_back, {"train.spike.factor"},
          belongs_beside(&RunConfig::spike, &S::factor, "train.spike.factor", &S::roll_back));
  require(roll_back, {"train.max_skipped_steps", "checkpoint.every", "checkpoint.every_minutes"},
          check_roll_back);
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

}  // namespace

void add_training_keys(std::vector<Key>& keys) {
  add_model(keys);
  add_data(keys);
  add_train(keys);
  add_loss_scale(keys);
  add_samples(keys);
  add_ema(keys);
  add_spike(keys);
  add_adapter(keys);
  add_optimizer_keys(keys);
}

}  // namespace strata
