// Samples of a run: prompts that its model goes on with between its steps, by its weights as they are then.
// Every token is a round of a program (lower_sampling()) over all samples as they are. Data-parallel ranks
// have them in turns; all ranks know what each has come to.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/context_part.h"
#include "base/sequence_form.h"
#include "engine/device/matrix.h"
#include "engine/input/data/training_data.h"
#include "engine/plan/lower/strategy.h"

namespace strata {

struct Sample {
  std::string prompt;
  std::string text;               ///< that follows it
  std::vector<std::int32_t> ids;  ///< of that text, with the token that it stopped at
};

/// Used by one lane of a program at a time.
class Samples {
 public:
  struct Setup {
    SamplePrompts prompts;
    SampleShape shape;
    std::int64_t vocabulary = 0;
    float soft_cap = 0;  ///< c > 0: a logit x counts as c · tanh(x / c)
    std::int64_t data_rank = 0, data_ranks = 1, tensor_rank = 0;
    ContextPart context = {};
    SequenceForm form = {};
    std::function<bool()> stop_requested = {};  ///< of this rank, if there are several
  };
  explicit Samples(Setup setup) : setup_(std::move(setup)) {}

  /// The prompts, with nothing behind them.
  void begin();
  /// What a round reads: this rank's samples as they are, each in a sequence.
  void fill(const MicrobatchData& data) const;
  /// `logits` are this rank's columns for a row of each of its samples; `all` is [samples, vocabulary], with
  /// zeros in the columns of others.
  void join(const Matrix& logits, std::span<float> all) const;
  /// The tokens that follow this rank's samples, as numbers that ranks add up: next_token_numbers(). No
  /// logits: others have them.
  void choose(std::span<const float> logits, std::span<double> next) const;
  /// The sums of all ranks.
  void take(std::span<const double> next);

  /// Sequences that this rank's passes have.
  std::int64_t rows() const { return setup_.shape.of_rank.batch; }
  std::int64_t ended() const;
  bool is_done() const { return ended() == std::ssize(sequences_); }
  /// A rank was asked to stop; all know it.
  bool is_stopped() const { return is_stopped_; }
  std::vector<Sample> result() const;

 private:
  struct Sequence {
    std::vector<std::int32_t> ids;
    bool is_done = false;
  };
  static constexpr std::int64_t kNoPrompt = -1;

  /// Which prompt the rank's sequence of this number is.
  std::int64_t prompt_of(std::int64_t sequence) const;
  /// In which of the rank's rows of a sequence that position is; nothing if another rank has it.
  std::optional<std::int64_t> row_of(std::int64_t position) const;

  Setup setup_;
  std::vector<Sequence> sequences_;  ///< by prompt
  bool is_stopped_ = false;
};

}  // namespace strata
