// The run file as plain values, which the rest of the engine reads. Each key's type, default, documentation
// and check stands once, in run_keys.cpp, machine_keys.cpp or training_keys.cpp.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "base/bytes.h"
#include "base/precision.h"
#include "engine/config/choices.h"

namespace strata {

/// What a record of data may have, by the names that data.fields knows (engine/data/record.h).
inline constexpr std::array<std::string_view, 9> kRecordFields = {
    "text", "prompt", "completion", "messages", "tools", "system", "instruction", "input", "output"};
/// An entry of optimizer.groups: what it gives counts for the tensors whose names its patterns match.
struct TensorGroup {
  std::vector<std::string> tensors;
  std::optional<double> learning_rate_factor = {}, weight_decay = {};
  friend bool operator==(const TensorGroup&, const TensorGroup&) = default;
};

/// Values for layers whose names match a pattern, in their order.
template <typename T>
using ValuesByPattern = std::vector<std::pair<std::string, T>>;

/// An entry of data.sources: of all samples it has its weight's part.
struct DataSource {
  std::vector<std::string> path;
  double weight = 1;
  friend bool operator==(const DataSource&, const DataSource&) = default;
};

/// Steps from one to another, both included; the first of all is step 1.
struct StepSpan {
  std::int64_t first = 0, last = 0;
  friend bool operator==(const StepSpan&, const StepSpan&) = default;
};

/// The most ranks along an axis of the mesh other than data.
constexpr std::int64_t kMostOfAxis = 4096;

struct RunConfig {
  struct ModelSection {
    std::string path;                                  ///< HF folder; or
    std::string architecture;                          ///< model_type with
    nlohmann::json config = nlohmann::json::object();  ///< config.json's own keys
    friend bool operator==(const ModelSection&, const ModelSection&) = default;
  } model;

  struct DataSection {
    std::vector<std::string> path;        ///< globs of text files; or .bin files; or Megatron prefixes
    std::vector<DataSource> sources;      ///< instead of path: several, each with files of its own
    std::vector<std::string> validation;  ///< held-out files; empty: the last validation_fraction of the data
    double validation_fraction = 0.05;
    Tokenizer tokenizer = Tokenizer::bytes;  ///< none: the files hold token ids; automatic: the model's own
    std::string tokenizer_path;              ///< of the model's own; empty: model.path
    std::string cache;                       ///< where ids of texts are kept; empty: the user's cache folder
    DataFormat format = DataFormat::automatic;
    std::map<std::string, std::string> fields;  ///< what records call kRecordFields, where it is another name
    std::int64_t token_bytes = 2;               ///< of an id in a .bin file without a header: 2, 4 or 8
    std::int64_t sequence_length = 512;
    bool shuffle = true;  ///< false: sequences in the order of the files
    DataPacking packing = DataPacking::none;
    BeginToken begin_token = BeginToken::automatic;
    friend bool operator==(const DataSection&, const DataSection&) = default;
  } data;

  struct TrainSection {
    std::int64_t steps = 100;
    std::optional<double> epochs;        ///< passes over the data, which become steps once the data are read
    std::int64_t batch = 8;              ///< sequences per optimizer step, over all ranks
    std::int64_t microbatch = 1;         ///< sequences per microbatch
    std::optional<Precision> precision;  ///< nothing: auto, which becomes one before a run is planned
    std::uint64_t seed = 1;
    Recompute recompute = Recompute::automatic;
    std::vector<std::string> freeze;      ///< patterns of the names of tensors that are not trained
    bool dropout = false;                 ///< that of the model's config.json
    std::int64_t validate_every = 0;      ///< steps; 0: never
    std::int64_t validation_batches = 8;  ///< microbatches per validation
    std::int64_t threads = 0;             ///< compute threads; 0: all cores
    std::int64_t watchdog = 900;          ///< seconds without any advance before a wait ends the run
    std::int64_t max_skipped_steps = 20;  ///< in a row without an update, which end the run
    // Dynamic loss scaling, with fp16 only.
    double loss_scale_initial = 65536;
    double loss_scale_growth = 2;
    double loss_scale_backoff = 0.5;
    std::int64_t loss_scale_interval = 2000;  ///< steps
    friend bool operator==(const TrainSection&, const TrainSection&) = default;
  } train;

  /// Texts that the model goes on with between steps, as it is then.
  struct SamplesSection {
    std::vector<std::string> prompts;  ///< empty: there are none
    std::int64_t every = 0;            ///< steps; 0: before the first and after the last alone
    std::int64_t max_length = 128;     ///< tokens of a sample, its prompt included
    double temperature = 0;            ///< 0: the likeliest token
    double top_p = 1;
    std::int64_t top_k = 0;  ///< 0: all
    bool chat = false;       ///< prompts are what a user says, in the model's chat template
    friend bool operator==(const SamplesSection&, const SamplesSection&) = default;
  } samples;

  struct AdapterSection {
    AdapterType type = AdapterType::none;
    std::int64_t rank = 16;
    double alpha = 32;
    ValuesByPattern<std::int64_t> rank_pattern = {};  ///< in place of rank, as PEFT's
    ValuesByPattern<double> alpha_pattern = {};       ///< in place of alpha
    std::vector<std::string> targets = {kAllLinear};  ///< ends of the names of layers
    std::string path;                                 ///< PEFT folder to begin with; empty: random ones
    double dropout = 0;                               ///< probability, of what A reads
    static constexpr const char* kAllLinear = "all-linear";
    friend bool operator==(const AdapterSection&, const AdapterSection&) = default;
  } adapter;

