#include "engine/run/checkpoint/initial_weights.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <memory>
#include <vector>

#include "base/hash.h"
#include "base/nth.h"
#include "base/resolved_path.h"
#include "base/task_arena.h"
#include "engine/config/run_config.h"
#include "engine/model/initialize.h"
#include "engine/model/model.h"
#include "engine/model/weight_norms.h"
#include "engine/run/checkpoint/rounded_blocks.h"

namespace strata {
namespace {

/// body(first, piece) for pieces of `values`, by the threads of the arena that the caller runs in.
template <typename Body>
void for_pieces(std::span<float> values, const Body& body) {
  constexpr std::int64_t kPiece = 256 * 1024;
  for_ranges(std::ssize(values), kPiece, [&](std::int64_t first, std::int64_t last, int) {
    body(first, slice(values, first, last - first));
  });
}

/// Hashes a sample of `weights`: some from the first on, and some in the middle.
template <typename Read>
void add_samples(std::int64_t weights, StreamingHash& hash, const Read& read) {
  constexpr std::int64_t kSamples = 256;
  auto samples = sized<std::vector<float>>(std::min(kSamples, weights));
  for (const std::int64_t first : {std::int64_t{0}, (weights - std::ssize(samples)) / 2}) {
    read(first, std::span(samples));
    hash.update(std::as_bytes(std::span(samples)));
  }
}

}  // namespace

InitialWeights::InitialWeights(const RunConfig& config, const Model& model) : config_(config), model_(model) {
  if (!config.model.path.empty()) folder_.emplace(config.model.path, model);
  if (model.adapts() && !config.adapter.path.empty()) adapters_.emplace(config.adapter.path, model);
}

void InitialWeights::read(const Unit& unit, FlatRange range, std::span<float> out) const {
  const ReadTensor read = [this](const TensorSpec& tensor, std::int64_t first, std::span<float> values) {
    read_tensor(tensor, first, values);
  };
  const ReadTensor weights = adapters_ ? ReadTensor() : as_passes_decode(read);
  for_pieces(out, [&](std::int64_t first, std::span<float> piece) {
    fill_unit(unit, {range.first + first, std::ssize(piece), range.flat}, read, weights, piece);
  });
}

/// Codes in blocks stand for other numbers than those that are there.
ReadTensor InitialWeights::as_passes_decode(const ReadTensor& read) const {
  const ParameterFormat format = config_.memory.frozen_as;
  return has_blocks(format) ? read_rounded_blocks(read, format, config_.precision()) : read;
}

void InitialWeights::read_tensor(const TensorSpec& tensor, std::int64_t first, std::span<float> out) const {
  if (tensor.is_adapter && adapters_) {
    adapters_->read_tensor(tensor.hf_name, first, out);
  } else if (!tensor.is_adapter && folder_) {
    folder_->read_tensor(tensor.hf_name, first, out);
  } else {
    initialize_tensor(model_.architecture, tensor, config_.train.seed, first, out);
  }
}

std::string InitialWeights::hash_of_tensors(const std::function<bool(const TensorSpec&)>& takes) const {
  std::map<std::string, const TensorSpec*> tensors;  // a rank's order may be its own
  for (const Unit& unit : model_.units) {
    for (const TensorSpec& tensor : unit.tensors)
      if (takes(tensor)) tensors[tensor.hf_name] = &tensor;
  }
  StreamingHash hash;
  for (const auto& [name, tensor] : tensors) {
    const auto read = [this, of = tensor](std::int64_t first, std::span<float> weights) {
      read_tensor(*of, first, weights);
    };
    add_samples(tensor->whole_elements(), hash, read);
  }
  return hex(hash.digest());
}

std::string InitialWeights::hash_of_samples() const {
  if (!folder_ && !adapters_) return "";
  return hash_of_tensors([this](const TensorSpec& tensor) {
    return tensor.is_adapter ? adapters_.has_value() : folder_.has_value();
  });
}

std::string InitialWeights::hash_of_frozen_samples() const {
  return hash_of_tensors([](const TensorSpec& tensor) { return tensor.flat == Flat::frozen; });
}

std::string InitialWeights::description() const {
  std::string text = folder_ ? "weights from " + config_.model.path
                             : fmt::format("random weights, seed {}", config_.train.seed);
  if (folder_ && has_pickled_weights(config_.model.path))
    text += " (its safetensors, not its pytorch_model.bin)";
  if (adapters_) return text + ", adapters from " + config_.adapter.path;
  return model_.adapts() && folder_ ? text + ", random adapters" : text;
}

BaseWeights base_weights(const RunConfig& config, const Model& model) {
  auto weights = std::make_shared<const InitialWeights>(config, model);
  const std::string& path = config.model.path;
  return {.identity = {.path = path.empty() ? "" : resolved(path).string(),
                       .seed = path.empty() ? config.train.seed : 0,
                       .samples = weights->hash_of_frozen_samples(),
                       .frozen_as = has_blocks(config.memory.frozen_as) ? config.memory.frozen_as
                                                                        : ParameterFormat::precision},
          .read = [weights](const TensorSpec& tensor, std::int64_t begin, std::span<float> out) {
            for_pieces(out, [&](std::int64_t first, std::span<float> piece) {
              weights->read_tensor(tensor, begin + first, piece);
            });
          }};
}

}  // namespace strata
