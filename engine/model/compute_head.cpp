#include "engine/model/compute_head.h"

#include <algorithm>

namespace strata {
namespace {

constexpr std::int64_t kChunkRowMultiple = 64;

std::int64_t rows_per_chunk(std::int64_t tokens, std::int64_t vocabulary, DType dtype,
                            Bytes max_chunk_bytes) {
  const std::int64_t fitting = max_chunk_bytes / (vocabulary * size_of(dtype));
  const std::int64_t whole = fitting / kChunkRowMultiple * kChunkRowMultiple;
  return std::min(tokens, std::max(kChunkRowMultiple, whole));
}

/// Calls body(first row, rows) for each chunk.
template <typename Body>
void for_each_chunk(std::int64_t tokens, std::int64_t chunk_rows, const Body& body) {
  for (std::int64_t first = 0; first < tokens; first += chunk_rows) {
    body(first, std::min(chunk_rows, tokens - first));
  }
}

}  // namespace

EmbeddingCompute::EmbeddingCompute(const Model& model, DType dtype, MicrobatchShape shape)
    : dtype_(dtype),
      shape_(shape),
      hidden_(model.architecture.hidden),
      vocabulary_(model.architecture.vocabulary),
      max_positions_(model.architecture.max_positions),
      padding_token_(static_cast<std::int32_t>(model.architecture.padding_token.value_or(kNoRow))) {
  if (model.architecture.family == Family::gpt2) {
    table_ = find_tensor(model.embedding(), "wte.weight").offset;
    positions_ = find_tensor(model.embedding(), "wpe.weight").offset;
  } else {
    table_ = find_tensor(model.embedding(), "embed_tokens.weight").offset;
  }
}

void EmbeddingCompute::forward(Kernels& kernels, const UnitMemory& memory) const {
  const FlatParameter flat{memory.parameter, nullptr, dtype_};
  const auto tokens = static_cast<std::size_t>(shape_.tokens());
  kernels.run(EmbeddingForward{{memory.tokens, tokens},
                               flat.value(table_, vocabulary_, hidden_),
                               positions_ ? flat.value(*positions_, max_positions_, hidden_) : Matrix{},
                               shape_.sequence,
                               {memory.output, dtype_, shape_.tokens(), hidden_}});
}

void EmbeddingCompute::backward(Kernels& kernels, const UnitMemory& memory) const {
  const FlatParameter flat{memory.parameter, memory.gradient, dtype_};
  const auto tokens = static_cast<std::size_t>(shape_.tokens());
  kernels.run(EmbeddingBackward{
      .tokens = {memory.tokens, tokens},
      .sequence = shape_.sequence,
      .out_gradient = {memory.output_gradient, dtype_, shape_.tokens(), hidden_},
      .table_gradient = flat.gradient_of(table_, vocabulary_, hidden_),
      .positions_gradient = positions_ ? flat.gradient_of(*positions_, max_positions_, hidden_) : Matrix{},
      .padding_token = padding_token_});
}

HeadCompute::HeadCompute(const Model& model, DType dtype, MicrobatchShape shape, Bytes max_chunk_bytes)
    : dtype_(dtype),
      shape_(shape),
      norm_(find_norm(model.head(), model.architecture,
                      model.architecture.family == Family::gpt2 ? "transformer.ln_f" : "model.norm")),
      tied_(model.architecture.tied_head),
      chunk_rows_(rows_per_chunk(shape.tokens(), model.architecture.vocabulary, dtype, max_chunk_bytes)) {
  if (tied_) {
    projection_.inputs = model.architecture.hidden;
    projection_.outputs = model.architecture.vocabulary;
    projection_.weight = model.embedding().tensors.front().offset;
  } else {
    projection_ = find_linear(model.head(), WeightOrder::linear, {"lm_head"});
  }
}

HeadCompute::Memory HeadCompute::take_memory(Scratch& workspace, bool backward) const {
  Memory memory;
  memory.statistics = take_statistics(workspace, norm_, shape_.tokens());
  memory.logits = workspace.take(dtype_, chunk_rows_, projection_.outputs);
  if (!backward) memory.normalised = workspace.take(dtype_, chunk_rows_, projection_.inputs);
  return memory;
}

Bytes HeadCompute::forward_workspace_bytes() const {
  Scratch workspace(nullptr);
  take_memory(workspace, /*backward=*/false);
  return workspace.peak();
}

Bytes HeadCompute::backward_workspace_bytes() const {
  Scratch workspace(nullptr);
  take_memory(workspace, /*backward=*/true);
  return workspace.peak();
}

FlatParameter HeadCompute::projection_parameter(const UnitMemory& memory) const {
  return tied_ ? FlatParameter{memory.shared_parameter, memory.shared_gradient, dtype_}
               : FlatParameter{memory.parameter, memory.gradient, dtype_};
}

void HeadCompute::forward(Kernels& kernels, const UnitMemory& memory) const {
  Scratch workspace(memory.workspace);
  const Memory scratch = take_memory(workspace, /*backward=*/false);
  const Matrix input(memory.input, dtype_, shape_.tokens(), projection_.inputs);
  const Matrix losses(memory.losses, DType::fp32, 1, shape_.tokens());
  const FlatParameter flat{memory.parameter, nullptr, dtype_};
  for_each_chunk(shape_.tokens(), chunk_rows_, [&](std::int64_t first, std::int64_t rows) {
    const Matrix normalised = scratch.normalised.row_slice(0, rows);
    const Matrix logits = scratch.logits.row_slice(0, rows);
    norm_.forward(kernels, flat, input.row_slice(first, rows), normalised,
                  scratch.statistics.rows(first, rows));
    projection_.forward(kernels, projection_parameter(memory), normalised, logits);
    kernels.run(CrossEntropy{logits,
                             {memory.targets + first, static_cast<std::size_t>(rows)},
                             losses.column_slice(first, rows),
                             /*gradient_scale=*/1,
                             /*loss_scale=*/nullptr,
                             /*gradient=*/false});
  });
}

void HeadCompute::backward(Kernels& kernels, const UnitMemory& memory, float gradient_scale) const {
  Scratch workspace(memory.workspace);
  const Memory scratch = take_memory(workspace, /*backward=*/true);
  const Matrix input(memory.input, dtype_, shape_.tokens(), projection_.inputs);
  // Holds each chunk's norm output until that chunk's gradient replaces it.
  const Matrix gradient(memory.input_gradient, dtype_, shape_.tokens(), projection_.inputs);
  const Matrix losses(memory.losses, DType::fp32, 1, shape_.tokens());
  const FlatParameter flat{memory.parameter, memory.gradient, dtype_};
  const FlatParameter projection = projection_parameter(memory);
  for_each_chunk(shape_.tokens(), chunk_rows_, [&](std::int64_t first, std::int64_t rows) {
    const Matrix chunk = gradient.row_slice(first, rows);
    const Matrix logits = scratch.logits.row_slice(0, rows);
    norm_.forward(kernels, flat, input.row_slice(first, rows), chunk, scratch.statistics.rows(first, rows));
    projection_.forward(kernels, projection, chunk, logits);
    kernels.run(CrossEntropy{logits,
                             {memory.targets + first, static_cast<std::size_t>(rows)},
                             losses.column_slice(first, rows),
                             gradient_scale,
                             memory.loss_scale});
    projection_.add_gradients(kernels, projection, chunk, logits);
    projection_.input_gradient(kernels, projection, logits, chunk);
  });
  norm_.backward(kernels, flat, input, scratch.statistics, gradient, {}, gradient);
}

}  // namespace strata
