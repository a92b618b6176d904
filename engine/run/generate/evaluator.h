// The mean loss of documents under a model: each is cut into windows, in which every token but the document's
// first is predicted once from those before it in its window. Windows of about one length go through the
// model together, unit by unit. One thread.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "base/arena.h"
#include "engine/device/device.h"
#include "engine/run/generate/forward_pass.h"
#include "engine/run/generate/unit_parameters.h"

namespace strata {

struct EvaluationOptions {
  DType precision = DType::fp32;
  std::int64_t sequence = 1024;  ///< tokens of a window at most
  std::int64_t batch = 4;        ///< windows that go through the model together
  ParameterBudget budget;        ///< the device's is for all but what kernels need
  /// Bytes of text that a token stands for; nothing: they are not counted.
  std::function<std::int64_t(std::int32_t)> text_bytes;
};

struct EvaluationResult {
  double loss_sum = 0;          ///< of all tokens that count, in nats
  std::int64_t tokens = 0;      ///< that count
  std::int64_t text_bytes = 0;  ///< of these
  std::int64_t documents = 0, windows = 0;

  double mean_loss() const { return loss_sum / static_cast<double>(tokens); }
  double perplexity() const;
  double bits_per_byte() const;
};

class Evaluator {
 public:
  /// Throws ConfigError if a window is longer than the model's longest sequence, or the budget is too small.
  /// `model` and `device` outlive this.
  Evaluator(Device& device, const Model& model, ReadParameters read, EvaluationOptions options);

  /// A document; of `trained` tokens only, one for each id: 0 if it does not count; empty: all do. Throws
  /// ConfigError for an id beyond the vocabulary.
  void add(std::span<const std::int32_t> ids, std::span<const std::uint8_t> trained);
  /// Runs what still waits, and sums up all that was added.
  EvaluationResult result();

  const UnitParameters& parameters() const { return *parameters_; }
  Bytes device_bytes() const { return parameters_->device_bytes() + layout_.bytes; }
  Bytes scratch_bytes() const { return stream_->kernels().scratch_bytes(); }

 private:
  struct Window {
    std::vector<std::int32_t> tokens, targets;
  };
  struct Layout {
    Bytes tokens = 0, targets = 0, losses = 0, first = 0, second = 0, workspace = 0, tables = 0;
    Bytes bytes = 0;
  };

  void plan_memory();
  const UnitPass& pass(const Unit& unit, std::int64_t windows, std::int64_t length);
  void run(std::span<const Window> windows, std::int64_t length);
  void count(std::span<const Window> windows, std::int64_t length);
  std::byte* at(Bytes offset) const { return memory_->data() + offset; }

  Device& device_;
  const Model& model_;
  EvaluationOptions options_;
  PositionTables tables_;
  std::map<std::int64_t, std::vector<Window>> waiting_;  ///< by the length that they are brought to
  std::map<std::pair<std::size_t, std::pair<std::int64_t, std::int64_t>>, UnitPass> passes_;
  Layout layout_;
  Arena host_;  ///< tokens, targets and losses
  std::unique_ptr<PinnedHostMemory> pinned_;
  std::unique_ptr<Stream> stream_;
  std::unique_ptr<Event> done_;
  std::unique_ptr<UnitParameters> parameters_;
  std::unique_ptr<DeviceMemory> memory_;
  EvaluationResult result_;
};

}  // namespace strata
