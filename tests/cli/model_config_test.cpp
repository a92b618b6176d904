// A model's config as users have it: pasted into the run file, with options that Strata does not apply, or
// beside an adapter.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include "tests/cli/workspace.h"

namespace strata::test {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class ModelConfig : public Workspace {
 protected:
  /// What `strata plan` says of a run file whose model is `architecture` with `config`.
  Outcome plan(const std::string& architecture, const std::string& config) const {
    write("pasted.yaml", fmt::format("model:\n  architecture: {}\n  config: {}\n"
                                     "data: {{path: corpus.txt, sequence_length: 24}}\n",
                                     architecture, config));
    return strata({"plan", "pasted.yaml"});
  }
};

TEST_F(ModelConfig, OfTheHubIsPastedIntoTheRunFile) {
  const Outcome gpt2 = plan("gpt2", R"({
    "activation_function": "gelu_new", "architectures": ["GPT2LMHeadModel"], "attn_pdrop": 0.0, "bos_token_id": 0,
    "embd_pdrop": 0.0, "eos_token_id": 0, "initializer_range": 0.02, "layer_norm_epsilon": 1e-05,
    "model_type": "gpt2", "n_ctx": 64, "n_embd": 32, "n_head": 4, "n_layer": 2, "n_positions": 64,
    "pad_token_id": null, "resid_pdrop": 0.0, "summary_type": "cls_index", "torch_dtype": "float32",
    "vocab_size": 256})");
  EXPECT_EQ(gpt2.status, 0) << gpt2.err;
  EXPECT_THAT(gpt2.err, Not(HasSubstr("dropout")));
  const Outcome llama = plan("llama", R"({
    "architectures": ["LlamaForCausalLM"], "attention_dropout": 0.0, "eos_token_id": [1, 2], "hidden_size": 32,
    "intermediate_size": 48, "model_type": "llama", "num_attention_heads": 4, "num_hidden_layers": 2,
    "num_key_value_heads": 2, "pad_token_id": 0, "rope_scaling": null, "use_cache": true, "vocab_size": 256})");
  EXPECT_EQ(llama.status, 0) << llama.err;
}

TEST_F(ModelConfig, OfAnotherModelTypeIsRefused) {
  expect_sentence(plan("llama", "{model_type: qwen2, num_hidden_layers: 2}"), 2,
                  {"model_type is \"qwen2\"", "model.architecture is llama"});
}

TEST_F(ModelConfig, ThatAsksForDropoutIsSaidToTrainWithoutWhatIsNotApplied) {
  const std::string sizes = "n_layer: 1, n_embd: 32, n_head: 4, n_positions: 32, vocab_size: 256";
  const Outcome planned = plan("gpt2", "{" + sizes + ", resid_pdrop: 0.1}");
  EXPECT_EQ(planned.status, 0) << planned.err;
  EXPECT_THAT(planned.err,
              HasSubstr("warning: model.config: asks for dropout (resid_pdrop 0.1), which is ignored"));
  EXPECT_THAT(plan("gpt2", "{" + sizes + "}").err, Not(HasSubstr("dropout")));
  EXPECT_THAT(strata(train("pasted.yaml", {"train.steps=1", "model.config.attn_pdrop=0.5"})).err,
              HasSubstr("asks for dropout (attn_pdrop 0.5)"));
  const Outcome applied =
      strata(train("pasted.yaml", {"train.steps=1", "train.dropout=true", "model.config.attn_pdrop=0.5",
                                   "model.config.resid_pdrop=0.1"}));
  EXPECT_EQ(applied.status, 0) << applied.err;
  EXPECT_THAT(applied.err, HasSubstr("asks for dropout (attn_pdrop 0.5), which is ignored; strata drops"));
  expect_sentence(strata(train("pasted.yaml", {"train.dropout=true"})), 2,
                  {"train.dropout: model.config asks for none"});
}

TEST_F(ModelConfig, BesideAnAdapterIsRefused) {
  make_model_folder("my-model");
  write("my-model/adapter_config.json", "{}");
  write("hf.yaml", "model: {path: my-model}\ndata: {path: corpus.txt, sequence_length: 24}\n");
  expect_sentence(strata(train("hf.yaml")), 2, {"my-model/adapter_config.json", "give it as adapter.path"});
}

}  // namespace
}  // namespace strata::test
