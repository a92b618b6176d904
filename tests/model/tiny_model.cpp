#include "tests/model/tiny_model.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "base/random.h"
#include "engine/model/build_model.h"
#include "engine/model/model.h"

namespace strata::test {
namespace {

Architecture llama() {
  Architecture a;
  a.model_type = "llama";
  a.family = Family::llama;
  a.layers = 2;
  a.hidden = 12;
  a.heads = 6;
  a.kv_heads = 2;
  a.head_dimension = 4;  // heads · head_dimension is not hidden
  a.intermediate = 14;
  a.vocabulary = 19;
  a.max_positions = 32;
  a.norm_epsilon = 1e-5;
  return a;
}

Architecture gpt2() {
  Architecture a = llama();
  a.model_type = "gpt2";
  a.family = Family::gpt2;
  a.heads = a.kv_heads = 3;
  a.intermediate = 4 * a.hidden;
  a.tied_head = true;
  return a;
}

Architecture olmo2() {
  Architecture a = llama();
  a.model_type = "olmo2";
  a.qkv_bias = a.out_bias = true;
  return a;
}

Architecture phi3() {
  Architecture a = llama();
  a.model_type = "phi3";
  a.window = 3;
  return a;
}

Architecture granite() {
  Architecture a = llama();
  a.model_type = "granite";
  a.tied_head = true;
  a.qkv_bias = a.out_bias = a.mlp_bias = true;
  a.embedding_scale = 1.5;
  a.query_scale = 0.3;
  a.residual_scale = 0.6;
  a.logits_divisor = 2.5;
  return a;
}

Architecture starcoder2() {
  Architecture a = llama();
  a.model_type = "starcoder2";
  a.tied_head = true;
  a.qkv_bias = a.out_bias = a.mlp_bias = true;
  return a;
}

/// Without a layer that sees all, tokens see only the windows of `layers` layers.
Architecture gemma3(std::vector<bool> slides) {
  Architecture a = llama();
  a.model_type = "gemma3_text";
  a.tied_head = true;
  a.qk_norm = true;
  a.query_scale = 0.4;
  a.embedding_scale = 3.5;
  a.window = 3;
  a.slides = std::move(slides);
  a.layers = std::ssize(a.slides);
  a.rope.linear_factor = 8;
  a.sliding_rope = RopeOptions{.theta = 100};
  return a;
}

/// Caps that scores and logits come up to.
Architecture gemma2() {
  Architecture a = gemma3({true, false});
  a.model_type = "gemma2";
  a.qk_norm = false;
  a.scores_cap = 0.5;
  a.logits_cap = 1.5;
  a.rope.linear_factor = 1;
  a.sliding_rope = {};
  return a;
}

Architecture mixtral() {
  Architecture a = llama();
  a.model_type = "mixtral";
  a.experts = 5;
  a.experts_per_token = 2;
  a.expert_intermediate = a.intermediate;
  return a;
}

Architecture balanced(Architecture a) {
  a.balance_coefficient = 0.4;
  return a;
}

/// A layer without experts, and one with.
Architecture qwen3_moe(bool normalises_experts) {
  Architecture a = llama();
  a.model_type = "qwen3_moe";
  a.qk_norm = true;
  a.experts = 4;
  a.experts_per_token = 3;
  a.expert_intermediate = 7;
  a.normalises_experts = normalises_experts;
  a.has_experts = {false, true};
  return a;
}

}  // namespace

std::vector<TinyArchitecture> tiny_architectures() {
  Architecture untied_gpt2 = gpt2();
  untied_gpt2.tied_head = false;
  Architecture tied_llama = llama();
  tied_llama.tied_head = true;
  tied_llama.rope.llama3 = RopeOptions::Llama3{8, 1, 4, 16};
  Architecture qwen2 = llama();
  qwen2.model_type = "qwen2";
  qwen2.qkv_bias = true;
  Architecture qwen3 = llama();
  qwen3.model_type = "qwen3";
  qwen3.qk_norm = true;
  qwen3.head_dimension = 8;
  Architecture mistral = llama();
  mistral.model_type = "mistral";
  mistral.window = 3;
  return {{"gpt2", gpt2()},
          {"gpt2_untied", untied_gpt2},
          {"llama_untied", llama()},
          {"llama_tied", tied_llama},
          {"qwen2", qwen2},
          {"qwen3", qwen3},
          {"mistral", mistral},
          {"olmo2", olmo2()},
          {"phi3", phi3()},
          {"granite", granite()},
          {"starcoder2", starcoder2()},
          {"gemma2", gemma2()},
          {"gemma3", gemma3({true, false})},
          {"gemma3_sliding", gemma3({true, true})},
          {"mixtral", mixtral()},
          {"mixtral_balanced", balanced(mixtral())},
          {"qwen3_moe", qwen3_moe(false)},
          {"qwen3_moe_balanced", balanced(qwen3_moe(false))},
          {"qwen3_moe_normalised", qwen3_moe(true)}};
}

Architecture tiny_llama_to_split() {
  Architecture architecture = llama();
  architecture.heads = 4;
  architecture.kv_heads = 2;
  architecture.intermediate = 16;
  return architecture;
}

std::vector<std::int32_t> random_tokens(std::int64_t count, std::int64_t vocabulary, std::uint64_t seed) {
  const CounterRandom random(seed, 1);
  std::vector<std::int32_t> tokens(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    tokens[i] = static_cast<std::int32_t>(random.integer(i) % static_cast<std::uint64_t>(vocabulary));
  }
  return tokens;
}

TinyModel::TinyModel(const Architecture& architecture, DType dtype, MicrobatchShape shape)
    : model_(build_model(architecture)),
      dtype_(dtype),
      shape_(shape),
      compute_(model_, dtype, shape),
      constants_(compute_.constant_bytes()),
      tally_(compute_.tally_elements() * size_of(DType::fp32)),
      tokens_(random_tokens(shape.tokens(), architecture.vocabulary, 1)),
      targets_(random_tokens(shape.tokens(), architecture.vocabulary, 2)) {
  compute_.fill_constants({constants_.data(), static_cast<std::size_t>(constants_.size())});
  std::uint64_t seed = 3;
  for (const Unit& unit : model_.units) {
    // Padding is zero. Norm weights lie around one; the rest is large enough that every part of the model
    // matters.
    std::vector<float>& flat = parameters_.emplace_back(static_cast<std::size_t>(unit.elements), 0.0F);
    for (const TensorSpec& tensor : unit.tensors) {
      const std::vector<float> values = random_values(tensor.elements, seed++);
      for (std::size_t i = 0; i < values.size(); ++i) {
        flat[static_cast<std::size_t>(tensor.offset) + i] =
            (tensor.init == Init::ones ? 1 : 0) + 0.3F * values[i];
      }
    }
  }
}

std::vector<GuardedMemory> TinyModel::parameter_memory() const {
  std::vector<GuardedMemory> memory;
  for (const auto& flat : parameters_) memory.push_back(in_memory(flat, dtype_));
  return memory;
}

TinyModel::Activations TinyModel::forward(std::vector<GuardedMemory>& parameters, bool save) {
  Activations activations;
  activations.boundaries.reserve(model_.units.size());
  for (std::size_t i = 0; i + 1 < model_.units.size(); ++i) {
    const Unit& unit = model_.units[i];
    UnitMemory memory;
    const UnitPasses& passes = compute_.passes(unit);
    const UnitPasses::Level& level = save ? passes.saving_all() : passes.saving_nothing();
    const UnitPass& pass = level.forward;
    GuardedMemory workspace(pass.workspace_bytes());
    activations.saved.emplace_back(level.saved_bytes);
    activations.boundaries.emplace_back(compute_.input_bytes(model_.units[i + 1]));
    memory[Region::parameter] = parameters[i].data();
    memory[Region::constants] = constants_.data();
    memory[data_region(0)] = reinterpret_cast<std::byte*>(tokens_.data());
    memory[Region::workspace] = workspace.data();
    if (activations.saved.back().size() > 0) memory[Region::saved] = activations.saved.back().data();
    if (i > 0) memory[Region::input] = activations.boundaries[i - 1].data();
    memory[Region::output] = activations.boundaries[i].data();
    memory[Region::tally] = tally_.data();
    pass.run(kernels_, memory, 1);
    EXPECT_TRUE(workspace.intact()) << unit.name << " wrote outside its workspace";
    EXPECT_TRUE(activations.saved.back().intact()) << unit.name << " wrote outside its saved activations";
  }
  for (const GuardedMemory& boundary : activations.boundaries) EXPECT_TRUE(boundary.intact());
  return activations;
}

void TinyModel::forward_head(std::vector<GuardedMemory>& parameters, Activations& activations,
                             GuardedMemory& losses) {
  const UnitPass& pass = compute_.passes(model_.head()).saving_nothing().forward;
  GuardedMemory workspace(pass.workspace_bytes());
  UnitMemory memory;
  memory[Region::parameter] = parameters.back().data();
  memory[Region::shared_parameter] = parameters.front().data();
  memory[Region::workspace] = workspace.data();
  memory[Region::input] = activations.boundaries.back().data();
  memory[data_region(1)] = reinterpret_cast<std::byte*>(targets_.data());
  memory[Region::losses] = losses.data();
  memory[Region::tally] = tally_.data();
  pass.run(kernels_, memory, 1);
  EXPECT_TRUE(workspace.intact() && losses.intact());
}

std::vector<std::byte> TinyModel::last_activation(bool save) {
  std::vector<GuardedMemory> parameters = parameter_memory();
  Activations activations = forward(parameters, save);
  GuardedMemory& last = activations.boundaries.back();
  return {last.data(), last.data() + last.size()};
}

std::vector<float> TinyModel::losses() {
  std::vector<GuardedMemory> parameters = parameter_memory();
  Activations activations = forward(parameters, false);
  GuardedMemory losses(shape_.tokens() * size_of(DType::fp32));
  forward_head(parameters, activations, losses);
  return floats_of(losses);
}

double TinyModel::loss() {
  const std::vector<float> all = losses();
  return std::accumulate(all.begin(), all.end(), 0.0) / static_cast<double>(all.size());
}

void TinyModel::backward_once(std::vector<GuardedMemory>& parameters, std::vector<GuardedMemory>& gradients,
                              GuardedMemory& losses, bool save, bool in_two) {
  Activations activations = forward(parameters, save);
  GuardedMemory output_gradient(compute_.input_bytes(model_.head()));
  for (std::size_t i = model_.units.size(); i-- > 0;) {
    const Unit& unit = model_.units[i];
    const UnitPasses& passes = compute_.passes(unit);
    const UnitPasses::Level& level = save ? passes.saving_all() : passes.saving_nothing();
    const bool saved = level.saved_bytes > 0;
    GuardedMemory pending(level.pending_bytes);
    GuardedMemory input_gradient(compute_.input_bytes(unit));
    UnitMemory memory;
    memory[Region::parameter] = parameters[i].data();
    memory[Region::shared_parameter] = parameters.front().data();
    memory[Region::gradient] = gradients[i].data();
    memory[Region::shared_gradient] = gradients.front().data();
    memory[Region::constants] = constants_.data();
    memory[data_region(0)] = reinterpret_cast<std::byte*>(tokens_.data());
    memory[data_region(1)] = reinterpret_cast<std::byte*>(targets_.data());
    memory[Region::losses] = losses.data();
    memory[Region::pending] = pending.data();
    if (saved) memory[Region::saved] = activations.saved[i].data();
    if (i > 0) memory[Region::input] = activations.boundaries[i - 1].data();
    memory[Region::output_gradient] = output_gradient.data();
    memory[Region::input_gradient] = input_gradient.data();
    memory[Region::tally] = tally_.data();
    const auto run = [&](const UnitPass& pass) {
      GuardedMemory workspace(pass.workspace_bytes());
      memory[Region::workspace] = workspace.data();
      pass.run(kernels_, memory, 1.0F / static_cast<float>(shape_.tokens()));
      EXPECT_TRUE(workspace.intact() && pending.intact()) << unit.name << " wrote outside its workspace";
    };
    if (in_two) {
      run(level.input_gradient);
      run(level.weight_gradient);
    } else {
      run(level.backward);
    }
    EXPECT_TRUE(input_gradient.intact() && output_gradient.intact() && gradients[i].intact()) << unit.name;
    output_gradient = std::move(input_gradient);
  }
  for (const auto* group : {&parameters, &gradients, &activations.boundaries, &activations.saved}) {
    for (const GuardedMemory& memory : *group) EXPECT_TRUE(memory.intact());
  }
  EXPECT_TRUE(losses.intact() && constants_.intact() && tally_.intact());
}

BackwardResult TinyModel::backward(bool save, int passes, bool in_two) {
  std::vector<GuardedMemory> parameters = parameter_memory();
  std::vector<GuardedMemory> gradients;
  for (const Unit& unit : model_.units) {
    gradients.push_back(in_memory(std::vector<float>(static_cast<std::size_t>(unit.elements)), DType::fp32));
  }
  GuardedMemory losses(shape_.tokens() * size_of(DType::fp32));
  for (int pass = 0; pass < passes; ++pass) backward_once(parameters, gradients, losses, save, in_two);
  BackwardResult result;
  for (GuardedMemory& gradient : gradients) result.gradients.push_back(floats_of(gradient));
  result.losses = floats_of(losses);
  return result;
}

}  // namespace strata::test
