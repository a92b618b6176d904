#include "engine/data/batch_loader.h"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <cmath>
#include <filesystem>
#include <numeric>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "engine/data/token_files.h"

namespace strata {
namespace {

TokenSource open(const std::vector<std::string>& files, const RunConfig& config, std::int64_t vocabulary) {
  std::vector<TokenSegment> segments;
  for (const std::string& file : files) {
    TokenSegment segment = config.data.tokenizer == Tokenizer::bytes
                               ? open_text(file)
                               : open_token_file(file, config.data.token_bytes);
    if (segment.tokens() > 0) segments.push_back(std::move(segment));
  }
  return {std::move(segments), vocabulary, config.is_within_documents()};
}

std::optional<TokenSource> open_held_out(const DataFiles& files, const RunConfig& config,
                                         std::int64_t vocabulary) {
  if (files.validation.empty()) return std::nullopt;
  return open(files.validation, config, vocabulary);
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

Split checked_split(const RunConfig& config, const TokenSource& training,
                    const std::optional<TokenSource>& held_out) {
  const std::int64_t length = config.data.sequence_length;
  Split split = split_tokens(training.tokens(), length, held_out ? 0 : config.data.validation_fraction);
  if (held_out) {
    split.validation = {0, sequences_of(held_out->tokens(), length)};
    require_sequence(split.validation, *held_out, length, "data.validation");
  } else if (split.training.count == 0 && split.validation.count > 0) {
    throw ConfigError(fmt::format(
        "data.path: {} tokens are fewer than the {} of one sequence to train on and one to hold out: give "
        "more data, shorten data.sequence_length, or set data.validation_fraction to 0",
        training.tokens(), 2 * (length + 1)));
  }
  require_sequence(split.training, training, length, "data.path");
  return split;
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
  const RunConfig::DataSection& data = config.data;
  DataFiles files = {find_token_files(data.path, data.tokenizer, "data.path"),
                     find_token_files(data.validation, data.tokenizer, "data.validation")};
  std::set<std::filesystem::path> held_out;  // whatever their names are
  for (const std::string& file : files.validation) held_out.insert(std::filesystem::canonical(file));
  std::erase_if(files.training,
                [&](const std::string& file) { return held_out.contains(std::filesystem::canonical(file)); });
  if (files.training.empty())
    throw ConfigError("data.path: data.validation holds out every file that it names");
  return files;
}

BatchLoader::BatchLoader(const RunConfig& config, std::int64_t vocabulary)
    : BatchLoader(config, vocabulary, find_data_files(config)) {}

BatchLoader::BatchLoader(const RunConfig& config, std::int64_t vocabulary, const DataFiles& files)
    : BatchLoader(config, open(files.training, config, vocabulary),
                  open_held_out(files, config, vocabulary)) {}

BatchLoader::BatchLoader(const RunConfig& config, TokenSource training, std::optional<TokenSource> held_out)
    : batch_(config.train.batch),
      microbatch_(config.train.microbatch),
      sequence_length_(config.data.sequence_length),
      validation_batches_(config.train.validation_batches),
      packing_(config.data.packing),
      training_(std::move(training)),
      held_out_(std::move(held_out)),
      packed_(pack_whole(config, training_, held_out_)),
      split_(split_of(config, training_, held_out_, packed_)),
      sampler_(split_.training.count, config.train.seed, config.data.shuffle) {
  // A seed of its own: runs that differ in train.seed are measured on the same data.
  if (split_.validation.count > 0)
    validation_order_.emplace(split_.validation.count, /*seed=*/0, /*epoch=*/0);
}

/// Held out are the last documents, that part of the tokens, or the last alone if it is more.
BatchLoader::PackedSplit BatchLoader::pack_whole(const RunConfig& config, const TokenSource& training,
                                                 const std::optional<TokenSource>& held_out) {
  if (config.data.packing != DataPacking::whole) return {};
  const std::int64_t length = config.data.sequence_length, all = training.tokens();
  if (all == 0) throw ConfigError("data.path: the files are empty");
  if (held_out && held_out->tokens() == 0) throw ConfigError("data.validation: the files are empty");
  const auto of = [&](const TokenSource& source, std::int64_t first, std::int64_t end) {
    return PackedSequences(source, first, end, length);
  };
  if (held_out) return {of(training, 0, all), of(*held_out, 0, held_out->tokens())};
  const auto tokens_held_out =
      static_cast<std::int64_t>(std::ceil(config.data.validation_fraction * static_cast<double>(all)));
  if (tokens_held_out == 0) return {of(training, 0, all), std::nullopt};
  const std::int64_t border = training.begin_of_document(all - tokens_held_out);
  if (border == 0)
    throw ConfigError(
        "data.path: holding out data.validation_fraction of the documents leaves none to train on: give more "
        "data, or set data.validation_fraction to 0");
  return {of(training, 0, border), of(training, border, all)};
}

Split BatchLoader::split_of(const RunConfig& config, const TokenSource& training,
                            const std::optional<TokenSource>& held_out, const PackedSplit& packed) {
  if (!packed.training) return checked_split(config, training, held_out);
  return {.training = {0, packed.training->count()},
          .validation = {0, packed.validation ? packed.validation->count() : 0}};
}

void BatchLoader::fill(std::int64_t step, std::int64_t microbatch, std::span<std::int32_t> tokens,
                       std::span<std::int32_t> targets, const ContextPart& part,
                       std::span<std::int32_t> places) const {
  assert(step >= 0 && microbatch >= 0 && (microbatch + 1) * microbatch_ <= batch_);
  const std::int64_t first = step * batch_ + microbatch * microbatch_;
  for (std::int64_t i = 0; i < microbatch_; ++i) {
    fill_sequence(training(), sampler_.sample(first + i), {row(tokens, i), row(targets, i), row(places, i)},
                  part);
  }
}

void BatchLoader::fill_validation(std::int64_t microbatch, std::span<std::int32_t> tokens,
                                  std::span<std::int32_t> targets, const ContextPart& part,
                                  std::span<std::int32_t> places) const {
  assert(microbatch >= 0 && microbatch < validation_microbatches());
  for (std::int64_t i = 0; i < microbatch_; ++i) {
    fill_sequence(validation(), validation_sequence(microbatch * microbatch_ + i),
                  {row(tokens, i), row(targets, i), row(places, i)}, part);
  }
}

std::int64_t BatchLoader::validation_sequence(std::int64_t sample) const {
  return (*validation_order_)(sample % split_.validation.count);
}

bool BatchLoader::are_all_trained() const {
  return !is_by_documents() && training_.are_all_trained() && held_out().are_all_trained();
}

std::int64_t BatchLoader::trained_in(const Sequences& of, std::int64_t sequence) const {
  if (of.packed) {
    std::int64_t sum = 0;
    for (const DocumentPiece& piece : of.packed->pieces(sequence))
      sum += of.source.trained(piece.token + 1, piece.targets());
    return sum;
  }
  const std::int64_t first = of.range.begin + sequence * sequence_length_ + 1;
  return is_by_documents() ? of.source.trained_within_documents(first, sequence_length_)
                           : of.source.trained(first, sequence_length_);
}

std::int64_t BatchLoader::trained_targets(std::int64_t step) const {
  std::int64_t sum = 0;
  for (std::int64_t i = 0; i < batch_; ++i) sum += trained_in(training(), sampler_.sample(step * batch_ + i));
  return sum;
}

std::int64_t BatchLoader::trained_validation_targets() const {
  std::int64_t sum = 0;
  for (std::int64_t i = 0; i < validation_microbatches() * microbatch_; ++i)
    sum += trained_in(validation(), validation_sequence(i));
  return sum;
}

std::vector<std::string> BatchLoader::warnings() const {
  if (batch_ <= split_.training.count) return {};
  return {
      fmt::format("train.batch: {} sequences per step are more than the {} there are to train on, so every "
                  "batch holds some "
                  "of them more than once",
                  batch_, split_.training.count)};
}

std::int64_t BatchLoader::validation_microbatches() const {
  return std::min(validation_batches_, (split_.validation.count + microbatch_ - 1) / microbatch_);
}

BatchLoader::SequenceData BatchLoader::SequenceData::subspan(std::size_t first, std::size_t count) const {
  const auto in = [&](std::span<std::int32_t> all) { return all.empty() ? all : all.subspan(first, count); };
  return {in(tokens), in(targets), in(places)};
}

void BatchLoader::fill_sequence(const Sequences& of, std::int64_t sequence, const SequenceData& data,
                                const ContextPart& part) const {
  const std::int64_t first = of.range.begin + sequence * sequence_length_;
  const std::int64_t rows = sequence_length_ / part.ranks, stretch = part.ranks == 1 ? rows : rows / 2;
  for ([[maybe_unused]] const auto& own : {data.tokens, data.targets, data.places})
    assert(own.empty() || std::ssize(own) == rows);
  for (std::int64_t at = 0; at < rows; at += stretch) {
    const std::int64_t position = part.positions(rows).at(at);
    const SequenceData own = data.subspan(static_cast<std::size_t>(at), static_cast<std::size_t>(stretch));
    if (of.packed) {
      fill_pieces(of.source, of.packed->pieces(sequence), position, stretch, own);
    } else {
      fill_stretch(of.source, first + position, first, stretch, own);
    }
  }
}

/// Positions [begin, begin + count) of a sequence.
void BatchLoader::fill_pieces(const TokenSource& source, std::span<const DocumentPiece> pieces,
                              std::int64_t begin, std::int64_t count, const SequenceData& data) {
  std::int64_t start = 0;  // of a piece, in the sequence
  for (const DocumentPiece& piece : pieces) {
    const std::int64_t first = std::max(start, begin), end = std::min(start + piece.length, begin + count);
    if (first < end)
      fill_piece(
          source, piece, first - start,
          data.subspan(static_cast<std::size_t>(first - begin), static_cast<std::size_t>(end - first)));
    start += piece.length;
  }
  const std::int64_t first = std::max(start, begin), rest = begin + count - first;
  if (rest <= 0) return;
  const SequenceData nothing =
      data.subspan(static_cast<std::size_t>(first - begin), static_cast<std::size_t>(rest));
  std::ranges::fill(nothing.tokens, 0);
  std::ranges::fill(nothing.targets, kUntrained);
  std::iota(nothing.places.begin(), nothing.places.end(), static_cast<std::int32_t>(first - start));
}

/// Those of a piece from a place in it on.
void BatchLoader::fill_piece(const TokenSource& source, const DocumentPiece& piece, std::int64_t place,
                             const SequenceData& data) {
  source.read(piece.token + place, data.tokens);
  std::iota(data.places.begin(), data.places.end(), static_cast<std::int32_t>(place));
  if (data.targets.empty()) return;
  const auto there =
      static_cast<std::size_t>(std::min<std::int64_t>(std::ssize(data.targets), piece.targets() - place));
  const std::span<std::int32_t> next = data.targets.first(there);
  source.read(piece.token + place + 1, next);
  source.leave_out_untrained(piece.token + place + 1, next);
  std::ranges::fill(data.targets.subspan(there), kUntrained);
}

void BatchLoader::fill_stretch(const TokenSource& source, std::int64_t position, std::int64_t sequence_begin,
                               std::int64_t count, const SequenceData& data) const {
  source.read(position, data.tokens);
  if (!data.places.empty()) source.read_places(position, sequence_begin, data.places);
  if (data.targets.empty()) return;
  if (data.tokens.empty()) {
    source.read(position + 1, data.targets);
  } else {
    std::ranges::copy(data.tokens.subspan(1), data.targets.begin());
    source.read(position + count, data.targets.last(1));
  }
  source.leave_out_untrained(position + 1, data.targets);
  if (is_by_documents()) source.leave_out_beginnings(position + 1, data.targets);
}

/// A sequence's, or what a rank has of it.
std::span<std::int32_t> BatchLoader::row(std::span<std::int32_t> matrix, std::int64_t index) const {
  if (matrix.empty()) return {};
  const std::size_t length = matrix.size() / static_cast<std::size_t>(microbatch_);
  return matrix.subspan(static_cast<std::size_t>(index) * length, length);
}

}  // namespace strata
