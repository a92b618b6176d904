// The index of a sharded Hugging Face folder whose one shard is empty but whole.
#include "engine/model/build_model.h"
#include "engine/model/model.h"
#include "engine/run/checkpoint/hf_folder.h"
#include "tests/fuzz/target.h"

namespace strata::fuzz {
namespace {

void read_index(std::string_view input) {
  static const Model model = build_model(parse_architecture({{"model_type", "gpt2"},
                                                             {"n_layer", 1},
                                                             {"n_embd", 2},
                                                             {"n_head", 1},
                                                             {"vocab_size", 2},
                                                             {"n_positions", 2}},
                                                            "fuzz"));
  static const std::filesystem::path shard = write("a", std::string("\2\0\0\0\0\0\0\0{}", 10));
  write("model.safetensors.index.json", input);
  HfFolder(folder(), model);
}

}  // namespace
}  // namespace strata::fuzz

STRATA_FUZZ_TARGET(index, strata::fuzz::read_index)
