#include "engine/run/tune/size_limit.h"

#include <fmt/format.h>

#include <vector>

#include "base/error.h"
#include "engine/config/run_config.h"
#include "engine/model/graph/data_array.h"
#include "engine/model/graph/graph_shape.h"
#include "engine/model/model.h"
#include "engine/plan/lower/strategy.h"

namespace strata {
namespace {

// Instructions: per unit and microbatch, with the copies of all operands; per unit, microbatch and step of a
// ring; per unit; and per piece of state.
constexpr double kPerTrainingPass = 14, kPerValidationPass = 6, kPerTrainingRing = 7, kPerValidationRing = 2,
                 kPerUnit = 24, kPerPiece = 10;
/// Kernel calls per chunk of rows, in the passes that a unit with chunks has.
constexpr double kPerChunk = 10;
/// Offsets are bytes in an int64, and planning adds some of them up.
constexpr double kLargestBytes = 0x1p60;

void check_instructions(const RunConfig& config, const Model& model) {
  const auto units = static_cast<double>(model.units.size());
  const auto refuse = [&](std::string_view what, double instructions, std::string_view advice) {
    throw ConfigError(
        fmt::format("{} through {} units of the model take about {:.3g} instructions, and a program has at "
                    "most {:.3g}; {}",
                    what, model.units.size(), instructions, kLargestProgram, advice));
  };
  const std::int64_t microbatches = config.microbatches();
  const double steps = config.parallel.context > 1 ? static_cast<double>(config.parallel.context) : 0;
  double pieces = 0;
  if (!config.memory.nvme_path.empty()) {
    for (const Unit& unit : model.units)
      pieces += static_cast<double>(unit.elements * size_of(DType::fp32)) / static_cast<double>(kDrivePiece);
  }
  const double training =
      units * ((kPerTrainingPass + kPerTrainingRing * steps) * static_cast<double>(microbatches) + kPerUnit) +
      kPerPiece * pieces;
  if (training > kLargestProgram) {
    refuse(fmt::format("train.batch: {} microbatches per step", microbatches), training,
           steps > 0
               ? "raise train.microbatch, or lower train.batch, parallel.context or the number of layers"
               : "raise train.microbatch, or lower train.batch or the number of layers");
  }
  if (config.train.validate_every == 0) return;
  const double passes =
      static_cast<double>(config.train.validation_batches) / static_cast<double>(config.parallel.data) + 1;
  const double validation = units * (kPerValidationPass + kPerValidationRing * steps) * passes;
  if (validation > kLargestProgram) {
    refuse(fmt::format("train.validation_batches: {} microbatches", config.train.validation_batches),
           validation, "lower train.validation_batches");
  }
}

/// More than all buffers of a step together, in doubles, which do not wrap around.
void check_bytes(const RunConfig& config, const Model& model) {
  const auto number = [](std::int64_t value) { return static_cast<double>(value); };
  const MicrobatchShape shape = {config.train.microbatch, config.data.sequence_length};
  const double passes = number(config.microbatches()) +
                        number(config.train.validate_every > 0 ? config.train.validation_batches : 0);
  const std::vector<DataArray> data = data_of(model.graphs);
  std::vector<double> of_kind;
  for (const UnitGraph& graph : model.graphs) {
    double elements = 0;
    for (const Tensor& tensor : graph.tensors)
      elements += tensor.rows.extent().about(shape) * tensor.columns.extent().about(shape);
    of_kind.push_back(elements);
  }
  double bytes = 0;
  for (const Unit& unit : model.units) {
    bytes += 64 * of_kind[unit.kind] * passes;
    if (unit.sparse_row == 0) continue;
    bytes += 16 * data[unit.row_numbers].elements.about(shape) * number(unit.sparse_row) *
             number(config.microbatches()) * number(config.parallel.data);
  }
  if (bytes > kLargestBytes) {
    throw ConfigError(fmt::format(
        "train.microbatch: {} samples of data.sequence_length {} have more bytes of activations than a "
        "machine addresses; make either smaller",
        config.train.microbatch, config.data.sequence_length));
  }
  double parameters = 0;
  for (const Unit& unit : model.units) parameters += number(unit.elements) + number(unit.frozen_elements);
  if (64 * (parameters + number(config.parallel.data)) > kLargestBytes) {
    throw ConfigError(fmt::format(
        "the model: {:.3g} parameters have more bytes of state than a machine addresses", parameters));
  }
}

/// A pass holds each of its kernel calls. REQUIRES: check_bytes() lets it through, so that sizes do not wrap
/// around.
void check_chunks(const RunConfig& config, const Model& model) {
  const GraphShape shape = {.precision = config.train.precision.value_or(DType::bf16).storage,
                            .microbatch = {config.train.microbatch, config.data.sequence_length},
                            .max_chunk_bytes = model.max_chunk_bytes};
  const auto ranks =
      static_cast<double>(config.parallel.context) * static_cast<double>(config.parallel.tensor);
  for (const UnitGraph& graph : model.graphs) {
    const std::int64_t rows = chunk_rows(graph, shape);
    if (rows == 0) continue;
    const double calls =
        kPerChunk * static_cast<double>(shape.microbatch.tokens()) / static_cast<double>(rows) / ranks;
    if (calls <= kLargestProgram) continue;
    throw ConfigError(fmt::format(
        "train.microbatch: {} samples of data.sequence_length {} meet the vocabulary in chunks "
        "of {} tokens, with about {:.3g} kernel calls, and a program has at most {:.3g}; make either smaller",
        config.train.microbatch, config.data.sequence_length, rows, calls, kLargestProgram));
  }
}

}  // namespace

void check_size(const RunConfig& config, const Model& model) {
  check_instructions(config, model);
  check_bytes(config, model);
  check_chunks(config, model);
}

}  // namespace strata
