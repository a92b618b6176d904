#include "tests/execute/documents_data.h"

#include <gtest/gtest.h>

#include "base/random.h"
#include "engine/config/run_config.h"
#include "engine/model/model.h"

namespace strata::test {
namespace {

constexpr std::int64_t kPackedSequence = 24;
const std::vector<std::vector<std::int64_t>> kPackedDocuments = {
    {7, 1, 16}, {24}, {10, 14}, {3, 3, 1, 1, 16}};

std::vector<std::int64_t> packed_lengths() {
  std::vector<std::int64_t> lengths;
  for (const auto& sequence : kPackedDocuments)
    lengths.insert(lengths.end(), sequence.begin(), sequence.end());
  return lengths;
}

const std::map<std::string, nlohmann::json> kPackedModels = {
    {"llama",
     {{"num_hidden_layers", 2},
      {"hidden_size", 32},
      {"num_attention_heads", 4},
      {"num_key_value_heads", 2},
      {"intermediate_size", 48},
      {"vocab_size", 128}}},
    {"qwen3",
     {{"num_hidden_layers", 2},
      {"hidden_size", 32},
      {"num_attention_heads", 4},
      {"num_key_value_heads", 2},
      {"head_dim", 16},
      {"intermediate_size", 48},
      {"vocab_size", 128}}},
    {"mistral",
     {{"num_hidden_layers", 2},
      {"hidden_size", 32},
      {"num_attention_heads", 4},
      {"num_key_value_heads", 2},
      {"intermediate_size", 48},
      {"sliding_window", 5},
      {"vocab_size", 128}}},
    {"phi3",
     {{"num_hidden_layers", 2},
      {"hidden_size", 32},
      {"num_attention_heads", 4},
      {"num_key_value_heads", 2},
      {"intermediate_size", 48},
      {"pad_token_id", nullptr},
      {"original_max_position_embeddings", 10},
      {"max_position_embeddings", 64},
      {"partial_rotary_factor", 0.75},
      {"rope_scaling",
       {{"rope_type", "longrope"}, {"short_factor", {1.0, 1.5, 2.0}}, {"long_factor", {1.0, 5.0, 20.0}}}},
      {"vocab_size", 128}}},
    {"gpt2",
     {{"n_layer", 2},
      {"n_embd", 32},
      {"n_head", 4},
      {"n_positions", 32},
      {"vocab_size", 128},
      {"tie_word_embeddings", true}}}};

struct DocumentLosses {
  std::vector<float> losses;  ///< of the documents' tokens, one after another
  double gradient_norm = 0;
};

/// Losses of all tokens, in the order of the data.
DocumentLosses token_losses(RunConfig config, Device* device) {
  config.plan.lanes = LaneMode::serial;
  DocumentLosses found;
  const RunOutcome outcome =
      run(config, {.device = device, .observer = [&](const Instruction& instruction, Trainer& trainer) {
                     if (instruction.operation != Operation::sum_losses) return;
                     for (const Operand& operand : instruction.reads) {
                       const auto* values =
                           reinterpret_cast<const float*>(trainer.state().read(operand.buffer).data());
                       found.losses.insert(found.losses.end(), values, values + operand.elements);
                     }
                   }});
  found.gradient_norm = outcome.result.steps.at(0).grad_norm;
  return found;
}

/// Trains on documents that begin `stride` tokens behind the one before; 0: where that ends.
DocumentLosses document_losses(const RunConfig& config, std::int64_t stride, Device* device) {
  const DocumentLosses all = token_losses(config, device);
  DocumentLosses found{{}, all.gradient_norm};
  auto at = all.losses.begin();
  for (const std::int64_t length : packed_lengths()) {
    found.losses.insert(found.losses.end(), at, at + length);
    at += stride == 0 ? length : stride;
  }
  return found;
}

/// One step of the documents of this length. Each document is a sequence.
RunConfig documents_of_length(RunConfig config, const Corpus& corpus, std::int64_t length) {
  std::vector<std::uint16_t> ids;
  std::string marks;
  for (const auto& document : random_documents(packed_lengths())) {
    if (std::ssize(document) != length) continue;
    ids.insert(ids.end(), document.begin(), document.end());
    marks += '\0' + std::string(document.size() - 1, '\1');
  }
  config.train.batch = std::ssize(ids) / length;
  ids.push_back(0);
  marks.push_back('\0');
  const std::string name = "of-" + std::to_string(length);
  config.data.path = {corpus.write_megatron<std::uint16_t>(name, 8, {ids})};
  corpus.write(name + ".trained", marks);
  config.data.sequence_length = length;
  config.train.microbatch = config.train.steps = 1;
  return config;
}

}  // namespace

std::vector<std::vector<std::uint16_t>> random_documents(const std::vector<std::int64_t>& lengths) {
  const CounterRandom random(5, 1);
  std::vector<std::vector<std::uint16_t>> documents;
  std::uint64_t index = 0;
  for (const std::int64_t length : lengths) {
    documents.emplace_back();
    for (std::int64_t i = 0; i < length; ++i)
      documents.back().push_back(static_cast<std::uint16_t>(random.integer(index++) % 128));
  }
  return documents;
}

RunConfig run_of_documents(const Corpus& corpus, const std::string& architecture) {
  RunConfig config = tiny_run(corpus.path(""));
  config.model.architecture = architecture;
  config.model.config = kPackedModels.at(architecture);
  config.data.tokenizer = Tokenizer::none;
  config.data.sequence_length = kPackedSequence;
  config.data.validation_fraction = 0;
  config.data.shuffle = false;
  config.train.threads = 1;
  config.train.precision = DType::fp32;
  return config;
}

RunConfig packed_documents(RunConfig config, const Corpus& corpus) {
  auto documents = random_documents(packed_lengths());
  documents.push_back({0});  // the last sequence's last target
  config.data.path = {corpus.write_megatron<std::uint16_t>("packed", 8, documents)};
  config.data.packing = DataPacking::documents;
  config.train.microbatch = 2;
  config.train.batch = std::ssize(kPackedDocuments);
  config.train.steps = 1;
  return config;
}

RunConfig documents_apart(RunConfig config, const Corpus& corpus) {
  std::vector<std::uint16_t> ids;
  std::string marks;
  for (const auto& document : random_documents(packed_lengths())) {
    for (std::int64_t i = 0; i < kPackedSequence; ++i) {
      const bool is_there = i < std::ssize(document);
      ids.push_back(is_there ? document[static_cast<std::size_t>(i)] : std::uint16_t{77});
      marks.push_back(is_there && i > 0 ? '\1' : '\0');
    }
  }
  ids.push_back(0);
  marks.push_back('\0');
  config.data.path = {corpus.write_megatron<std::uint16_t>("apart", 8, {ids})};
  corpus.write("apart.trained", marks);
  config.train.microbatch = 1;
  config.train.batch = std::ssize(packed_lengths());
  config.train.steps = 1;
  return config;
}

void expect_packed_is_apart(const RunConfig& config, const Corpus& corpus, Device* device) {
  const DocumentLosses expected = document_losses(documents_apart(config, corpus), kPackedSequence, device),
                       found = document_losses(packed_documents(config, corpus), 0, device);
  ASSERT_EQ(found.losses.size(), expected.losses.size());
  std::size_t at = 0;
  for (const std::int64_t length : packed_lengths()) {
    for (std::int64_t place = 0; place < length; ++place, ++at) {
      EXPECT_NEAR(found.losses[at], expected.losses[at], 1e-5 * expected.losses[at]) << at;
      EXPECT_EQ(found.losses[at] == 0, place + 1 == length) << at;
    }
  }
  EXPECT_NEAR(found.gradient_norm, expected.gradient_norm, 1e-5 * expected.gradient_norm);
  // After one step these are the clipped gradients, times 1 - beta1.
  const std::vector<StateKey> moments = {key_of(Moment::exp_avg)};
  for (const auto& [tensor, difference] :
       relative_differences(left_by(documents_apart(config, corpus), moments, device),
                            left_by(packed_documents(config, corpus), moments, device)))
    EXPECT_LE(difference, 1e-5) << tensor;
}

void expect_losses_of_documents_alone(const RunConfig& config, const Corpus& corpus, Device* device) {
  const DocumentLosses packed = document_losses(packed_documents(config, corpus), 0, device);
  std::map<std::int64_t, std::vector<float>> alone;  // by length; what is left of them
  auto at = packed.losses.begin();
  for (const std::int64_t length : packed_lengths()) {
    const auto first = at;
    at += length;
    if (length == 1) continue;  // it has no target
    if (!alone.contains(length))
      alone[length] = token_losses(documents_of_length(config, corpus, length), device).losses;
    std::vector<float>& expected = alone[length];
    ASSERT_GE(std::ssize(expected), length);
    for (std::int64_t place = 0; place < length; ++place) {
      const float loss = expected[static_cast<std::size_t>(place)];
      EXPECT_NEAR(first[place], loss, 1e-5 * loss) << "place " << place << " of " << length;
    }
    expected.erase(expected.begin(), expected.begin() + length);
  }
}

}  // namespace strata::test
