// Parity with transformers and torch.optim on the goldens beside this file: what Strata trains is the
// model people know.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>
#include <numeric>

#include "base/rotary_row.h"
#include "base/sequence_form.h"
#include "engine/config/run_config.h"
#include "engine/model/model.h"
#include "engine/model/run_model.h"
#include "engine/run/checkpoint/hf_folder.h"
#include "engine/run/checkpoint/peft_folder.h"
#include "engine/run/checkpoint/safetensors.h"
#include "engine/run/execute/trainer.h"
#include "tests/support/devices.h"
#include "tests/support/plans.h"
#include "tests/support/source_folder.h"

namespace strata {
namespace {

using Tensors = std::map<std::string, std::vector<float>>;

struct Golden {
  std::filesystem::path folder;
  nlohmann::json values;
  std::vector<std::uint16_t> tokens;
};

Golden load_golden(const std::string& name) {
  Golden golden;
  golden.folder = test::source_folder() / "tests/parity/goldens" / name;
  std::ifstream(golden.folder / "golden.json") >> golden.values;
  std::ifstream file(golden.folder / "tokens.bin", std::ios::binary);
  const std::string bytes((std::istreambuf_iterator<char>(file)), {});
  golden.tokens.resize(bytes.size() / 2);
  std::memcpy(golden.tokens.data(), bytes.data(), bytes.size());
  return golden;
}

Tensors load_tensors(const std::filesystem::path& path) {
  const SafetensorsReader reader(path);
  Tensors tensors;
  for (const auto& [name, stored] : reader.tensors()) {
    tensors[name].resize(static_cast<std::size_t>(stored.elements));
    reader.read(name, 0, tensors[name]);
  }
  return tensors;
}

/// Reads a list of patterns and their values.
template <typename T>
ValuesByPattern<T> in_order(const nlohmann::json& pairs) {
  return pairs.is_null() ? ValuesByPattern<T>() : pairs.get<ValuesByPattern<T>>();
}

RunConfig config_of(const Golden& golden, DType precision) {
  const nlohmann::json& v = golden.values;
  const nlohmann::json& optimizer = v["optimizer"];
  RunConfig config;
  config.model.path = (golden.folder / "model").string();
  config.data.sequence_length = v["sequence_length"];
  config.train.batch = v["batch"];
  config.train.microbatch = v["microbatch"];
  config.train.precision = precision;
  config.train.steps =
      static_cast<std::int64_t>(v[precision == DType::bf16 ? "bf16" : "fp32"]["losses"].size());
  config.train.threads = 2;
  config.train.freeze = v.value("freeze", config.train.freeze);
  config.train.dropout = v.value("dropout", false);
  if (const auto adapter = v.find("adapter"); adapter != v.end()) {
    const std::string type = (*adapter)["type"];
    config.adapter = {
        .type = type == "dora"     ? AdapterType::dora
                : type == "rslora" ? AdapterType::rslora
                                   : AdapterType::lora,
        .rank = (*adapter)["rank"],
        .alpha = (*adapter)["alpha"],
        .rank_pattern = in_order<std::int64_t>(adapter->value("rank_pattern", nlohmann::json())),
        .alpha_pattern = in_order<double>(adapter->value("alpha_pattern", nlohmann::json())),
        .targets = (*adapter)["targets"],
        .path = (golden.folder / "adapter").string(),
        .dropout = adapter->value("dropout", 0.0)};
  }
  if (const auto format = v.find("frozen_as"); format != v.end())
    config.memory.frozen_as = *format == "nf4" ? ParameterFormat::nf4 : ParameterFormat::int8;
  if (v.contains("documents")) config.data.packing = DataPacking::documents;
  config.optimizer.learning_rate = optimizer["learning_rate"];
  const std::string type = optimizer.value("type", "adamw");
  if (type == "sgd" || type == "muon") {
    config.optimizer.type = type == "sgd" ? OptimizerType::sgd : OptimizerType::muon;
    config.optimizer.momentum = optimizer["momentum"];
  }
  if (type != "sgd") {
    config.optimizer.betas = optimizer["betas"].get<std::array<double, 2>>();
    config.optimizer.epsilon = optimizer["epsilon"];
  }
  config.optimizer.weight_decay = optimizer["weight_decay"];
  config.optimizer.clip_norm = optimizer["clip_norm"];
  for (const nlohmann::json& group : v.value("groups", nlohmann::json::array())) {
    TensorGroup& added = config.optimizer.groups.emplace_back();
    group["tensors"].get_to(added.tensors);
    if (group.contains("type")) added.type = OptimizerType::adamw;
    if (group.contains("lr_factor")) added.learning_rate_factor = group["lr_factor"];
    if (group.contains("weight_decay")) added.weight_decay = group["weight_decay"];
  }
  config.memory.host = kUnlimited;
  return config;
}

/// Where the tokens of the window that begins `at` stand in its documents, which the window's row of a
/// golden's list has the lengths of.
void fill_documents(const nlohmann::json& lengths, const SequenceForm& form, const TokenPlaces& places,
                    std::span<std::int32_t> targets, std::size_t at) {
  for (const std::int32_t length : lengths) {
    for (std::int32_t place = 0; place < length; ++place, ++at) {
      places.places[at] = place;
      if (form.is_by_length()) places.rotary_rows[at] = rotary_row(place, length > form.short_length);
      if (place + 1 == length) targets[at] = kUntrained;
    }
  }
}

/// Windows in file order, as the goldens were made, whose dropout goes by the numbers of tokens.
TrainingData data_of(const Golden& golden, const RunConfig& config, const SequenceForm& form) {
  const auto window = static_cast<std::size_t>(config.data.sequence_length) + 1;
  TrainingData data;
  data.training = [&golden, &config, window, form](std::int64_t step, std::int64_t microbatch,
                                                   const MicrobatchData& arrays) {
    const auto tokens = arrays.array<std::int32_t>(0), targets = arrays.array<std::int32_t>(1);
    const std::int64_t first = step * config.train.batch + microbatch * config.train.microbatch;
    const auto third = arrays.array<std::int32_t>(2);  // places, or row keys
    if (!config.is_within_documents())
      std::iota(third.begin(), third.end(), static_cast<std::int32_t>(first * config.data.sequence_length));
    for (std::int64_t i = 0; i < config.train.microbatch; ++i) {
      const auto index = static_cast<std::size_t>(first + i);
      for (std::size_t t = 0; t + 1 < window; ++t) {
        const std::size_t at = static_cast<std::size_t>(i) * (window - 1) + t;
        tokens[at] = golden.tokens[index * window + t];
        targets[at] = golden.tokens[index * window + t + 1];
      }
      if (!config.is_within_documents()) continue;
      fill_documents(golden.values["documents"][index % static_cast<std::size_t>(config.train.batch)], form,
                     token_places(form, third), targets, static_cast<std::size_t>(i) * (window - 1));
    }
  };
  data.sampler = [](std::int64_t) { return nlohmann::json(); };
  if (config.is_within_documents()) {
    std::int64_t trained = 0;
    for (const auto& lengths : golden.values["documents"])
      for (const std::int64_t length : lengths) trained += length - 1;
    data.training_terms = [trained](std::int64_t) { return trained; };
  }
  return data;
}

struct Outcome {
  TrainResult result;
  Tensors first_gradients, weights;
  Tensors merged;  ///< those that adapters stand beside, with what these add
};

Outcome train(const Golden& golden, const RunConfig& config, Device& device) {
  const ModelConfig keys = {read_hf_config(config.model.path), config.model.path};
  const Model model = model_of_run(architecture_of_run(keys, config), config);
  const Plan plan = std::move(make_plans(config, model, planning_rates(config)).front());
  Outcome outcome;
  const auto collect = [&](const Instruction& instruction, Trainer& trainer) {
    // The gradient is whole where its norm is taken, and Muon's directions take its place later.
    if (instruction.operation != Operation::sum_of_squares || instruction.unit < 0) return;
    const Unit& unit = model.units[static_cast<std::size_t>(instruction.unit)];
    const auto* gradient =
        reinterpret_cast<const float*>(trainer.state().read(instruction.find(Role::gradient)).data());
    for (const TensorSpec& tensor : unit.tensors) {
      if (tensor.flat == Flat::frozen) continue;
      outcome.first_gradients.try_emplace(tensor.hf_name, gradient + tensor.offset,
                                          gradient + tensor.offset + tensor.elements);
    }
  };
  Trainer::Options options;
  if (config.plan.lanes == LaneMode::serial) options.observer = collect;
  Trainer trainer({{config, model, data_of(golden, config, model.form)}}, plan, device, options);
  TrainListener silent;
  outcome.result = trainer.train(std::atomic<bool>(false), silent);
  for (std::size_t u = 0; u < model.units.size(); ++u) {
    for (const TensorSpec& tensor : model.units[u].tensors) {
      const auto part =
          trainer.state()
              .read(u, weights_in(tensor.flat))
              .subspan(static_cast<std::size_t>(tensor.offset), static_cast<std::size_t>(tensor.elements));
      outcome.weights[tensor.hf_name].assign(part.begin(), part.end());
    }
  }
  if (!model.adapts()) return outcome;
  const ReadParameters merged =
      merge_adapters(model, [&](std::size_t u, FlatRange range, std::span<float> out) {
        const std::span<const float> values = trainer.state().read(u, weights_in(range.flat));
        std::ranges::copy(values.subspan(static_cast<std::size_t>(range.first), out.size()), out.begin());
      });
  for (std::size_t u = 0; u < model.units.size(); ++u) {
    for (const TensorSpec& tensor : model.units[u].tensors) {
      std::vector<float>& values = outcome.merged[tensor.hf_name];
      values.resize(static_cast<std::size_t>(tensor.elements));
      merged(u, {tensor.offset, tensor.elements, tensor.flat}, values);
    }
  }
  return outcome;
}

/// ‖a - b‖ / ‖b‖ per tensor.
void expect_close(const Tensors& actual, const Tensors& expected, double tolerance) {
  for (const auto& [name, values] : expected) {
    const auto found = actual.find(name);
    if (found == actual.end()) {
      ADD_FAILURE() << "no tensor " << name;
      continue;
    }
    ASSERT_EQ(found->second.size(), values.size()) << name;
    double difference = 0, norm = 0;
    for (std::size_t i = 0; i < values.size(); ++i) {
      difference += std::pow(double{found->second[i]} - values[i], 2);
      norm += std::pow(double{values[i]}, 2);
    }
    EXPECT_LE(std::sqrt(difference), tolerance * std::sqrt(norm)) << name;
  }
}

void expect_losses(const TrainResult& result, const nlohmann::json& golden, double tolerance) {
  ASSERT_EQ(result.steps.size(), golden["losses"].size());
  for (std::size_t s = 0; s < result.steps.size(); ++s) {
    const double loss = golden["losses"][s];
    EXPECT_NEAR(result.steps[s].loss, loss, tolerance * loss) << "step " << s;
  }
}

/// Compares a model on a device with its goldens.
class Parity : public ::testing::TestWithParam<std::tuple<std::string, std::string>> {
 protected:
  void SetUp() override {
    const auto& [model, device] = GetParam();
    if (const std::string why = test::why_no_device(device); !why.empty()) GTEST_SKIP() << why;
    golden_ = load_golden(model);
    device_ = test::make_device(device, {.threads = 2, .link = {}});
  }
  Outcome train_in(DType precision, LaneMode lanes) {
    RunConfig config = config_of(golden_, precision);
    config.device.kind = std::get<1>(GetParam()) == "cuda" ? DeviceKind::cuda : DeviceKind::cpu;
    config.plan.lanes = lanes;
    return train(golden_, config, *device_);
  }

