// Models of few parameters whose weights are functions of names and places, as make_goldens.py has them.
#pragma once

#include <cstdint>
#include <string>

#include "engine/run/checkpoint/hf_folder.h"
#include "engine/run/generate/generator.h"
#include "engine/run/generate/model_source.h"

namespace strata::test {

/// Reads the weights of a model, which must outlive the result.
ReadParameters made_parameters(const Model& model, std::uint64_t seed);

/// Greedy ids behind each prompt, in fp32 on the CPU.
std::vector<TokenIds> greedy_ids(const Model& model, const ReadParameters& read,
                                 const std::vector<TokenIds>& prompts, std::int64_t tokens);

std::vector<TokenIds> ids_of(const std::vector<Continuation>& continuations);

}  // namespace strata::test