  struct OptimizerSection {
    OptimizerType type = OptimizerType::adamw;
    double learning_rate = 3e-4;
    std::array<double, 2> betas = {0.9, 0.95};
    double epsilon = 1e-8;
    double momentum = 0;  ///< of sgd
    double weight_decay = 0.1;
    Decay decay = Decay::matrices;
    std::vector<TensorGroup> groups;  ///< a later one overrides those before it
    double clip_norm = 1.0;           ///< 0: no clipping
    MasterFormat master = MasterFormat::fp32;
    MomentFormat moments = MomentFormat::fp32;
    ScheduleKind schedule = ScheduleKind::constant;
    std::int64_t warmup = 0;
    double minimum_ratio = 0.1;
    std::int64_t asked_warmup =
        0;  ///< of a warm-up that was cut (engine/config/run_length.h). No key sets it.
    friend bool operator==(const OptimizerSection&, const OptimizerSection&) = default;
  } optimizer;

  struct ParallelSection {
    std::int64_t data = 1;                   ///< ranks that share a batch
    std::int64_t replicate = 1;              ///< of them hold the same shard
    std::optional<std::int64_t> shard = {};  ///< if given, data · context / replicate
    std::int64_t tensor = 1, pipeline = 1;
    bool sequence = false;     ///< ranks of `tensor` share out tokens wherever they do not share a layer
    std::int64_t context = 1;  ///< ranks that share each sequence
    PipelineSchedule schedule = PipelineSchedule::one_f_one_b;
    std::int64_t chunks = 1;          ///< of units, on each stage of the pipeline
    std::vector<std::string> stages;  ///< units of each chunk, or the first of each; empty: balanced
    int zero_stage = 3;
    ReduceDtype reduce_dtype = ReduceDtype::fp32;
    bool sparse_gradients = true;  ///< the embedding's goes between ranks as rows if that is less
    friend bool operator==(const ParallelSection&, const ParallelSection&) = default;
  } parallel;

  struct MemorySection {
    Bytes device = kUnlimited;
    std::optional<Bytes> host;           ///< nothing: the tier is not used for model state
    std::vector<std::string> nvme_path;  ///< folders; empty: the tier is not used
    Bytes nvme_size = kUnlimited;
    NvmeEngine nvme_engine = NvmeEngine::automatic;
    bool nvme_verify = false;
    std::optional<Bytes> nvme_read_per_second, nvme_write_per_second;  ///< limits of the tier
    TierChoice parameters = TierChoice::automatic, optimizer_state = TierChoice::automatic,
               gradients = TierChoice::automatic, activations = TierChoice::automatic;
    ParameterFormat trained_as = ParameterFormat::precision, frozen_as = ParameterFormat::precision;
    friend bool operator==(const MemorySection&, const MemorySection&) = default;
  } memory;

  struct PlanSection {
    std::optional<Order> order;  ///< nothing: the planner chooses
    LaneMode lanes = LaneMode::overlapped;
    std::string machine;  ///< file with the machine's rates; empty: nominal ones
    PlanSearch search = PlanSearch::none;
    std::vector<std::string> open = {};  ///< of the keys that are searched for, those that are not given
    friend bool operator==(const PlanSection&, const PlanSection&) = default;
  } plan;

  struct DeviceSection {
    DeviceKind kind = DeviceKind::cpu;
    std::optional<Bytes> h2d_per_second, d2h_per_second;  ///< throttle of the link
    std::optional<Bytes> sent_per_second;                 ///< throttle of the link to other ranks
    double flops_per_second = 0;                          ///< throttle of computing; 0: none
    std::string product_table;                            ///< file; empty: the library's own choice
    friend bool operator==(const DeviceSection&, const DeviceSection&) = default;
  } device;

  struct CheckpointSection {
    std::string path;           ///< empty: no checkpoints
    std::int64_t every = 0;     ///< steps; 0: at the end only
    double every_minutes = 30;  ///< since the checkpoint before; 0: never for that
    std::int64_t keep = 2;
    std::int64_t wait_for_space_seconds = 3600;
    friend bool operator==(const CheckpointSection&, const CheckpointSection&) = default;
  } checkpoint;

  struct ReportSection {
    std::string metrics;                ///< JSONL file, a line per step; empty: none
    std::string tensorboard;            ///< folder of event files; empty: none
    std::string trace_path;             ///< file for a trace of the steps below; empty: none
    std::vector<StepSpan> trace_steps;  ///< rising
    friend bool operator==(const ReportSection&, const ReportSection&) = default;
  } report;

  /// Whether some of the model is not trained.
  bool freezes() const { return !train.freeze.empty() || adapter.type != AdapterType::none; }
  /// What the device stores. REQUIRES: train.precision is given or was chosen
  /// (engine/tune/precision.h).
  DType precision() const { return train.precision.value().storage; }
  /// Whether attention and positions are those of a sequence's documents, each alone.
  bool is_within_documents() const { return data.packing != DataPacking::none; }
  /// What its products round.
  Rounding rounding() const { return train.precision.value_or(Precision()).products; }

  /// Ranks of the run.
  std::int64_t ranks() const { return parallel.data * ranks_of_data_rank(); }
  /// The ranks that have one data rank's samples together.
  std::int64_t ranks_of_data_rank() const { return parallel.context * parallel.pipeline * parallel.tensor; }

  /// Microbatches that each rank accumulates per optimizer step.
  std::int64_t microbatches() const { return train.batch / (train.microbatch * parallel.data); }

  friend bool operator==(const RunConfig&, const RunConfig&) = default;
};

/// data.sources, or data.path as the only one.
inline std::vector<DataSource> sources_of(const RunConfig::DataSection& data) {
  return data.sources.empty() ? std::vector<DataSource>{{data.path}} : data.sources;
}

}  // namespace strata
