#include "engine/model/compute_block.h"

#include <cassert>
#include <cmath>

namespace strata {
namespace {

BlockLayers find_gpt2_layers(const Unit& unit, const Architecture& architecture) {
  BlockLayers layers;
  layers.attention_norm = find_norm(unit, architecture, "ln_1");
  layers.qkv = find_linear(unit, WeightOrder::conv1d, {"attn.c_attn"});
  layers.attention_out = find_linear(unit, WeightOrder::conv1d, {"attn.c_proj"});
  layers.mlp_norm = find_norm(unit, architecture, "ln_2");
  layers.up = find_linear(unit, WeightOrder::conv1d, {"mlp.c_fc"});
  layers.down = find_linear(unit, WeightOrder::conv1d, {"mlp.c_proj"});
  return layers;
}

BlockLayers find_llama_layers(const Unit& unit, const Architecture& architecture) {
  BlockLayers layers;
  layers.attention_norm = find_norm(unit, architecture, "input_layernorm");
  layers.qkv =
      find_linear(unit, WeightOrder::linear, {"self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"});
  if (architecture.qk_norm) {
    layers.query_norm = find_norm(unit, architecture, "self_attn.q_norm");
    layers.key_norm = find_norm(unit, architecture, "self_attn.k_norm");
  }
  layers.attention_out = find_linear(unit, WeightOrder::linear, {"self_attn.o_proj"});
  layers.mlp_norm = find_norm(unit, architecture, "post_attention_layernorm");
  layers.up = find_linear(unit, WeightOrder::linear, {"mlp.gate_proj", "mlp.up_proj"});
  layers.down = find_linear(unit, WeightOrder::linear, {"mlp.down_proj"});
  return layers;
}

AttentionShape attention_shape(const Architecture& architecture, MicrobatchShape shape) {
  AttentionShape attention;
  attention.batch = shape.batch;
  attention.sequence = shape.sequence;
  attention.heads = architecture.heads;
  attention.kv_heads = architecture.kv_heads;
  attention.head_dimension = architecture.head_dimension;
  attention.window = architecture.window;
  attention.scale = static_cast<float>(1 / std::sqrt(static_cast<double>(architecture.head_dimension)));
  return attention;
}

/// All blocks of a model have one layout.
BlockLayers find_layers(const Model& model) {
  assert(model.units.size() > 2);
  const Unit& block = model.units[1];
  return model.architecture.family == Family::gpt2 ? find_gpt2_layers(block, model.architecture)
                                                   : find_llama_layers(block, model.architecture);
}

}  // namespace

BlockCompute::BlockCompute(const Model& model, DType dtype, MicrobatchShape shape)
    : sizes_(model.architecture, dtype, shape),
      layers_(find_layers(model)),
      attention_(attention_shape(model.architecture, shape)) {
  if (model.architecture.family == Family::llama) rotary_ = model.architecture;
}

Bytes BlockCompute::saved_bytes() const {
  Scratch saved(nullptr);
  take_activations(saved, sizes_);
  return saved.peak();
}

Bytes BlockCompute::forward_workspace_bytes(bool save) const {
  Scratch workspace(nullptr);
  Scratch saved(nullptr);
  if (save) {
    saving_forward_memory(workspace, saved, sizes_, layers_.attention_norm, {});
  } else {
    plain_forward_memory(workspace, sizes_, layers_.attention_norm, {});
  }
  return workspace.peak();
}

Bytes BlockCompute::backward_workspace_bytes(bool saved) const {
  Scratch workspace(nullptr);
  Scratch activations(nullptr);
  backward_memory(workspace, saved ? &activations : nullptr, sizes_, layers_.attention_norm, {});
  return workspace.peak();
}

BlockCompute::Call BlockCompute::make_call(Kernels& kernels, const UnitMemory& memory) const {
  Call call{kernels, {memory.parameter, memory.gradient, sizes_.dtype}, {}, hidden_matrix(memory.input)};
  if (rotary_) call.rotary = rotary_tables(*rotary_, sizes_.shape.sequence, memory.constants);
  return call;
}

void BlockCompute::forward(Kernels& kernels, const UnitMemory& memory) const {
  const Call call = make_call(kernels, memory);
  const Matrix output = hidden_matrix(memory.output);
  Scratch workspace(memory.workspace);
  Scratch saved(memory.saved);
  const bool save = memory.saved != nullptr;
  const BlockForwardMemory forward =
      save ? saving_forward_memory(workspace, saved, sizes_, layers_.attention_norm, output)
           : plain_forward_memory(workspace, sizes_, layers_.attention_norm, output);
  compute_activations(call, forward.activations, forward.scratch);
  activate(call, forward.activations.pre_activation, forward.activation);
  // The MLP adds to the residual stream inside its product, in both modes alike.
  if (save) kernels.run(Cast{forward.activations.mid, output});
  layers_.down.forward(kernels, call.flat, forward.activation, output, /*accumulate=*/true);
}

void BlockCompute::backward(Kernels& kernels, const UnitMemory& memory) const {
  const Call call = make_call(kernels, memory);
  Scratch workspace(memory.workspace);
  Scratch saved(memory.saved);
  const BlockBackwardMemory backward =
      backward_memory(workspace, memory.saved != nullptr ? &saved : nullptr, sizes_, layers_.attention_norm,
                      hidden_matrix(memory.input_gradient));
  if (memory.saved == nullptr) {
    compute_activations(call, backward.activations, backward.scratch);
  } else {
    layers_.mlp_norm.forward(kernels, call.flat, backward.activations.mid, backward.scratch.normalised,
                             backward.scratch.statistics);
  }
  mlp_backward(call, backward, hidden_matrix(memory.output_gradient));
  attention_backward(call, backward);
}

/// Everything up to the MLP's activation; leaves the second norm's output and statistics in the scratch.
void BlockCompute::compute_activations(const Call& call, const BlockActivations& activations,
                                       const BlockScratch& scratch) const {
  auto& [kernels, flat, rotary, input] = call;
  layers_.attention_norm.forward(kernels, flat, input, scratch.normalised, scratch.statistics);
  layers_.qkv.forward(kernels, flat, scratch.normalised, activations.qkv);
  rotate(call, activations, scratch);
  kernels.run(AttentionForward{attention_, queries(activations, scratch), keys(activations, scratch),
                               values(activations.qkv), activations.attention, activations.log_sum_exp});
  layers_.attention_out.forward(kernels, flat, activations.attention, scratch.normalised);
  layers_.mlp_norm.forward_sum(kernels, flat, scratch.normalised, input, activations.mid, scratch.normalised,
                               scratch.statistics);
  layers_.up.forward(kernels, flat, scratch.normalised, activations.pre_activation);
}

Matrix BlockCompute::queries(const BlockActivations& activations, const BlockScratch& scratch) const {
  return (sizes_.qk_norm ? scratch.rotated : activations.qkv).column_slice(0, sizes_.query);
}

Matrix BlockCompute::keys(const BlockActivations& activations, const BlockScratch& scratch) const {
  return (sizes_.qk_norm ? scratch.rotated : activations.qkv)
      .column_slice(sizes_.query, sizes_.query_key - sizes_.query);
}

Matrix BlockCompute::values(const Matrix& qkv) const {
  return qkv.column_slice(sizes_.query_key, sizes_.query_key_value - sizes_.query_key);
}

/// Queries and keys to their positions; with a norm per head first, into scratch.rotated.
void BlockCompute::rotate(const Call& call, const BlockActivations& activations,
                          const BlockScratch& scratch) const {
  if (!rotary_) return;
  const std::int64_t dimension = attention_.head_dimension;
  for (std::int64_t head = 0; sizes_.qk_norm && head < sizes_.all_heads; ++head) {
    const NormLayer& norm = head < sizes_.heads ? *layers_.query_norm : *layers_.key_norm;
    norm.forward(call.kernels, call.flat, activations.qkv.column_slice(head * dimension, dimension),
                 scratch.rotated.column_slice(head * dimension, dimension),
                 {{}, scratch.head_statistics.row_slice(head, 1)});
  }
  const Matrix rotated = sizes_.qk_norm ? scratch.rotated : activations.qkv.column_slice(0, sizes_.query_key);
  call.kernels.run(Rope{rotated, sizes_.shape.sequence, dimension, call.rotary.cosine, call.rotary.sine});
}

/// In place on the columns of queries and keys.
void BlockCompute::rotate_backward(const Call& call, const BlockActivations& activations,
                                   const BlockScratch& scratch, const Matrix& qkv_gradient) const {
  if (!rotary_) return;
  const std::int64_t dimension = attention_.head_dimension;
  call.kernels.run(Rope{qkv_gradient.column_slice(0, sizes_.query_key), sizes_.shape.sequence, dimension,
                        call.rotary.cosine, call.rotary.sine, /*inverse=*/true});
  for (std::int64_t head = 0; sizes_.qk_norm && head < sizes_.all_heads; ++head) {
    const NormLayer& norm = head < sizes_.heads ? *layers_.query_norm : *layers_.key_norm;
    const Matrix gradient = qkv_gradient.column_slice(head * dimension, dimension);
    norm.backward(call.kernels, call.flat, activations.qkv.column_slice(head * dimension, dimension),
                  {{}, scratch.head_statistics.row_slice(head, 1)}, gradient, {}, gradient);
  }
}

void BlockCompute::activate(const Call& call, const Matrix& pre_activation, const Matrix& activation) const {
  if (sizes_.gated) {
    call.kernels.run(SwigluForward{pre_activation, activation});
  } else {
    call.kernels.run(GeluForward{pre_activation, activation});
  }
}

/// From the gradient of the output to the gradient of the residual stream between attention and MLP, which
/// replaces scratch.normalised.
void BlockCompute::mlp_backward(const Call& call, const BlockBackwardMemory& memory,
                                const Matrix& output_gradient) const {
  auto& [kernels, flat, rotary, input] = call;
  const Matrix& pre_activation = memory.activations.pre_activation;
  const Matrix& normalised = memory.scratch.normalised;
  activate(call, pre_activation, memory.activation);
  layers_.down.add_gradients(kernels, flat, memory.activation, output_gradient);
  layers_.down.input_gradient(kernels, flat, output_gradient, memory.activation);
  if (sizes_.gated) {
    kernels.run(SwigluBackward{pre_activation, memory.activation, memory.pre_activation_gradient});
  } else {
    kernels.run(GeluBackward{pre_activation, memory.activation, memory.pre_activation_gradient});
  }
  layers_.up.add_gradients(kernels, flat, normalised, memory.pre_activation_gradient);
  layers_.up.input_gradient(kernels, flat, memory.pre_activation_gradient, normalised);
  layers_.mlp_norm.backward(kernels, flat, memory.activations.mid, memory.scratch.statistics, normalised,
                            output_gradient, normalised);
}

/// From the gradient of the residual stream in scratch.normalised to the input's gradient, which replaces it.
void BlockCompute::attention_backward(const Call& call, const BlockBackwardMemory& memory) const {
  auto& [kernels, flat, rotary, input] = call;
  const BlockActivations& activations = memory.activations;
  const Matrix& residual_gradient = memory.scratch.normalised;
  layers_.attention_out.add_gradients(kernels, flat, activations.attention, residual_gradient);
  layers_.attention_out.input_gradient(kernels, flat, residual_gradient, memory.attention_gradient);
  if (sizes_.qk_norm) rotate(call, activations, memory.scratch);
  const Matrix& gradient = memory.qkv_gradient;
  kernels.run(AttentionBackward{
      attention_, queries(activations, memory.scratch), keys(activations, memory.scratch),
      values(activations.qkv), activations.attention, activations.log_sum_exp, memory.attention_gradient,
      gradient.column_slice(0, sizes_.query),
      gradient.column_slice(sizes_.query, sizes_.query_key - sizes_.query), values(gradient)});
  rotate_backward(call, activations, memory.scratch, gradient);
  layers_.attention_norm.forward(kernels, flat, input, memory.normalised_input, memory.scratch.statistics);
  layers_.qkv.add_gradients(kernels, flat, memory.normalised_input, gradient);
  layers_.qkv.input_gradient(kernels, flat, gradient, memory.normalised_input);
  layers_.attention_norm.backward(kernels, flat, input, memory.scratch.statistics, memory.normalised_input,
                                  residual_gradient, residual_gradient);
}

/// One of the causal products (query by key, or probabilities by value): only pairs that a token sees count.
double BlockCompute::attention_product_flops() const {
  const auto sequence = static_cast<double>(attention_.sequence);
  const auto window =
      attention_.window > 0 ? std::fmin(static_cast<double>(attention_.window), sequence) : sequence;
  const double pairs = static_cast<double>(attention_.batch) * (window * sequence - window * window / 2);
  return 2 * pairs * static_cast<double>(sizes_.query);
}

double BlockCompute::forward_flops() const {
  const std::int64_t tokens = sizes_.tokens;
  return layers_.qkv.flops(tokens) + layers_.attention_out.flops(tokens) + layers_.up.flops(tokens) +
         layers_.down.flops(tokens) + 2 * attention_product_flops();
}

double BlockCompute::backward_flops(bool saved) const {
  const double down = layers_.down.flops(sizes_.tokens);
  const double products = forward_flops() - 2 * attention_product_flops();
  // Attention's backward has five products: it recomputes the scores. The recomputed forward stops before
  // `down`.
  return 2 * products + 5 * attention_product_flops() + (saved ? 0 : forward_flops() - down);
}

}  // namespace strata
