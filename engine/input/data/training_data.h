// Where a run's data come from, as functions that fill what the model reads, by numbers of its arrays: text
// here, anything else whose loader fills the arrays that the model declares
// (engine/model/graph/data_array.h).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "engine/input/data/batch_loader.h"

namespace strata {

/// The memory of one microbatch's arrays.
class MicrobatchData {
 public:
  static constexpr std::size_t kMost = 4;

  /// REQUIRES: number < kMost.
  void set(std::size_t number, std::span<std::byte> array) { arrays_[number] = array; }

  /// Empty if nobody reads it. REQUIRES: T is what the array is declared as.
  template <typename T>
  std::span<T> array(std::size_t number) const {
    const std::span<std::byte> bytes = arrays_[number];
    return {reinterpret_cast<T*>(bytes.data()), bytes.size() / sizeof(T)};
  }

 private:
  std::array<std::span<std::byte>, kMost> arrays_ = {};
};

/// Fills the arrays of one microbatch of one step. Called from the data lane; must not allocate.
using LoadMicrobatch =
    std::function<void(std::int64_t step, std::int64_t microbatch, const MicrobatchData& data)>;

/// How many tokens of a step have a loss, in all microbatches of all ranks: what the step's loss is the mean
/// over.
using LossTerms = std::function<std::int64_t(std::int64_t step)>;

/// Where sampling stands before a step, for checkpoints.
using SamplerPosition = std::function<nlohmann::json(std::int64_t step)>;

/// What samples begin with, and how they go on.
struct SamplePrompts {
  struct Prompt {
    std::string text;
    std::vector<std::int32_t> ids;  ///< not empty, and shorter than a sample may be
  };
  std::vector<Prompt> prompts = {};
  std::set<std::int32_t> stops = {};  ///< a sample ends behind one of these
  /// Which token stands at `position` of its sequence behind a prompt, by a logit for each.
  std::function<std::int32_t(std::span<const float> logits, std::size_t prompt, std::size_t position)>
      choose = {};
  std::function<std::string(std::span<const std::int32_t> ids)> decode = {};
};

struct TrainingData {
  LoadMicrobatch training;
  LoadMicrobatch validation;  ///< its step is of no meaning
  SamplerPosition sampler;
  LossTerms training_terms = {}, validation_terms = {};  ///< nothing: all tokens
  SamplePrompts prompts = {};                            ///< of samples, if the run takes any
};

/// How a model takes text.
struct TextForm {
  HeldOutOnce once = HeldOutOnce::yes;
  std::int64_t short_length = 0;  ///< SequenceForm::short_length
};

/// Text: tokens are array 0, targets array 1, kUntrained where there is none; behind them, if tokens say
/// where they stand (SequenceForm), token_places(), and then row keys (row_keys.h), kWithoutDropout in a
/// validation. Of each array that a model asks for, what a rank has of each sequence. `loader` must outlive
/// the result.
TrainingData training_data(const BatchLoader& loader, const ContextPart& part = {},
                           const TextForm& text = {});

}  // namespace strata
