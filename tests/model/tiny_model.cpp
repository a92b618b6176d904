#include "tests/model/tiny_model.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <numeric>
#include <utility>

#include "base/random.h"

namespace strata::test {
namespace {

constexpr std::size_t kGuard = 256;
constexpr std::byte kPattern{0xA5};
constexpr std::byte kNaN{0xFF};

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

}  // namespace

GuardedMemory::GuardedMemory(Bytes bytes)
    : size_(bytes), offset_(0), bytes_(static_cast<std::size_t>(bytes + kAlignment) + 2 * kGuard, kPattern) {
  const auto front = reinterpret_cast<std::uintptr_t>(bytes_.data()) + kGuard;
  offset_ =
      kGuard + static_cast<std::size_t>(align_up(static_cast<Bytes>(front)) - static_cast<Bytes>(front));
  std::fill_n(data(), size_, kNaN);
}

bool GuardedMemory::intact() const {
  const auto is_pattern = [](std::byte byte) { return byte == kPattern; };
  const auto front_end = bytes_.begin() + static_cast<std::ptrdiff_t>(offset_);
  return std::all_of(bytes_.begin(), front_end, is_pattern) &&
         std::all_of(front_end + static_cast<std::ptrdiff_t>(size_), bytes_.end(), is_pattern);
}

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
  return {{"gpt2", gpt2()},          {"gpt2_untied", untied_gpt2},
          {"llama_untied", llama()}, {"llama_tied", tied_llama},
          {"qwen2", qwen2},          {"qwen3", qwen3},
          {"mistral", mistral}};
}

std::vector<float> random_values(std::int64_t count, std::uint64_t seed) {
  const CounterRandom random(seed, 0);
  std::vector<float> values(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = random.normal(i);
  return values;
}

std::vector<std::int32_t> random_tokens(std::int64_t count, std::int64_t vocabulary, std::uint64_t seed) {
  const CounterRandom random(seed, 1);
  std::vector<std::int32_t> tokens(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    tokens[i] = static_cast<std::int32_t>(random.integer(i) % static_cast<std::uint64_t>(vocabulary));
  }
  return tokens;
}

GuardedMemory in_memory(const std::vector<float>& values, DType dtype) {
  GuardedMemory memory(static_cast<Bytes>(values.size()) * size_of(dtype));
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (dtype == DType::fp32) {
      reinterpret_cast<float*>(memory.data())[i] = values[i];
    } else {
      reinterpret_cast<bfloat16*>(memory.data())[i] = bfloat16(values[i]);
    }
  }
  return memory;
}

std::vector<float> floats_of(GuardedMemory& memory) {
  std::vector<float> values(static_cast<std::size_t>(memory.size()) / sizeof(float));
  std::memcpy(values.data(), memory.data(), values.size() * sizeof(float));
  return values;
}

TinyModel::TinyModel(const Architecture& architecture, DType dtype, MicrobatchShape shape)
    : model_(build_model(architecture)),
      dtype_(dtype),
      shape_(shape),
      compute_(model_, dtype, shape),
      constants_(compute_.constant_bytes()),
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
    GuardedMemory workspace(compute_.forward_workspace_bytes(unit, save));
    activations.saved.emplace_back(save ? compute_.saved_bytes(unit) : 0);
    activations.boundaries.emplace_back(compute_.boundary_bytes());
    memory.parameter = parameters[i].data();
    memory.constants = constants_.data();
    memory.tokens = tokens_.data();
    memory.workspace = workspace.data();
    if (activations.saved.back().size() > 0) memory.saved = activations.saved.back().data();
    if (i > 0) memory.input = activations.boundaries[i - 1].data();
    memory.output = activations.boundaries[i].data();
    compute_.forward(kernels_, unit.kind, memory);
    EXPECT_TRUE(workspace.intact()) << unit.name << " wrote outside its workspace";
    EXPECT_TRUE(activations.saved.back().intact()) << unit.name << " wrote outside its saved activations";
  }
  for (const GuardedMemory& boundary : activations.boundaries) EXPECT_TRUE(boundary.intact());
  return activations;
}

void TinyModel::forward_head(std::vector<GuardedMemory>& parameters, Activations& activations,
                             GuardedMemory& losses) {
  GuardedMemory workspace(compute_.forward_workspace_bytes(model_.head(), false));
  UnitMemory memory;
  memory.parameter = parameters.back().data();
  memory.shared_parameter = parameters.front().data();
  memory.workspace = workspace.data();
  memory.input = activations.boundaries.back().data();
  memory.targets = targets_.data();
  memory.losses = reinterpret_cast<float*>(losses.data());
  compute_.forward(kernels_, UnitKind::head, memory);
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
                              GuardedMemory& losses, bool save) {
  Activations activations = forward(parameters, save);
  GuardedMemory output_gradient(compute_.boundary_bytes());
  for (std::size_t i = model_.units.size(); i-- > 0;) {
    const Unit& unit = model_.units[i];
    GuardedMemory workspace(compute_.backward_workspace_bytes(unit, save));
    GuardedMemory input_gradient(compute_.boundary_bytes());
    UnitMemory memory;
    memory.parameter = parameters[i].data();
    memory.shared_parameter = parameters.front().data();
    memory.gradient = reinterpret_cast<float*>(gradients[i].data());
    memory.shared_gradient = reinterpret_cast<float*>(gradients.front().data());
    memory.constants = constants_.data();
    memory.tokens = tokens_.data();
    memory.targets = targets_.data();
    memory.losses = reinterpret_cast<float*>(losses.data());
    memory.workspace = workspace.data();
    if (unit.kind == UnitKind::block && save) memory.saved = activations.saved[i].data();
    if (i > 0) memory.input = activations.boundaries[i - 1].data();
    memory.output_gradient = output_gradient.data();
    memory.input_gradient = input_gradient.data();
    compute_.backward(kernels_, unit.kind, memory, 1.0F / static_cast<float>(shape_.tokens()));
    EXPECT_TRUE(workspace.intact()) << unit.name << " wrote outside its workspace";
    EXPECT_TRUE(input_gradient.intact() && output_gradient.intact() && gradients[i].intact()) << unit.name;
    output_gradient = std::move(input_gradient);
  }
  for (const auto* group : {&parameters, &gradients, &activations.boundaries, &activations.saved}) {
    for (const GuardedMemory& memory : *group) EXPECT_TRUE(memory.intact());
  }
  EXPECT_TRUE(losses.intact() && constants_.intact());
}

BackwardResult TinyModel::backward(bool save, int passes) {
  std::vector<GuardedMemory> parameters = parameter_memory();
  std::vector<GuardedMemory> gradients;
  for (const Unit& unit : model_.units) {
    gradients.push_back(in_memory(std::vector<float>(static_cast<std::size_t>(unit.elements)), DType::fp32));
  }
  GuardedMemory losses(shape_.tokens() * size_of(DType::fp32));
  for (int pass = 0; pass < passes; ++pass) backward_once(parameters, gradients, losses, save);
  BackwardResult result;
  for (GuardedMemory& gradient : gradients) result.gradients.push_back(floats_of(gradient));
  result.losses = floats_of(losses);
  return result;
}

}  // namespace strata::test
