// The data of a run: opens the files, holds part of them out for validation, and fills the tokens and targets
// of any microbatch of any step. fill() is a pure function of its indices, so steps may be loaded in any
// order, by any rank, and a run resumes by its step alone. Immutable after construction; fill from any
// thread.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/context_part.h"
#include "engine/config/run_config.h"
#include "engine/data/packed_sequences.h"
#include "engine/data/sampler.h"
#include "engine/data/token_source.h"

namespace strata {

/// Sequence i covers tokens [begin + i·S, begin + i·S + S + 1): S inputs, and S targets shifted by one. With
/// data.packing whole, what PackedSequences says.
struct SequenceRange {
  std::int64_t begin = 0;
  std::int64_t count = 0;
};

struct Split {
  SequenceRange training, validation;
};

/// Holds out the last ⌈fraction · sequences⌉ sequences; no token belongs to both sides. A corpus that is too
/// small for both has no training sequence.
Split split_tokens(std::int64_t tokens, std::int64_t sequence_length, double validation_fraction);

/// The files of data.path without those that data.validation holds out, and these.
struct DataFiles {
  std::vector<std::string> training, validation;
};
/// Throws ConfigError if a pattern matches no file, or nothing is left to train on.
DataFiles find_data_files(const RunConfig& config);

class BatchLoader {
 public:
  /// Opens data.path and data.validation of `config`; `vocabulary` is the model's. Throws ConfigError as
  /// find_data_files() does, and if a file is not what it should be, an id is not in the vocabulary, or there
  /// are too few tokens.
  BatchLoader(const RunConfig& config, std::int64_t vocabulary);
  /// Likewise, of these files: of token ids, if the texts of data.tokenizer auto have become that.
  BatchLoader(const RunConfig& config, std::int64_t vocabulary, const DataFiles& files);

  /// Microbatch `microbatch` of step `step` (both from 0): the samples from step · batch + microbatch · size
  /// on. `microbatch` counts those of all ranks, 0 <= microbatch < batch / size. `tokens` and `targets` are
  /// [size, sequence_length], row-major, or what a rank has of each sequence, like `places`; any of them may
  /// be empty. A target is the token behind, whoever has that, or kUntrained: with data.packing also where
  /// that begins a document. A place is that in the document, or in what a sequence's beginning leaves of it.
  /// Where a sequence has no token, ids are 0 and have no targets, in a document of their own.
  /// Allocates nothing. REQUIRES: places are asked for with data.packing only. Throws ConfigError for an id
  /// beyond the vocabulary.
  void fill(std::int64_t step, std::int64_t microbatch, std::span<std::int32_t> tokens,
            std::span<std::int32_t> targets, const ContextPart& part = {},
            std::span<std::int32_t> places = {}) const;

  /// Held-out microbatch `microbatch` < validation_microbatches(): the same data at every call, spread over
  /// all that is held out. The last one begins anew with the first held-out samples if they do not fill
  /// it.
  void fill_validation(std::int64_t microbatch, std::span<std::int32_t> tokens,
                       std::span<std::int32_t> targets, const ContextPart& part = {},
                       std::span<std::int32_t> places = {}) const;

  /// Whether attention and positions are those of documents: data.packing.
  bool is_by_documents() const { return packing_ != DataPacking::none; }
  DataPacking packing() const { return packing_; }
  /// Whether every target is trained on.
  bool are_all_trained() const;
  /// How many targets of all microbatches of a step are trained on, and of all held-out microbatches.
  std::int64_t trained_targets(std::int64_t step) const;
  std::int64_t trained_validation_targets() const;

  /// What a user should know about the data: a batch of more sequences than there are holds some of them
  /// twice.
  std::vector<std::string> warnings() const;

  std::int64_t training_sequences() const { return split_.training.count; }
  std::int64_t validation_sequences() const { return split_.validation.count; }
  /// train.validation_batches, or as many as the held-out data fills; 0 if nothing is held out.
  std::int64_t validation_microbatches() const;

  /// Where sampling stands before step `step`: what a checkpoint stores, and a resumed run compares.
  SamplerState state(std::int64_t step) const { return sampler_.state(step * batch_); }

 private:
  /// Nothing unless no document is to be cut.
  struct PackedSplit {
    std::optional<PackedSequences> training, validation;
  };
  /// Sequences of one side.
  struct Sequences {
    const TokenSource& source;
    const SequenceRange& range;
    const std::optional<PackedSequences>& packed;
  };

  BatchLoader(const RunConfig& config, TokenSource training, std::optional<TokenSource> held_out);
  static PackedSplit pack_whole(const RunConfig& config, const TokenSource& training,
                                const std::optional<TokenSource>& held_out);
  static Split split_of(const RunConfig& config, const TokenSource& training,
                        const std::optional<TokenSource>& held_out, const PackedSplit& packed);
  Sequences training() const { return {training_, split_.training, packed_.training}; }
  Sequences validation() const { return {held_out(), split_.validation, packed_.validation}; }
  /// What a rank has of one sequence; any may be empty.
  struct SequenceData {
    std::span<std::int32_t> tokens, targets, places;

    SequenceData subspan(std::size_t first, std::size_t count) const;
  };
  void fill_sequence(const Sequences& of, std::int64_t sequence, const SequenceData& data,
                     const ContextPart& part) const;
  static void fill_pieces(const TokenSource& source, std::span<const DocumentPiece> pieces,
                          std::int64_t begin, std::int64_t count, const SequenceData& data);
  static void fill_piece(const TokenSource& source, const DocumentPiece& piece, std::int64_t place,
                         const SequenceData& data);
  void fill_stretch(const TokenSource& source, std::int64_t position, std::int64_t sequence_begin,
                    std::int64_t count, const SequenceData& data) const;
  std::span<std::int32_t> row(std::span<std::int32_t> matrix, std::int64_t index) const;
  const TokenSource& held_out() const { return held_out_ ? *held_out_ : training_; }
  /// The sequence of the held-out sample.
  std::int64_t validation_sequence(std::int64_t sample) const;
  std::int64_t trained_in(const Sequences& of, std::int64_t sequence) const;

  std::int64_t batch_, microbatch_, sequence_length_, validation_batches_;
  DataPacking packing_;
  TokenSource training_;
  std::optional<TokenSource> held_out_;  ///< files of data.validation; nothing: the end of training_
  PackedSplit packed_;
  Split split_;
  Sampler sampler_;
  std::optional<Permutation> validation_order_;  ///< nothing if nothing is held out
};

}  // namespace strata
