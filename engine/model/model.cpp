#include "engine/model/model.h"

#include <fmt/format.h>

#include "base/checked.h"

namespace strata {
namespace {

/// Matrices start at cache lines in fp32 and bf16 alike.
constexpr std::int64_t kTensorAlignment = 64;

constexpr std::int64_t align(std::int64_t elements, std::int64_t alignment) {
  return checked_sum(elements, alignment - 1) / alignment * alignment;
}

/// Places tensors one after another in a unit's flat parameter.
class UnitLayout {
 public:
  UnitLayout(UnitKind kind, std::string name, std::string prefix) : prefix_(std::move(prefix)) {
    unit_.kind = kind;
    unit_.name = std::move(name);
  }

  /// A tensor that starts at the alignment.
  void add(const std::string& name, std::vector<std::int64_t> shape, Init init) {
    end_ = align(end_, kTensorAlignment);
    append(name, std::move(shape), init);
  }

  /// A tensor right behind the last one: one product uses both.
  void append(const std::string& name, std::vector<std::int64_t> shape, Init init) {
    TensorSpec tensor;
    tensor.hf_name = prefix_ + name;
    tensor.elements = 1;
    for (const std::int64_t size : shape) tensor.elements = checked_product(tensor.elements, size);
    tensor.decay = shape.size() > 1;
    tensor.hf_shape = std::move(shape);
    tensor.offset = end_;
    tensor.init = init;
    end_ = checked_sum(end_, tensor.elements);
    unit_.parameters += tensor.elements;
    unit_.tensors.push_back(std::move(tensor));
  }

  Unit finish() {
    unit_.elements = align(end_, kFlatAlignment);
    return std::move(unit_);
  }

 private:
  std::string prefix_;
  Unit unit_;
  std::int64_t end_ = 0;
};

Unit gpt2_embedding(const Architecture& a) {
  UnitLayout layout(UnitKind::embedding, "embedding", "transformer.");
  layout.add("wte.weight", {a.vocabulary, a.hidden}, Init::normal);
  layout.add("wpe.weight", {a.max_positions, a.hidden}, Init::normal);
  return layout.finish();
}

/// HF's Conv1D stores its matrices as [in, out]; q, k and v are the columns of c_attn.
Unit gpt2_block(const Architecture& a, std::int64_t index) {
  UnitLayout layout(UnitKind::block, fmt::format("block.{}", index), fmt::format("transformer.h.{}.", index));
  layout.add("ln_1.weight", {a.hidden}, Init::ones);
  layout.add("ln_1.bias", {a.hidden}, Init::zeros);
  layout.add("attn.c_attn.weight", {a.hidden, 3 * a.hidden}, Init::normal);
  layout.add("attn.c_attn.bias", {3 * a.hidden}, Init::zeros);
  layout.add("attn.c_proj.weight", {a.hidden, a.hidden}, Init::residual_normal);
  layout.add("attn.c_proj.bias", {a.hidden}, Init::zeros);
  layout.add("ln_2.weight", {a.hidden}, Init::ones);
  layout.add("ln_2.bias", {a.hidden}, Init::zeros);
  layout.add("mlp.c_fc.weight", {a.hidden, a.intermediate}, Init::normal);
  layout.add("mlp.c_fc.bias", {a.intermediate}, Init::zeros);
  layout.add("mlp.c_proj.weight", {a.intermediate, a.hidden}, Init::residual_normal);
  layout.add("mlp.c_proj.bias", {a.hidden}, Init::zeros);
  return layout.finish();
}

Unit gpt2_head(const Architecture& a) {
  UnitLayout layout(UnitKind::head, "head", "");
  layout.add("transformer.ln_f.weight", {a.hidden}, Init::ones);
  layout.add("transformer.ln_f.bias", {a.hidden}, Init::zeros);
  if (!a.tied_head) layout.add("lm_head.weight", {a.vocabulary, a.hidden}, Init::normal);
  return layout.finish();
}

Unit llama_embedding(const Architecture& a) {
  UnitLayout layout(UnitKind::embedding, "embedding", "model.");
  layout.add("embed_tokens.weight", {a.vocabulary, a.hidden}, Init::normal);
  return layout.finish();
}

Unit llama_block(const Architecture& a, std::int64_t index) {
  UnitLayout layout(UnitKind::block, fmt::format("block.{}", index), fmt::format("model.layers.{}.", index));
  layout.add("input_layernorm.weight", {a.hidden}, Init::ones);
  layout.add("self_attn.q_proj.weight", {a.query_columns(), a.hidden}, Init::normal);
  layout.append("self_attn.k_proj.weight", {a.kv_columns(), a.hidden}, Init::normal);
  layout.append("self_attn.v_proj.weight", {a.kv_columns(), a.hidden}, Init::normal);
  if (a.qkv_bias) {
    layout.add("self_attn.q_proj.bias", {a.query_columns()}, Init::zeros);
    layout.append("self_attn.k_proj.bias", {a.kv_columns()}, Init::zeros);
    layout.append("self_attn.v_proj.bias", {a.kv_columns()}, Init::zeros);
  }
  if (a.qk_norm) {
    layout.add("self_attn.q_norm.weight", {a.head_dimension}, Init::ones);
    layout.add("self_attn.k_norm.weight", {a.head_dimension}, Init::ones);
  }
  layout.add("self_attn.o_proj.weight", {a.hidden, a.query_columns()}, Init::normal);
  layout.add("post_attention_layernorm.weight", {a.hidden}, Init::ones);
  layout.add("mlp.gate_proj.weight", {a.intermediate, a.hidden}, Init::normal);
  layout.append("mlp.up_proj.weight", {a.intermediate, a.hidden}, Init::normal);
  layout.add("mlp.down_proj.weight", {a.hidden, a.intermediate}, Init::normal);
  return layout.finish();
}

Unit llama_head(const Architecture& a) {
  UnitLayout layout(UnitKind::head, "head", "");
  layout.add("model.norm.weight", {a.hidden}, Init::ones);
  if (!a.tied_head) layout.add("lm_head.weight", {a.vocabulary, a.hidden}, Init::normal);
  return layout.finish();
}

}  // namespace

std::int64_t Model::parameters() const {
  std::int64_t sum = 0;
  for (const Unit& unit : units) sum = checked_sum(sum, unit.parameters);
  return sum;
}

Model build_model(const Architecture& architecture) {
  const bool gpt2 = architecture.family == Family::gpt2;
  Model model;
  model.architecture = architecture;
  model.units.reserve(static_cast<std::size_t>(architecture.layers + 2));
  model.units.push_back(gpt2 ? gpt2_embedding(architecture) : llama_embedding(architecture));
  for (std::int64_t i = 0; i < architecture.layers; ++i) {
    model.units.push_back(gpt2 ? gpt2_block(architecture, i) : llama_block(architecture, i));
  }
  model.units.push_back(gpt2 ? gpt2_head(architecture) : llama_head(architecture));
  return model;
}

double forward_flops_per_token(const Model& model, std::int64_t sequence) {
  const Architecture& a = model.architecture;
  double matrices = static_cast<double>(a.vocabulary) * static_cast<double>(a.hidden);
  for (const Unit& unit : model.units) {
    if (unit.kind != UnitKind::block) continue;
    for (const TensorSpec& tensor : unit.tensors) {
      if (tensor.hf_shape.size() == 2) matrices += static_cast<double>(tensor.elements);
    }
  }
  const double attention =
      static_cast<double>(sequence) * static_cast<double>(a.query_columns()) * static_cast<double>(a.layers);
  return 2 * matrices + 2 * attention;
}

}  // namespace strata
