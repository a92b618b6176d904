#include "engine/model/compute_memory.h"

namespace strata {

NormStatistics take_statistics(Scratch& scratch, const NormLayer& norm, std::int64_t rows) {
  NormStatistics statistics;
  if (norm.kind == NormKind::layer_norm) statistics.mean = scratch.take(DType::fp32, 1, rows);
  statistics.reciprocal_deviation = scratch.take(DType::fp32, 1, rows);
  return statistics;
}

BlockSizes::BlockSizes(const Architecture& architecture, DType dtype, MicrobatchShape shape)
    : dtype(dtype),
      shape(shape),
      tokens(shape.tokens()),
      hidden(architecture.hidden),
      heads(architecture.heads),
      all_heads(architecture.heads + architecture.kv_heads),
      query(architecture.query_columns()),
      query_key(query + architecture.kv_columns()),
      query_key_value(query_key + architecture.kv_columns()),
      pre_activation(architecture.intermediate * (architecture.family == Family::llama ? 2 : 1)),
      activation(architecture.intermediate),
      gated(architecture.family == Family::llama),
      qk_norm(architecture.qk_norm) {}

namespace {

/// Everything but mid and pre_activation, whose place differs.
BlockActivations take_attention(Scratch& scratch, const BlockSizes& sizes) {
  BlockActivations activations;
  activations.qkv = scratch.take(sizes.dtype, sizes.tokens, sizes.query_key_value);
  activations.attention = scratch.take(sizes.dtype, sizes.tokens, sizes.query);
  activations.log_sum_exp = scratch.take(DType::fp32, sizes.shape.batch * sizes.heads, sizes.shape.sequence);
  return activations;
}

BlockScratch take_scratch(Scratch& workspace, const BlockSizes& sizes, const NormLayer& norm) {
  BlockScratch scratch;
  scratch.statistics = take_statistics(workspace, norm, sizes.tokens);
  if (sizes.qk_norm) scratch.head_statistics = workspace.take(DType::fp32, sizes.all_heads, sizes.tokens);
  return scratch;
}

Matrix take_rotated(Scratch& workspace, const BlockSizes& sizes) {
  return sizes.qk_norm ? workspace.take(sizes.dtype, sizes.tokens, sizes.query_key) : Matrix{};
}

}  // namespace

BlockActivations take_activations(Scratch& scratch, const BlockSizes& sizes) {
  BlockActivations activations = take_attention(scratch, sizes);
  activations.mid = scratch.take(sizes.dtype, sizes.tokens, sizes.hidden);
  activations.pre_activation = scratch.take(sizes.dtype, sizes.tokens, sizes.pre_activation);
  return activations;
}

BlockForwardMemory saving_forward_memory(Scratch& workspace, Scratch& saved, const BlockSizes& sizes,
                                         const NormLayer& norm, const Matrix& output) {
  BlockForwardMemory memory;
  memory.activations = take_activations(saved, sizes);
  memory.scratch = take_scratch(workspace, sizes, norm);
  memory.scratch.normalised = output;
  const Bytes reused = workspace.position();
  memory.scratch.rotated = take_rotated(workspace, sizes);
  workspace.move_to(reused);
  memory.activation = workspace.take(sizes.dtype, sizes.tokens, sizes.activation);
  return memory;
}

BlockForwardMemory plain_forward_memory(Scratch& workspace, const BlockSizes& sizes, const NormLayer& norm,
                                        const Matrix& output) {
  BlockForwardMemory memory;
  memory.scratch = take_scratch(workspace, sizes, norm);
  // The MLP's activations take the place of attention's, which are dead by then.
  const Bytes reused = workspace.position();
  memory.activations = take_attention(workspace, sizes);
  memory.scratch.rotated = take_rotated(workspace, sizes);
  const Bytes attention_end = workspace.position();
  workspace.move_to(reused);
  memory.activations.mid = output;
  memory.activations.pre_activation = workspace.take(sizes.dtype, sizes.tokens, sizes.pre_activation);
  workspace.move_to(std::max(workspace.position(), attention_end));
  const Bytes last = workspace.position();
  memory.scratch.normalised = workspace.take(sizes.dtype, sizes.tokens, sizes.hidden);
  if (sizes.gated) {
    workspace.move_to(last);
    memory.activation = workspace.take(sizes.dtype, sizes.tokens, sizes.activation);
  } else {
    memory.activation = memory.activations.pre_activation;
  }
  return memory;
}

BlockBackwardMemory backward_memory(Scratch& workspace, Scratch* saved, const BlockSizes& sizes,
                                    const NormLayer& norm, const Matrix& input_gradient) {
  BlockBackwardMemory memory;
  memory.scratch = take_scratch(workspace, sizes, norm);
  memory.scratch.normalised = input_gradient;
  Bytes reused = workspace.position();
  if (saved != nullptr) {
    memory.activations = take_activations(*saved, sizes);
  } else {
    memory.activations = take_attention(workspace, sizes);
    memory.activations.mid = workspace.take(sizes.dtype, sizes.tokens, sizes.hidden);
    // From here on bytes serve three times: rotated in the recomputed forward, then the MLP, then attention's
    // gradients.
    reused = workspace.position();
    memory.activations.pre_activation = workspace.take(sizes.dtype, sizes.tokens, sizes.pre_activation);
  }
  memory.activation = workspace.take(sizes.dtype, sizes.tokens, sizes.activation);
  memory.pre_activation_gradient = sizes.gated ? memory.activations.pre_activation : memory.activation;
  workspace.move_to(reused);
  memory.scratch.rotated = take_rotated(workspace, sizes);
  memory.qkv_gradient = workspace.take(sizes.dtype, sizes.tokens, sizes.query_key_value);
  const Bytes last = workspace.position();
  memory.attention_gradient = workspace.take(sizes.dtype, sizes.tokens, sizes.query);
  workspace.move_to(last);
  memory.normalised_input = workspace.take(sizes.dtype, sizes.tokens, sizes.hidden);
  return memory;
}

}  // namespace strata