  Golden golden_;
  std::unique_ptr<Device> device_;
};

// Invariant of numbers (Parity.*): The arithmetic is that of PyTorch. Losses, gradients and weights follow
// transformers and torch.optim, with AdamW and with SGD. Updates by every rule follow torch.optim, or the
// rule's paper.
TEST_P(Parity, Fp32GradientsLossesAndWeightsFollowPyTorch) {
  const Outcome outcome = train_in(DType::fp32, LaneMode::serial);
  expect_close(outcome.first_gradients, load_tensors(golden_.folder / "gradients.safetensors"), 1e-4);
  expect_losses(outcome.result, golden_.values["fp32"], 1e-4);
  if (golden_.values.contains("adapter"))
    expect_close(outcome.merged, load_tensors(golden_.folder / "merged.safetensors"), 1e-4);
  expect_close(outcome.weights, load_tensors(golden_.folder / "weights.safetensors"), 1e-4);
  for (std::size_t s = 0; s < outcome.result.steps.size(); ++s) {
    const double norm = golden_.values["fp32"]["grad_norms"][s];
    EXPECT_NEAR(outcome.result.steps[s].grad_norm, norm, 1e-3 * norm);
  }
}

TEST_P(Parity, Bf16LossesFollowPyTorch) {
  expect_losses(train_in(DType::bf16, LaneMode::overlapped).result, golden_.values["bf16"], 1e-2);
}

TEST_P(Parity, Fp16LossesFollowPyTorchInFp32) {
  const Outcome outcome = train_in(DType::fp16, LaneMode::overlapped);
  EXPECT_EQ(outcome.result.counters.skipped, 0);
  expect_losses(outcome.result, golden_.values["fp32"], 1e-2);
}

INSTANTIATE_TEST_SUITE_P(
    Models, Parity,
    ::testing::Combine(::testing::Values("gpt2", "llama-tied", "llama-untied", "qwen2", "qwen3", "mistral",
                                         "llama-padding", "olmo2", "phi3", "granite", "starcoder2", "gemma2",
                                         "gemma3", "mixtral", "mixtral-balanced", "qwen3-moe",
                                         "qwen3-moe-dense", "qwen3-moe-balanced", "phi3-long", "qwen2-frozen",
                                         "qwen2-groups", "qwen2-sgd", "qwen2-momentum", "qwen2-muon",
                                         "gpt2-lora", "qwen2-lora", "qwen3-lora", "gpt2-dora", "qwen2-dora",
                                         "qwen3-dora", "qwen3-lora-patterns", "qwen2-dora-patterns",
                                         "gpt2-dropout", "qwen2-lora-dropout", "llama-nf4", "qwen2-nf4",
                                         "qwen3-nf4", "llama-int8", "phi4-documents", "qwen3-yarn",
                                         "mistral-dynamic"),
                       ::testing::ValuesIn(test::device_names())),
    [](const auto& info) {
      std::string name = std::get<0>(info.param) + "_" + std::get<1>(info.param);
      std::replace(name.begin(), name.end(), '-', '_');
      return name;
    });

}  // namespace
}  // namespace strata
