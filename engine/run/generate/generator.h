// Tokens that follow prompts: the prompts go through the model whole, once, and then one token of each
// sequence at a time, which meets the keys and values of those before it in a cache. One thread.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <vector>

#include "base/arena.h"
#include "engine/device/device.h"
#include "engine/run/generate/forward_pass.h"
#include "engine/run/generate/key_value_cache.h"
#include "engine/run/generate/sampling.h"
#include "engine/run/generate/unit_parameters.h"

namespace strata {

using TokenIds = std::vector<std::int32_t>;

struct GenerationOptions {
  DType precision = DType::fp32;
  std::int64_t max_tokens = 256;  ///< that follow each prompt
  std::set<std::int32_t> stops;   ///< a sequence ends behind one of these
  SamplingOptions sampling;
  ParameterBudget budget;                 ///< the device's is for all but what kernels need
  std::function<bool()> is_stopped = {};  ///< asked behind each token, to end there; empty: never
};

enum class StopReason : std::uint8_t { stop_token, max_tokens, longest_sequence, interrupted };

struct Continuation {
  TokenIds ids;  ///< with the token that it stopped at
  StopReason reason = StopReason::max_tokens;
};

struct GenerationFigures {
  double prompt_seconds = 0;  ///< up to the first token of each sequence
  double token_seconds = 0;   ///< of all that follow
  std::int64_t prompt_tokens = 0, new_tokens = 0;
  std::int64_t later_tokens = 0;  ///< of new_tokens those behind each first
};

class Generator {
 public:
  /// Called for each token as it comes, with its prompt's number.
  using OnToken = std::function<void(std::size_t prompt, std::int32_t token)>;

  /// Reads parameters and takes memory. Throws ConfigError if there is no prompt, one is empty, has an id
  /// beyond the vocabulary or is as long as the model's longest sequence, or the budget is too small. `model`
  /// and `device` outlive this. `parameters` are those of an earlier generator of this model, device and
  /// precision, or null: they are read once more only if the budget has no room for both.
  Generator(Device& device, const Model& model, ReadParameters read, std::vector<TokenIds> prompts,
            GenerationOptions options, std::shared_ptr<UnitParameters> parameters = nullptr);

  /// What follows each prompt. A row of logits per sequence decides, whatever the other prompts are; once.
  std::vector<Continuation> run(const OnToken& on_token = {});

  const GenerationFigures& figures() const { return figures_; }
  const UnitParameters& parameters() const { return *parameters_; }
  /// For the next generator. Two that share them do not run at the same time.
  std::shared_ptr<UnitParameters> shared_parameters() const { return parameters_; }
  Bytes cache_bytes() const { return cache_.bytes(); }
  /// Memory of the device, with the parameters, and without what kernels need.
  Bytes device_bytes() const { return parameters_->device_bytes() + layout_.bytes; }
  Bytes scratch_bytes() const { return stream_->kernels().scratch_bytes(); }

 private:
  /// Offsets in the device's memory.
  struct Layout {
    Bytes cache = 0, first = 0, second = 0, workspace = 0, last_rows = 0, logits = 0, input = 0, tables = 0;
    Bytes bytes = 0;
  };
  /// One block of memory that a step of single tokens is given.
  struct StepInput {
    Bytes lengths = 0, tables = 0, bytes = 0;  ///< tokens come first
  };
  struct Sequence {
    TokenIds ids;  ///< of the prompt, and behind it
    std::size_t prompt_length = 0;
    std::int32_t cached = 0;  ///< tokens in the cache
    bool is_done = false;
    StopReason reason = StopReason::max_tokens;

    std::int32_t length() const { return static_cast<std::int32_t>(ids.size()); }
  };

  void check_prompts(const std::vector<TokenIds>& prompts) const;
  void plan_memory();
  const UnitPass& prompt_pass(const Unit& unit, std::int64_t length);
  bool needs_whole_pass(const Sequence& sequence) const;
  void read_whole(const std::vector<std::size_t>& which);
  void read_newest();
  void run_unit_on_whole(std::size_t unit, const std::vector<std::size_t>& which, std::byte* from,
                         std::byte* to, UnitMemory& memory);
  void run_unit_on_newest(std::size_t unit, const UnitMemory& memory);
  bool run_step_on_newest(std::size_t unit, const Segment::Step& step, const UnitMemory& memory);
  void run_head();
  void take_tokens(const OnToken& on_token);
  void add_token(std::size_t number, std::int32_t token);
  bool is_done() const;
  std::byte* at(Bytes offset) const { return memory_->data() + offset; }
  void await_stream();
  /// What rows take that a unit hands on, with what is left free behind them.
  Bytes hidden_bytes(std::int64_t rows) const;
  Matrix hidden_rows(std::byte* start, std::int64_t rows) const;

  Device& device_;
  const Model& model_;
  GenerationOptions options_;
  std::vector<Sequence> sequences_;
  std::int64_t capacity_;
  KeyValueCache cache_;
  PositionTables tables_;
  RotaryLayout newest_tables_;
  StepInput input_;
  LogitsPass head_;
  std::map<std::pair<std::size_t, std::int64_t>, UnitPass> prompt_passes_;  ///< by kind and length
  std::map<std::size_t, UnitPass> newest_passes_;                           ///< by kind
  Layout layout_;
  Arena host_;  ///< a step's input, tokens of prompts, logits
  std::unique_ptr<PinnedHostMemory> pinned_;
  Bytes host_logits_ = 0;
  std::unique_ptr<Stream> stream_;
  std::unique_ptr<Event> done_;
  std::shared_ptr<UnitParameters> parameters_;
  std::unique_ptr<DeviceMemory> memory_;
  GenerationFigures figures_;
};

}  // namespace strata
