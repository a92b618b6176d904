// Gemma 2 (transformers: Gemma2ForCausalLM): Gemma's layers with soft caps on scores and logits.
// Not in a unity build: each architecture has its own read(), write() and block().
#include <fmt/format.h>

#include "engine/model/architectures/architecture_rules.h"
#include "engine/model/architectures/gemma.h"

namespace strata {
namespace {

void read(JsonReader& reader, Architecture& a, const std::string& where) {
  read_gemma(reader, a,
             {.sizes = {256000, 9216, 8192, 4, 256, 26, 2304, 8}, .sliding_pattern = 2, .logits_cap = 30});
  a.scores_cap = read_soft_cap(reader, "attn_logit_softcapping", 50);
  a.rope = read_rope(reader, a, where);
  // Files of the hub say the window twice, and transformers reads the other key.
  if (reader.has("sliding_window_size") &&
      reader.integer("sliding_window_size", {}, 1, kLargestVocabulary) != a.window)
    reader.refuse("sliding_window_size", fmt::format("but sliding_window, which counts, is {}", a.window));
}

nlohmann::json write(const Architecture& a) {
  nlohmann::json config = gemma_config(a);
  config["attn_logit_softcapping"] = soft_cap_config(a.scores_cap);
  return config;
}

UnitBuilder block(const Architecture& a, std::int64_t layer) {
  return gemma_block(a, layer, {attention_shape(a)});
}

}  // namespace

const ArchitectureRules kGemma2 = {.model_type = "gemma2",
                                   .hf_class = "Gemma2ForCausalLM",
                                   .read = read,
                                   .write = write,
                                   .embedding = token_embedding,
                                   .block = block,
                                   .head = gemma_head,
                                   .kind_of_layer = gemma_kind_of_layer,
                                   .rotations = one_rotation};

}  // namespace strata
