// The data of a run: opens the files, holds part of them out for validation, and fills the tokens and targets
// of any microbatch of any step. fill() is a pure function of its indices, so steps may be loaded in any
// order, by any rank, and a run resumes by its step alone. Immutable after construction; fill from any
// thread.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/context_part.h"
#include "engine/config/choices.h"
#include "engine/input/data/data_facts.h"
#include "engine/input/data/mixture.h"
#include "engine/input/data/row_keys.h"
#include "engine/input/data/sampler.h"
#include "engine/input/data/sequences.h"
#include "engine/input/data/token_source.h"

namespace strata {

struct RunConfig;

struct Split {
  SequenceRange training, validation;
};

/// Holds out the last ⌈fraction · sequences⌉ sequences; no token belongs to both sides. A corpus that is too
/// small for both has no training sequence.
Split split_tokens(std::int64_t tokens, std::int64_t sequence_length, double validation_fraction);

/// The files of each source without those that data.validation holds out, and these.
struct DataFiles {
  std::vector<std::vector<std::string>> sources;
  std::vector<std::string> validation;
};
/// Throws ConfigError if a pattern matches no file, two sources have a file in common, or nothing of a source
/// is left to train on.
DataFiles find_data_files(const RunConfig& config);

/// Whether held-out sequences with which the last microbatch begins anew count only once.
enum class HeldOutOnce : bool { no, yes };

/// Where the sampling of one source stands.
struct SourceState {
  std::int64_t share = 1;  ///< of Mixture
  SamplerState sampler;
  friend bool operator==(const SourceState&, const SourceState&) = default;
};

class BatchLoader {
 public:
  /// Opens the sources and data.validation of `config`; `vocabulary` is the model's. Throws ConfigError as
  /// find_data_files() does. Throws ConfigError, too, if a file is not what it should be, if an id is not in
  /// the vocabulary, or if there are too few tokens.
  BatchLoader(const RunConfig& config, std::int64_t vocabulary);
  /// Loads these files, which hold token ids if data.tokenizer auto made ids of their texts. Throws as above.
  BatchLoader(const RunConfig& config, std::int64_t vocabulary, const DataFiles& files);

  /// Microbatch `microbatch` of step `step` (both from 0): the samples from step · batch + microbatch · size
  /// on. `microbatch` counts those of all ranks, 0 <= microbatch < batch / size.
  ///
  /// `tokens`, `targets`, `places` and `lengths` are [size, sequence_length], row-major, or the rank's part
  /// of each sequence. Any of them may be empty. A target is the next token of the sequence, also if another
  /// rank has it, or kUntrained. With data.packing it is kUntrained if the next token begins a document. A
  /// place counts tokens from the document's beginning, or from the sequence's if that cuts the document. A
  /// length is the number of tokens that the sequence has of the token's document. Allocates nothing.
  /// REQUIRES: places and lengths are asked for with data.packing only. Throws ConfigError for an id beyond
  /// the vocabulary.
  void fill(std::int64_t step, std::int64_t microbatch, std::span<std::int32_t> tokens,
            std::span<std::int32_t> targets, const ContextPart& part = {},
            std::span<std::int32_t> places = {}, std::span<std::int32_t> lengths = {}) const;

  /// Held-out microbatch `microbatch` < validation_microbatches(): the same data at every call, spread over
  /// all that is held out; of several sources by their weights, as the run is trained on. The last one begins
  /// anew with the first held-out samples if they do not fill it.
  void fill_validation(std::int64_t microbatch, std::span<std::int32_t> tokens,
                       std::span<std::int32_t> targets, const ContextPart& part = {},
                       std::span<std::int32_t> places = {}, std::span<std::int32_t> lengths = {}) const;

  /// What stands for the tokens of a microbatch of fill() where elements are dropped (row_keys.h).
  void fill_row_keys(std::int64_t step, std::int64_t microbatch, std::span<std::int32_t> keys,
                     const ContextPart& part = {}) const;

  /// Whether attention and positions are those of documents: data.packing.
  bool is_by_documents() const { return packing_ != DataPacking::none; }
  DataPacking packing() const { return packing_; }
  /// Whether every target is trained on.
  bool are_all_trained() const;
  /// The numbers of targets that a step's microbatches train on, and that the held-out microbatches have. The
  /// last held-out microbatch may begin anew.
  std::int64_t trained_targets(std::int64_t step) const;
  std::int64_t trained_validation_targets(HeldOutOnce once) const;
  /// How many sequences a held-out microbatch has before it begins anew: fewer than others at most in the
  /// last one.
  std::int64_t held_out_in(std::int64_t microbatch) const;

  /// Counts tokens, trained tokens and documents of all sources, and texts whose byte order mark was dropped.
  /// Held-out data are included. Facts that only the texts tell are left out.
  DataFacts facts() const;

  /// What a user should know about the data: a batch of more sequences than a source has holds some of them
  /// twice.
  std::vector<std::string> warnings() const;

  /// These count the sequences of all sources.
  std::int64_t training_sequences() const;
  std::int64_t validation_sequences() const;
  /// train.validation_batches, or as many as the held-out data fills; 0 if nothing is held out.
  std::int64_t validation_microbatches() const;

  /// Sequences of a microbatch.
  std::int64_t microbatch() const { return microbatch_; }

  /// Where sampling stands before step `step`: what a checkpoint stores, and a resumed run compares.
  std::vector<SourceState> state(std::int64_t step) const;

 private:
  struct Source {
    std::unique_ptr<const TokenSource> tokens;
    Sequences training;
    Sampler sampler;
  };
  /// Sequences that are held out, and the order in which they are taken.
  struct HeldOut {
    Sequences sequences;
    Permutation order;
  };
  /// One of the sequences.
  struct Sequence {
    const Sequences& of;
    std::int64_t number;
  };

  void open_sources(const RunConfig& config, std::int64_t vocabulary, const DataFiles& files);
  void open_validation(const RunConfig& config, std::int64_t vocabulary,
                       const std::vector<std::string>& files);
  void hold_out(Sequences sequences);
  std::span<std::int32_t> row(std::span<std::int32_t> matrix, std::int64_t index) const;
  Sequence training_sequence(std::int64_t sample) const;
  Sequence validation_sequence(std::int64_t sample) const;

  std::int64_t batch_, microbatch_, validation_batches_;
  DataPacking packing_;
  RowKeys row_keys_;
  std::vector<Source> sources_;
  Mixture mixture_;
  std::unique_ptr<const TokenSource> validation_files_;  ///< of data.validation; null: the ends of sources_
  std::vector<HeldOut> held_out_;  ///< of each source, or of data.validation; empty: nothing is
  Mixture validation_mixture_;
};

}  // namespace strata
