#include "engine/model/model.h"
#include "engine/config/adapter_section.h"
#include "engine/config/choices.h"
#include "engine/model/build_model.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace strata {
namespace {

using nlohmann::json;

Model build(const json& config) {
  return build_model(parse_architecture(config, "test"));
}

const json kTinyGpt2 = {{"model_type", "gpt2"}, {"n_layer", 2},     {"n_embd", 12},
                        {"n_head", 3},          {"vocab_size", 11}, {"n_positions", 7}};
const json kTinyQwen2 = {{"model_type", "qwen2"},    {"num_hidden_layers", 2},   {"hidden_size", 12},
                         {"num_attention_heads", 6}, {"num_key_value_heads", 3}, {"intermediate_size", 10},
                         {"vocab_size", 11}};
const json kTinyQwen3 = {
    {"model_type", "qwen3"},    {"num_hidden_layers", 2},  {"hidden_size", 12}, {"num_attention_heads", 6},
    {"num_key_value_heads", 3}, {"intermediate_size", 10}, {"vocab_size", 11},  {"head_dim", 4}};

std::vector<std::string> names(const Unit& unit) {
  std::vector<std::string> result;
  for (const TensorSpec& tensor : unit.tensors) result.push_back(tensor.hf_name);
  return result;
}

const TensorSpec& find(const Unit& unit, const std::string& ending) {
  for (const TensorSpec& tensor : unit.tensors) {
    if (tensor.hf_name.ends_with(ending)) return tensor;
  }
  throw std::out_of_range(ending);
}

using Shape = std::vector<std::int64_t>;

/// As many adapters of the same shapes, on other layers: their graphs read other tensors.
TEST(Model, LayersWithOtherAdaptersAreOfOtherKinds) {
  json config = kTinyQwen2;
  config["num_hidden_layers"] = 4;
  AdapterSection adapter;
  adapter.type = AdapterType::lora;
  adapter.targets = {"*.0.self_attn.k_proj", "*.1.self_attn.k_proj", "*.2.self_attn.v_proj",
                     "*.3.self_attn.k_proj"};
  const Model model = build_model(parse_architecture(config, "test"), {.adapter = adapter});
  EXPECT_NE(model.units[2].kind, model.units[3].kind);
  EXPECT_EQ(model.units[2].kind, model.units[4].kind);
}

TEST(Model, UnitsAreTheEmbeddingTheBlocksAndTheHead) {
  const Model model = build(kTinyGpt2);
  ASSERT_EQ(model.units.size(), 4U);
  EXPECT_EQ(model.embedding().name, "embedding");
  EXPECT_EQ(model.units[1].name, "block.0");
  EXPECT_EQ(model.units[2].name, "block.1");
  EXPECT_EQ(model.head().name, "head");
  EXPECT_EQ(model.units[1].kind, model.units[2].kind);
  EXPECT_EQ(model.graphs.size(), 3U);
}

TEST(Model, Gpt2TensorsAreThoseOfGpt2LmHeadModel) {
  const Model model = build(kTinyGpt2);
  EXPECT_EQ(names(model.embedding()),
            (std::vector<std::string>{"transformer.wte.weight", "transformer.wpe.weight"}));
  EXPECT_EQ(
      names(model.units[2]),
      (std::vector<std::string>{"transformer.h.1.ln_1.weight", "transformer.h.1.ln_1.bias",
                                "transformer.h.1.attn.c_attn.weight", "transformer.h.1.attn.c_attn.bias",
                                "transformer.h.1.attn.c_proj.weight", "transformer.h.1.attn.c_proj.bias",
                                "transformer.h.1.ln_2.weight", "transformer.h.1.ln_2.bias",
                                "transformer.h.1.mlp.c_fc.weight", "transformer.h.1.mlp.c_fc.bias",
                                "transformer.h.1.mlp.c_proj.weight", "transformer.h.1.mlp.c_proj.bias"}));
  EXPECT_EQ(names(model.head()),
            (std::vector<std::string>{"transformer.ln_f.weight", "transformer.ln_f.bias"}));
  EXPECT_EQ(find(model.units[1], "c_attn.weight").hf_shape, (Shape{12, 36}));
  EXPECT_EQ(find(model.units[1], "c_fc.weight").hf_shape, (Shape{12, 48}));
  EXPECT_EQ(find(model.units[1], "mlp.c_proj.weight").hf_shape, (Shape{48, 12}));
  EXPECT_EQ(find(model.embedding(), "wpe.weight").hf_shape, (Shape{7, 12}));
}

TEST(Model, LlamaFamilyTensorsAreThoseOfHfWithTheOptionsOfEachType) {
  const Model model = build(kTinyQwen2);
  EXPECT_EQ(names(model.embedding()), (std::vector<std::string>{"model.embed_tokens.weight"}));
  EXPECT_EQ(names(model.units[2]),
            (std::vector<std::string>{
                "model.layers.1.input_layernorm.weight", "model.layers.1.self_attn.q_proj.weight",
                "model.layers.1.self_attn.k_proj.weight", "model.layers.1.self_attn.v_proj.weight",
                "model.layers.1.self_attn.q_proj.bias", "model.layers.1.self_attn.k_proj.bias",
                "model.layers.1.self_attn.v_proj.bias", "model.layers.1.self_attn.o_proj.weight",
                "model.layers.1.post_attention_layernorm.weight", "model.layers.1.mlp.gate_proj.weight",
                "model.layers.1.mlp.up_proj.weight", "model.layers.1.mlp.down_proj.weight"}));
  EXPECT_EQ(names(model.head()), (std::vector<std::string>{"model.norm.weight", "lm_head.weight"}));
  const Model qwen3 = build(kTinyQwen3);
  EXPECT_EQ(find(qwen3.units[1], "self_attn.q_norm.weight").hf_shape, (Shape{4}));
  EXPECT_EQ(find(qwen3.units[1], "self_attn.k_norm.weight").hf_shape, (Shape{4}));
  EXPECT_EQ(find(qwen3.units[1], "q_proj.weight").hf_shape, (Shape{24, 12}));
  EXPECT_EQ(find(qwen3.units[1], "k_proj.weight").hf_shape, (Shape{12, 12}));
  EXPECT_EQ(find(qwen3.units[1], "o_proj.weight").hf_shape, (Shape{12, 24}));
  EXPECT_EQ(find(qwen3.units[1], "gate_proj.weight").hf_shape, (Shape{10, 12}));
  EXPECT_EQ(find(qwen3.units[1], "down_proj.weight").hf_shape, (Shape{12, 10}));
}

TEST(Model, ATiedHeadHasNoMatrix) {
  json tied = kTinyQwen2;
  tied["tie_word_embeddings"] = true;
  EXPECT_EQ(names(build(tied).head()), (std::vector<std::string>{"model.norm.weight"}));
  json untied = kTinyGpt2;
  untied["tie_word_embeddings"] = false;
  EXPECT_EQ(names(build(untied).head()).back(), "lm_head.weight");
}

TEST(Model, TensorsOfOneProductAreAdjacentAndAllOthersAligned) {
  const Unit block = build(kTinyQwen2).units[1];
  const auto follows = [&](const char* first, const char* second) {
    EXPECT_EQ(find(block, first).offset + find(block, first).elements, find(block, second).offset) << second;
  };
  follows("q_proj.weight", "k_proj.weight");
  follows("k_proj.weight", "v_proj.weight");
  follows("q_proj.bias", "k_proj.bias");
  follows("k_proj.bias", "v_proj.bias");
  follows("gate_proj.weight", "up_proj.weight");
  for (const char* name : {"input_layernorm.weight", "q_proj.weight", "q_proj.bias", "o_proj.weight",
                           "post_attention_layernorm.weight", "gate_proj.weight", "down_proj.weight"}) {
    EXPECT_EQ(find(block, name).offset % 64, 0) << name;
  }
}

TEST(Model, TensorsNeverOverlapAndTheFlatParameterIsPadded) {
  for (const json& config : {kTinyGpt2, kTinyQwen2, kTinyQwen3}) {
    const Model model = build(config);
    for (const Unit& unit : model.units) {
      std::int64_t end = 0;
      std::int64_t parameters = 0;
      for (const TensorSpec& tensor : unit.tensors) {
        EXPECT_GE(tensor.offset, end) << tensor.hf_name;
        std::int64_t elements = 1;
        for (const std::int64_t size : tensor.hf_shape) elements *= size;
        EXPECT_EQ(tensor.elements, elements);
        end = tensor.offset + tensor.elements;
        parameters += elements;
      }
      EXPECT_EQ(unit.parameters, parameters);
      EXPECT_GE(unit.elements, end);
      EXPECT_LT(unit.elements, end + kFlatAlignment);
      EXPECT_EQ(unit.elements % kFlatAlignment, 0);
    }
  }
}

TEST(Model, OnlyGpt2ScalesTheProjectionsIntoTheResidualStream) {
  const Unit gpt2 = build(kTinyGpt2).units[1];
  EXPECT_EQ(find(gpt2, "attn.c_proj.weight").init, Init::residual_normal);
  EXPECT_EQ(find(gpt2, "mlp.c_proj.weight").init, Init::residual_normal);
  EXPECT_EQ(find(gpt2, "c_fc.weight").init, Init::normal);
  EXPECT_EQ(find(gpt2, "c_fc.bias").init, Init::zeros);
  EXPECT_EQ(find(gpt2, "ln_1.weight").init, Init::ones);
  const Unit qwen = build(kTinyQwen2).units[1];
  EXPECT_EQ(find(qwen, "o_proj.weight").init, Init::normal);
  EXPECT_EQ(find(qwen, "input_layernorm.weight").init, Init::ones);
}

// Counts of the released models, as `sum(p.numel() for p in model.parameters())` of transformers gives them.
TEST(Model, KnownModelsHaveTheirKnownSizes) {
  EXPECT_EQ(build({{"model_type", "gpt2"}}).parameters(), 124'439'808);
  EXPECT_EQ(build({{"model_type", "llama"}}).parameters(), 6'738'415'616);    // Llama 2 7B
  EXPECT_EQ(build({{"model_type", "mistral"}}).parameters(), 7'241'732'096);  // Mistral 7B
  EXPECT_EQ(build({{"model_type", "qwen2"},
                   {"num_hidden_layers", 24},
                   {"hidden_size", 896},
                   {"num_attention_heads", 14},
                   {"num_key_value_heads", 2},
                   {"intermediate_size", 4864},
                   {"tie_word_embeddings", true}})
                .parameters(),
            494'032'768);  // Qwen2 0.5B
  EXPECT_EQ(build({{"model_type", "qwen3"},
                   {"num_hidden_layers", 28},
                   {"hidden_size", 1024},
                   {"num_attention_heads", 16},
                   {"num_key_value_heads", 8},
                   {"intermediate_size", 3072},
                   {"tie_word_embeddings", true}})
                .parameters(),
            596'049'920);  // Qwen3 0.6B
}

TEST(Model, FlopsCountMatricesTheHeadAndHalfOfTheAttention) {
  // 12 layers of 12·768² matrix elements and a head of 50257·768; attention of 1024 tokens over 768 columns.
  const double matrices = 12.0 * 12 * 768 * 768 + 50257.0 * 768;
  EXPECT_DOUBLE_EQ(forward_flops_per_token(build({{"model_type", "gpt2"}}), 1024),
                   2 * matrices + 2.0 * 1024 * 768 * 12);
  json tied = kTinyQwen2;
  tied["tie_word_embeddings"] = true;
  EXPECT_DOUBLE_EQ(forward_flops_per_token(build(tied), 16), forward_flops_per_token(build(kTinyQwen2), 16));
}

}  // namespace
}  // namespace strata
