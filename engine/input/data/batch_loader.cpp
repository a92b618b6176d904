#include "engine/input/data/batch_loader.h"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <cmath>
#include <filesystem>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/nth.h"
#include "engine/config/run_config.h"
#include "engine/input/data/token_files.h"

namespace strata {
namespace {

TokenSource open(const std::vector<std::string>& files, const RunConfig& config, std::int64_t vocabulary) {
  std::vector<TokenSegment> segments;
  for (const std::string& file : files) {
    TokenSegment segment = config.data.tokenizer == Tokenizer::bytes
                               ? open_text(file, config.data.format)
                               : open_token_file(file, config.data.token_bytes);
    if (segment.tokens() > 0) segments.push_back(std::move(segment));
  }
  return {std::move(segments), vocabulary, config.is_within_documents()};
}

std::int64_t sequences_of(std::int64_t tokens, std::int64_t sequence_length) {
  return tokens > sequence_length ? (tokens - 1) / sequence_length : 0;
}

void require_sequence(const SequenceRange& range, const TokenSource& source, std::int64_t sequence_length,
                      const std::string& key) {
  if (source.tokens() == 0) throw ConfigError(key + ": the files are empty");
  if (range.count > 0) return;
  throw ConfigError(fmt::format(
      "{}: {} tokens are fewer than the {} of one sequence (data.sequence_length + 1): give more data or "
      "shorten the sequences",
      key, source.tokens(), sequence_length + 1));
}

/// A source's key, for errors.
std::string key_of(const RunConfig& config, std::size_t source) {
  return config.data.sources.empty() ? "data.path" : fmt::format("data.sources: source {}", source + 1);
}

Split checked_split(const RunConfig& config, const TokenSource& tokens, const std::string& key) {
  const std::int64_t length = config.data.sequence_length;
  const bool is_held_out_elsewhere = !config.data.validation.empty();
  const Split split =
      split_tokens(tokens.tokens(), length, is_held_out_elsewhere ? 0 : config.data.validation_fraction);
  if (split.training.count == 0 && split.validation.count > 0) {
    throw ConfigError(fmt::format(
        "{}: {} tokens are fewer than the {} of one sequence to train on and one to hold out: give "
        "more data, shorten data.sequence_length, or set data.validation_fraction to 0",
        key, tokens.tokens(), 2 * (length + 1)));
  }
  require_sequence(split.training, tokens, length, key);
  return split;
}

/// A source's sequences to train on, and those that are held out at its end.
struct SplitSequences {
  Sequences training;
  std::optional<Sequences> validation;
};

/// Held out are the last documents, that part of the tokens, or the last alone if it is more.
SplitSequences split_documents(const RunConfig& config, const TokenSource& tokens, const std::string& key) {
  const std::int64_t length = config.data.sequence_length, all = tokens.tokens();
  if (all == 0) throw ConfigError(key + ": the files are empty");
  const auto pack = [&](std::int64_t first, std::int64_t end) {
    return Sequences(tokens, PackedSequences(tokens, first, end, length), length);
  };
  const double fraction = config.data.validation.empty() ? config.data.validation_fraction : 0;
  const auto held_out = static_cast<std::int64_t>(std::ceil(fraction * static_cast<double>(all)));
  if (held_out == 0) return {pack(0, all), std::nullopt};
  const std::int64_t border = tokens.begin_of_document(all - held_out);
  if (border == 0)
    throw ConfigError(
        key +
        ": holding out data.validation_fraction of the documents leaves none to train on: give more "
        "data, or set data.validation_fraction to 0");
  return {pack(0, border), pack(border, all)};
}

SplitSequences split_sequences(const RunConfig& config, const TokenSource& tokens, const std::string& key) {
  if (config.data.packing == DataPacking::whole) return split_documents(config, tokens, key);
  const Split split = checked_split(config, tokens, key);
  const auto windows = [&](const SequenceRange& range) {
    return Sequences(tokens, range, config.data.sequence_length, config.is_within_documents());
  };
  if (split.validation.count == 0) return {windows(split.training), std::nullopt};
  return {windows(split.training), windows(split.validation)};
}

/// Throws ConfigError if no sequence has a target: a run would learn nothing, with losses of 0.
void require_trained(const Sequences& sequences, const std::string& key) {
  for (std::int64_t i = 0; i < sequences.count(); ++i)
    if (sequences.trained(i) > 0) return;
  throw ConfigError(fmt::format(
      "{}: nothing is trained on in {} sequences: of conversations that is what the role assistant says, of "
      "prompts their completions, and a document's first token never is if data.packing is set",
      key, sequences.count()));
}

std::vector<std::int64_t> shares_of_sources(const RunConfig& config) {
  std::vector<double> weights;
  for (const DataSource& source : sources_of(config.data)) weights.push_back(source.weight);
  return shares_of(weights);
}

}  // namespace

Split split_tokens(std::int64_t tokens, std::int64_t sequence_length, double validation_fraction) {
  const std::int64_t all = sequences_of(tokens, sequence_length);
  const auto held_out = static_cast<std::int64_t>(std::ceil(validation_fraction * static_cast<double>(all)));
  if (held_out == 0) return {.training = {0, all}, .validation = {}};
  const std::int64_t begin = tokens - (held_out * sequence_length + 1);
  return {.training = {0, sequences_of(begin, sequence_length)}, .validation = {begin, held_out}};
}

DataFiles find_data_files(const RunConfig& config) {
  const DataSection& data = config.data;
  DataFiles files = {{}, find_token_files(data.validation, data.tokenizer, "data.validation", data.format)};
  std::map<std::filesystem::path, std::string> taken;  // whatever their names are, and by whom
  for (const std::string& file : files.validation) taken[std::filesystem::canonical(file)] = "";
  for (const DataSource& source : sources_of(data)) {
    const std::string key = key_of(config, files.sources.size());
    std::vector<std::string>& own =
        files.sources.emplace_back(find_token_files(source.path, data.tokenizer, key, data.format));
    std::erase_if(own, [&](const std::string& file) {
      const auto [owner, is_first] = taken.try_emplace(std::filesystem::canonical(file), key);
      if (!is_first && !owner->second.empty() && owner->second != key)
        throw ConfigError(fmt::format("{}: {} belongs to {} already: name each file in one source", key, file,
                                      owner->second));
      return owner->second.empty();
    });
    if (own.empty()) throw ConfigError(key + ": data.validation holds out every file that it names");
  }
  return files;
}

BatchLoader::BatchLoader(const RunConfig& config, std::int64_t vocabulary)
    : BatchLoader(config, vocabulary, find_data_files(config)) {}

BatchLoader::BatchLoader(const RunConfig& config, std::int64_t vocabulary, const DataFiles& files)
    : batch_(config.train.batch),
      microbatch_(config.train.microbatch),
      validation_batches_(config.train.validation_batches),
      packing_(config.data.packing),
      row_keys_(config.train.seed),
      mixture_(shares_of_sources(config)),
      validation_mixture_(files.validation.empty() ? mixture_ : Mixture({1})) {
  open_sources(config, vocabulary, files);
  if (!files.validation.empty()) open_validation(config, vocabulary, files.validation);
}

void BatchLoader::open_sources(const RunConfig& config, std::int64_t vocabulary, const DataFiles& files) {
  for (const std::vector<std::string>& own : files.sources) {
    const std::size_t number = sources_.size();
    auto tokens = std::make_unique<const TokenSource>(open(own, config, vocabulary));
    const std::string key = key_of(config, number);
    SplitSequences split = split_sequences(config, *tokens, key);
    require_trained(split.training, key);
    if (split.validation) {
      require_trained(*split.validation, key + ", data.validation_fraction");
      hold_out(std::move(*split.validation));
    }
    const Sampler sampler(split.training.count(), config.train.seed, config.data.shuffle, number);
    sources_.push_back({std::move(tokens), std::move(split.training), sampler});
  }
}

void BatchLoader::open_validation(const RunConfig& config, std::int64_t vocabulary,
                                  const std::vector<std::string>& files) {
  const std::int64_t length = config.data.sequence_length;
  const std::string key = "data.validation";
  validation_files_ = std::make_unique<const TokenSource>(open(files, config, vocabulary));
  const TokenSource& tokens = *validation_files_;
  const auto sequences = [&]() -> Sequences {
    if (packing_ == DataPacking::whole) {
      if (tokens.tokens() == 0) throw ConfigError(key + ": the files are empty");
      return {tokens, PackedSequences(tokens, 0, tokens.tokens(), length), length};
    }
    const SequenceRange range = {0, sequences_of(tokens.tokens(), length)};
    require_sequence(range, tokens, length, key);
    return {tokens, range, length, is_by_documents()};
  };
  Sequences held_out = sequences();
  require_trained(held_out, key);
  hold_out(std::move(held_out));
}

/// A seed of its own: runs that differ in train.seed are measured on the same data.
void BatchLoader::hold_out(Sequences sequences) {
  const Permutation order(sequences.count(), /*seed=*/0, /*epoch=*/0, held_out_.size());
  held_out_.push_back({std::move(sequences), order});
}

void BatchLoader::fill(std::int64_t step, std::int64_t microbatch, std::span<std::int32_t> tokens,
                       std::span<std::int32_t> targets, const ContextPart& part,
                       std::span<std::int32_t> places, std::span<std::int32_t> lengths) const {
  assert(step >= 0 && microbatch >= 0 && (microbatch + 1) * microbatch_ <= batch_);
  const std::int64_t first = step * batch_ + microbatch * microbatch_;
  for (std::int64_t i = 0; i < microbatch_; ++i) {
    const auto& [of, number] = training_sequence(first + i);
    of.fill(number, {row(tokens, i), row(targets, i), row(places, i), row(lengths, i)}, part);
  }
}

void BatchLoader::fill_validation(std::int64_t microbatch, std::span<std::int32_t> tokens,
                                  std::span<std::int32_t> targets, const ContextPart& part,
                                  std::span<std::int32_t> places, std::span<std::int32_t> lengths) const {
  assert(microbatch >= 0 && microbatch < validation_microbatches());
  for (std::int64_t i = 0; i < microbatch_; ++i) {
    const auto& [of, number] = validation_sequence(microbatch * microbatch_ + i);
    of.fill(number, {row(tokens, i), row(targets, i), row(places, i), row(lengths, i)}, part);
  }
}

void BatchLoader::fill_row_keys(std::int64_t step, std::int64_t microbatch, std::span<std::int32_t> keys,
                                const ContextPart& part) const {
  row_keys_.fill(step * batch_ + microbatch * microbatch_, microbatch_, keys, part);
}

BatchLoader::Sequence BatchLoader::training_sequence(std::int64_t sample) const {
  const Mixture::Place place = mixture_.place(sample);
  const Source& source = sources_[place.source];
  return {source.training, source.sampler.sample(place.index)};
}

BatchLoader::Sequence BatchLoader::validation_sequence(std::int64_t sample) const {
  const Mixture::Place place = validation_mixture_.place(sample % validation_sequences());
  const HeldOut& source = held_out_[place.source];
  return {source.sequences, source.order(place.index % source.sequences.count())};
}

bool BatchLoader::are_all_trained() const {
  return !is_by_documents() && (!validation_files_ || validation_files_->are_all_trained()) &&
         std::ranges::all_of(sources_, [](const Source& source) { return source.tokens->are_all_trained(); });
}

std::int64_t BatchLoader::trained_targets(std::int64_t step) const {
  std::int64_t sum = 0;
  for (std::int64_t i = 0; i < batch_; ++i) {
    const auto& [of, number] = training_sequence(step * batch_ + i);
    sum += of.trained(number);
  }
  return sum;
}

std::int64_t BatchLoader::held_out_in(std::int64_t microbatch) const {
  return std::min(microbatch_, validation_sequences() - microbatch * microbatch_);
}

std::int64_t BatchLoader::trained_validation_targets(HeldOutOnce once) const {
  const std::int64_t all = validation_microbatches() * microbatch_;
  const std::int64_t counted = once == HeldOutOnce::yes ? std::min(all, validation_sequences()) : all;
  std::int64_t sum = 0;
  for (std::int64_t i = 0; i < counted; ++i) {
    const auto& [of, number] = validation_sequence(i);
    sum += of.trained(number);
  }
  return sum;
}

std::int64_t BatchLoader::training_sequences() const {
  std::int64_t sum = 0;
  for (const Source& source : sources_) sum += source.training.count();
  return sum;
}

std::int64_t BatchLoader::validation_sequences() const {
  std::int64_t sum = 0;
  for (const HeldOut& source : held_out_) sum += source.sequences.count();
  return sum;
}

DataFacts BatchLoader::facts() const {
  DataFacts facts = {.documents = 0,
                     .sequences_per_epoch = training_sequences(),
                     .held_out_sequences = validation_sequences()};
  for (const Source& source : sources_) {
    const std::int64_t tokens = source.tokens->tokens();
    facts.tokens += tokens;
    facts.trained_tokens += source.tokens->trained(0, tokens);
    facts.read.byte_order_marks += source.tokens->byte_order_marks();
    const std::optional<std::int64_t> documents = source.tokens->documents();
    facts.documents =
        facts.documents && documents ? std::optional(*facts.documents + *documents) : std::nullopt;
  }
  return facts;
}

std::vector<SourceState> BatchLoader::state(std::int64_t step) const {
  std::vector<SourceState> states;
  for (std::size_t source = 0; source < sources_.size(); ++source) {
    states.push_back(
        {mixture_.shares()[source], sources_[source].sampler.state(mixture_.count(source, step * batch_))});
  }
  return states;
}

std::vector<std::string> BatchLoader::warnings() const {
  std::vector<std::string> warnings;
  for (std::size_t source = 0; source < sources_.size(); ++source) {
    const std::int64_t each = mixture_.count(source, batch_), there = sources_[source].training.count();
    if (each <= there) continue;
    const std::string whose =
        sources_.size() == 1 ? "" : fmt::format(" of source {} of data.sources", source + 1);
    warnings.push_back(fmt::format(
        "train.batch: {} sequences per step{} are more than the {} there are to train on, so every "
        "batch holds some of them more than once",
        each, whose, there));
  }
  return warnings;
}

std::int64_t BatchLoader::validation_microbatches() const {
  return std::min(validation_batches_, (validation_sequences() + microbatch_ - 1) / microbatch_);
}

/// A sequence's, or what a rank has of it.
std::span<std::int32_t> BatchLoader::row(std::span<std::int32_t> matrix, std::int64_t index) const {
  if (matrix.empty()) return {};
  const std::int64_t length = std::ssize(matrix) / microbatch_;
  return slice(matrix, index * length, length);
}

}  // namespace strata
