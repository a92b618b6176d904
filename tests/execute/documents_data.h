// Runs whose sequences have several documents, and runs of the same documents in a sequence each.
#pragma once

#include <string>
#include <vector>

#include "engine/config/run_config.h"
#include "tests/data/corpus.h"
#include "tests/execute/support.h"

namespace strata::test {

/// Token ids of documents of these lengths, below 128.
std::vector<std::vector<std::uint16_t>> random_documents(const std::vector<std::int64_t>& lengths);

/// A small run in fp32 of sequences of 24 tokens, in the order of the data, which it has not yet. The model
/// is a "llama", "qwen3" or "gpt2", a "mistral" with a window, or a "phi3", whose rotation is another one in
/// documents of more than 10 tokens.
RunConfig run_of_documents(const Corpus& corpus, const std::string& architecture);

/// One step of documents from one token to a whole sequence that fill four sequences.
RunConfig packed_documents(RunConfig config, const Corpus& corpus);
/// One step of the same documents, each in a sequence of its own with something behind it that is not trained
/// on.
RunConfig documents_apart(RunConfig config, const Corpus& corpus);

/// On this device losses of tokens, each tensor's gradient and the norm of all agree within 1e-5, packed and
/// apart; all tokens but each document's last have a loss.
void expect_packed_is_apart(const RunConfig& config, const Corpus& corpus, Device* device = nullptr);

/// Losses of tokens agree within 1e-5, packed and in sequences of just the document's length.
void expect_losses_of_documents_alone(const RunConfig& config, const Corpus& corpus,
                                      Device* device = nullptr);

}  // namespace strata::test
