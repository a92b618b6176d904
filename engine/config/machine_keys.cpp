#include "engine/config/run_config.h"
#include "engine/config/section_keys.h"

namespace strata {
namespace {

using namespace value;  // NOLINT(google-build-using-namespace): the table below reads as a table

std::string some_bytes(const Bytes& value) {
  return value < 1 ? "must be more than 0 bytes" : "";
}

std::string between_one_and_most(const std::int64_t& ranks) {
  return ranks > kMostOfAxis ? fmt::format("must be at most {}", kMostOfAxis) : at_least_one(ranks);
}

/// Ranks of a layer share out the tokens of a microbatch.
std::string check_sequence(const RunConfig& config) {
  const std::int64_t ranks = config.parallel.tensor,
                     holders = std::max<std::int64_t>(config.parallel.context, 1);
  if (!config.parallel.sequence || ranks <= 1) return "";
  const std::int64_t length = config.data.sequence_length / holders;
  if (config.train.microbatch % ranks * (length % ranks) % ranks == 0) return "";
  return fmt::format(
      "the {} · {} tokens of a microbatch do not divide among {} ranks of parallel.tensor; "
      "make train.microbatch times data.sequence_length a multiple of {}",
      config.train.microbatch, length, ranks, ranks * holders);
}

/// Each rank has two stretches of a sequence.
std::string check_context(const RunConfig& config) {
  const std::int64_t stretches = 2 * config.parallel.context, length = config.data.sequence_length;
  if (config.parallel.context <= 1 || length % stretches == 0) return "";
  const std::int64_t below = length / stretches * stretches;
  return fmt::format(
      "{} ranks have 2 stretches each of a sequence, and data.sequence_length, {}, does not divide by {}; {} "
      "would fit",
      config.parallel.context, length, stretches,
      below > 0 ? fmt::format("{} or {}", below, below + stretches) : fmt::format("{}", stretches));
}

void add_parallel(std::vector<Key>& keys) {
  using S = ParallelSection;
  using Int = Integer<std::int64_t>;
  SectionKeys<S> section(keys, "parallel", &RunConfig::parallel);
  section.add<Int>(
      "data", &S::data, "ranks",
      "Data-parallel ranks, which share each batch. Left out: as many as the run is started with.",
      at_least_one);
  require(
      section.add<Int>("replicate", &S::replicate, "ranks",
                       "How many of the data-parallel ranks hold the same shard (hybrid sharding). Each "
                       "group of data · context / replicate neighboring ranks shares one copy of the state.",
                       at_least_one),
      {"parallel.data"}, [](const RunConfig& c) {
        const auto& parallel = c.parallel;
        if (parallel.replicate < 1 || parallel.data % parallel.replicate == 0) return std::string();
        return fmt::format("{} does not divide parallel.data, {}", parallel.replicate, parallel.data);
      });
  require(section.add<Int>("shard", &S::shard, "ranks",
                           "How many ranks share one copy of the state: data · context / replicate. If shard "
                           "is given and data is not, data is replicate · shard / context.",
                           [](const auto& value) { return value ? at_least_one(*value) : ""; }),
          {"parallel.data", "parallel.replicate", "parallel.context"}, [](const RunConfig& c) {
            const auto& parallel = c.parallel;
            const std::int64_t holders =
                parallel.data * std::clamp<std::int64_t>(parallel.context, 1, kMostOfAxis);
            if (!parallel.shard || parallel.replicate < 1 || holders / parallel.replicate == *parallel.shard)
              return std::string();
            return fmt::format("{} times parallel.replicate, {}, is not parallel.data{}, {}", *parallel.shard,
                               parallel.replicate, parallel.context > 1 ? " times parallel.context" : "",
                               holders);
          });
  section.add<Int>("tensor", &S::tensor, "ranks",
                   "Ranks that share each layer (tensor parallelism): its heads, the columns inside its MLP, "
                   "and the vocabulary of embedding and head.",
                   between_one_and_most);
  require(section.add<Boolean>("sequence", &S::sequence, "",
                               "Tensor-parallel ranks share the tokens between layers, too (sequence "
                               "parallelism): norms, sums, and activations that pass from layer to layer and "
                               "are saved. Traffic between ranks is the same in the forward pass, and half "
                               "as much again in the backward pass. No effect if parallel.tensor is 1."),
          {"parallel.tensor", "parallel.context", "train.microbatch", "data.sequence_length"},
          check_sequence);
  require(section.add<Int>(
              "context", &S::context, "ranks",
              "Ranks that share each sequence (context parallelism), for long sequences. Each rank has two "
              "stretches, one from the front and one from the back. Keys and values pass round the ranks.",
              between_one_and_most),
          {"data.sequence_length"}, check_context);
  section.add<Int>("pipeline", &S::pipeline, "ranks",
                   "Stages of a pipeline: ranks that have the model's units one after another.",
                   between_one_and_most);
  require(
      section.add<Word<PipelineSchedule>>(
          "schedule", &S::schedule, "",
          "Of a pipeline. gpipe: all microbatches forward, then all backward. 1f1b: one forward and one "
          "backward in turn, so that fewer activations wait. interleaved: 1f1b with several parallel.chunks "
          "on each stage. zero_bubble: 1f1b whose weight gradients fill the time in which stages would wait. "
          "breadth_first: all microbatches pass a chunk before the next chunk, which suits offloading. Two "
          "schedules do not wait between steps. They train with weights that lack the latest updates, which "
          "changes the mathematics. pipedream_2bw: an update each step, of weights one step old. pipedream: "
          "an update each microbatch, of weights that on stage s of p lack the last p - 1 - s updates."),
      {"parallel.pipeline"}, [](const RunConfig& c) -> std::string {
        return is_asynchronous(c.parallel.schedule) && c.parallel.pipeline == 1
                   ? "pipedream and pipedream_2bw need parallel.pipeline, more than 1 stage"
                   : "";
      });
  require(section.add<Int>("chunks", &S::chunks, "",
                           "Chunks of units on each stage of a pipeline, for interleaved and breadth_first. "
                           "Chunk c belongs to stage c mod pipeline.",
                           between_one_and_most),
          {"parallel.pipeline"}, [](const RunConfig& c) -> std::string {
            return c.parallel.chunks > 1 && c.parallel.pipeline == 1
                       ? "more than 1 chunk needs parallel.pipeline, more than 1 stage"
                       : "";
          });
  section.add<TextList>("stages", &S::stages, "",
                        "The units of each stage of a pipeline, or of each chunk if there are several. It "
                        "lists numbers of units, as in [5, 6, 6, 5], or first units, as in [embedding, "
                        "block.4]. Left out: chosen by time, then by memory.");
  section.add<Integer<int>>(
      "zero_stage", &S::zero_stage, "",
      "What data-parallel ranks share: 0 nothing, 1 optimizer state, 2 gradients too, 3 parameters too. With "
      "one rank all stages are the same.",
      [](const int& value) -> std::string { return value < 0 || value > 3 ? "must be 0, 1, 2 or 3" : ""; });
  require(
      section.add<Word<ReduceDtype>>("reduce_dtype", &S::reduce_dtype, "",
                                     "Type of gradients between ranks: fp32, or bf16 in half the bytes, with "
                                     "train.precision bf16 or fp8 only. CPUs add them in fp32 in each case."),
      {"train.precision"}, [](const RunConfig& c) -> std::string {
        return c.parallel.reduce_dtype == ReduceDtype::bf16 &&
                       c.train.precision.value_or(DType::bf16).storage != DType::bf16
                   ? "bf16 needs train.precision bf16 or fp8; use fp32 with any other precision"
                   : "";
      });
  section.add<Boolean>(
      "sparse_gradients", &S::sparse_gradients, "",
      "If the head has weights of its own: send only the rows of the embedding's gradient that tokens touch, "
      "with their numbers, if that is less. On CPUs the sum has the same bits.");
}

template <TierChoice MemorySection::*kind>
std::string check_placement(const RunConfig& config) {
  const TierChoice tier = config.memory.*kind;
  if (tier == TierChoice::nvme && config.memory.nvme_path.empty())
    return "nvme needs memory.nvme.path, a folder on a drive";
  if (tier == TierChoice::host && !config.memory.host) return "host needs memory.host, a budget";
  return "";
}

std::string check_packed(const RunConfig& config) {
  return config.train.precision.value_or(kFp8) == kFp8 ? ""
                                                       : "fp8 needs train.precision fp8, whose products "
                                                         "round these numbers anyway; use precision with any "
                                                         "other";
}

std::string check_frozen_as(const RunConfig& config) {
  return config.memory.frozen_as == ParameterFormat::fp8 ? check_packed(config) : "";
}

std::string check_trained_as(const RunConfig& config) {
  if (config.memory.trained_as == ParameterFormat::precision) return "";
  if (has_blocks(config.memory.trained_as))
    return "int8 and nf4 are for what is frozen, memory.frozen_as; use precision or fp8";
  return is_asynchronous(config.parallel.schedule)
             ? "fp8 goes with no parallel.schedule that keeps versions of its weights; use precision, or 1f1b"
             : check_packed(config);
}

std::string check_parameter_placement(const RunConfig& config) {
  const bool away =
      config.memory.parameters == TierChoice::host || config.memory.parameters == TierChoice::nvme;
  return away && config.memory.optimizer_state == TierChoice::device
             ? "parameters that are updated on the device live there: with memory.placement.optimizer_state: "
               "device "
               "leave it out"
             : check_placement<&MemorySection::parameters>(config);
}

std::string some_rate(const std::optional<Bytes>& value) {
  return value ? some_bytes(*value) : "";
}

void add_memory(std::vector<Key>& keys) {
  using S = MemorySection;
  SectionKeys<S> section(keys, "memory", &RunConfig::memory);
  section.add<Size>("device", &S::device, "", "Budget of device memory. unlimited: what the machine has.",
                    some_bytes);
  section.add<Size>("host", &S::host, "",
                    "Budget of host memory for what does not fit the device. unlimited: what the machine "
                    "has. Left out: the tier is not used.",
                    [](const std::optional<Bytes>& value) { return value ? some_bytes(*value) : ""; });
  SectionKeys<S> nvme(keys, "memory.nvme", &RunConfig::memory);
  require(nvme.add<PathList>("path", &S::nvme_path, "",
                             "Folders on local drives, for what fits neither device nor host. Each folder "
                             "gets a share by its speed. Left out: the tier is not used."),
          {"memory.host"}, [](const RunConfig& c) -> std::string {
            return !c.memory.nvme_path.empty() && !c.memory.host
                       ? "needs memory.host: what is read from drives passes through host memory"
                       : "";
          });
  nvme.add<Size>("size", &S::nvme_size, "", "Budget of all folders together. unlimited: the free space.",
                 some_bytes);
  nvme.add<Word<NvmeEngine>>(
      "engine", &S::nvme_engine, "",
      "How files are read and written. auto: io_uring if the system allows it, otherwise threads.");
  nvme.add<Boolean>("verify", &S::nvme_verify, "",
                    "Keep a checksum of everything that is written, and check it when it is read.");
  SectionKeys<S> limit(keys, "memory.nvme.limit", &RunConfig::memory);
  limit.add<Rate>("read", &S::nvme_read_per_second, "",
                  "Highest rate of reading from all folders together. Left out or unlimited: no limit.",
                  some_rate);
  limit.add<Rate>("write", &S::nvme_write_per_second, "",
                  "Highest rate of writing to all folders together. Reading and writing share the drives' "
                  "time. Left out or unlimited: no limit.",
                  some_rate);
  SectionKeys<S> placement(keys, "memory.placement", &RunConfig::memory);
  using Which = Word<TierChoice>;
  require(placement.add<Which>("parameters", &S::parameters, "", "Where parameters live."),
          {"memory.nvme.path", "memory.host", "memory.placement.optimizer_state"}, check_parameter_placement);
  using Format = Word<ParameterFormat>;
  require(
      section.add<Format>("trained_as", &S::trained_as, "",
                          "How trained parameters are kept beside their masters, and travel between tiers "
                          "and ranks. precision: as passes read them. fp8: matrices of blocks' linear layers "
                          "as e4m3 with a scale for each, or for each rank's part. It needs train.precision "
                          "fp8, whose products round them in any case. Results are those of precision if "
                          "each rank has whole matrices, and near them else. Parameters that a single rank "
                          "updates on its device stay unpacked. int8 and nf4 are for frozen_as."),
      {"train.precision", "parallel.schedule"}, check_trained_as);
  require(section.add<Format>(
              "frozen_as", &S::frozen_as, "",
              "How frozen parameters are kept and travel, on the device, too: those of train.freeze, and "
              "those beside adapters. precision: as passes read them. fp8: as in trained_as, with the losses "
              "of precision. int8, nf4: the same matrices in bitsandbytes' formats, with any "
              "train.precision. int8 has a scale for each row, nf4 (4-bit NormalFloat) one for each 64 "
              "elements. Passes read the numbers that the codes stand for; beside adapters that is QLoRA. "
              "Checkpoints and exports have the rounded numbers, except with fp8 beside adapters. GPT-2's "
              "matrices are stored by inputs, so their codes are not those of bitsandbytes."),
          {"train.precision"}, check_frozen_as);
  require(placement.add<Which>("optimizer_state", &S::optimizer_state, "",
                               "Where master weights and the optimizer's moments live, and are updated."),
          {"memory.nvme.path", "memory.host"}, check_placement<&S::optimizer_state>);
  require(placement.add<Which>("gradients", &S::gradients, "",
                               "Where gradients wait for the update. device: there while they are summed."),
          {"memory.nvme.path", "memory.host"}, check_placement<&S::gradients>);
  require(placement.add<Which>("activations", &S::activations, "",
                               "Where saved activations wait for the backward pass."),
          {"memory.nvme.path", "memory.host"}, check_placement<&S::activations>);
}

void add_plan(std::vector<Key>& keys) {
  using S = PlanSection;
  SectionKeys<S> section(keys, "plan", &RunConfig::plan);
  require(section.add<Word<Order>>("order", &S::order, "",
                                   "layer_major: all microbatches pass a layer before the next layer is "
                                   "fetched. microbatch_major: one microbatch passes all layers first. Left "
                                   "out: the planner chooses. A pipeline has parallel.schedule instead."),
          {"parallel.pipeline"}, [](const RunConfig& c) -> std::string {
            return c.plan.order && c.parallel.pipeline > 1
                       ? "parallel.schedule is the order of a pipeline; leave plan.order out"
                       : "";
          });
  section.add<Word<LaneMode>>("lanes", &S::lanes, "",
                              "overlapped: computing, copying and updates run side by side. serial: one "
                              "instruction at a time, for testing. Results have the same bits.");
  section.add<Path>("machine", &S::machine, "",
                    "File with a machine's rates and memory to plan by, as strata doctor --profile writes "
                    "it. Left out: nominal rates, the same on every machine, and this machine's memory.");
  section.add<Word<PlanSearch>>(
      "search", &S::search, "",
      "auto: finds train.microbatch and the keys of parallel that are left out, except stages, reduce_dtype "
      "and sparse_gradients. Of all layouts that the ranks allow, it takes the one with the shortest step by "
      "the rates of plan.machine. A resumed run keeps its layout. none: keys that are left out have their "
      "defaults.");
}

bool is_limit(double value) {
  return value > 0;
}
bool is_limit(const std::optional<Bytes>& value) {
  return value.has_value();
}

template <auto kLimit>
std::string check_cpu_only(const RunConfig& config) {
  return is_limit(config.device.*kLimit) && config.device.kind != DeviceKind::cpu
             ? "slows down the CPU device only; leave it out with another device.kind"
             : "";
}

void add_device(std::vector<Key>& keys) {
  using S = DeviceSection;
  SectionKeys<S> section(keys, "device", &RunConfig::device);
  section.add<Word<DeviceKind>>(
      "kind", &S::kind, "",
      "The device that computes: the CPU, or an NVIDIA GPU if this program was built with CUDA.");
  require(section.add<Number>("flops", &S::flops_per_second, "FLOP/s",
                              "Highest computing rate of the CPU device, to study waiting ranks on fewer "
                              "cores than they would have. 0: no limit.",
                              not_below_zero),
          {"device.kind"}, check_cpu_only<&S::flops_per_second>);
  section.add<Path>(
      "product_table", &S::product_table, "",
      "File with the fastest of cuBLASLt's algorithms for each product, by GPU, version of the library, and "
      "shape. Missing algorithms are timed before the run begins and added, and then stay. So all runs with "
      "this file have the same bits. Several runs and machines may share it. Left out: cuBLASLt's first "
      "proposal, the same bits on every machine with such a GPU. No effect on the CPU.");
  SectionKeys<S> link(keys, "device.link", &RunConfig::device);
  require(link.add<Rate>("h2d", &S::h2d_per_second, "",
                         "Highest rate of copies from host to device, to study a slower link. Left out or "
                         "unlimited: no limit.",
                         some_rate),
          {"device.kind"}, check_cpu_only<&S::h2d_per_second>);
  require(link.add<Rate>("d2h", &S::d2h_per_second, "",
                         "Highest rate of copies from device to host. Left out or unlimited: no limit.",
                         some_rate),
          {"device.kind"}, check_cpu_only<&S::d2h_per_second>);
  require(link.add<Rate>("ranks", &S::sent_per_second, "",
                         "Highest rate of sending to other ranks: each exchange takes that much longer.",
                         some_rate),
          {"device.kind"}, check_cpu_only<&S::sent_per_second>);
}

void add_checkpoint(std::vector<Key>& keys) {
  using S = CheckpointSection;
  SectionKeys<S> section(keys, "checkpoint", &RunConfig::checkpoint);
  section
      .add<FolderOrNone>(
          "path", &S::path, "",
          "Folder of the checkpoints. A run resumes from the newest one in it, and saves at its end and when "
          "it is stopped. none: nothing is saved. Left out: out/NAME, with the name of the run file without "
          ".yaml. That folder is refused if it has another run file's checkpoints.")
      .default_words = "default out/NAME";
  section.add<Integer<std::int64_t>>(
      "every", &S::every, "steps",
      "Steps between checkpoints that are written during training; 0: steps do not count.", not_negative);
  section.add<Number>(
      "every_minutes", &S::every_minutes, "minutes",
      "A checkpoint is also saved between steps after this time without one; 0: time does not count. Not "
      "with the schedules pipedream and pipedream_2bw, whose pipeline drains for it.",
      not_below_zero);
  section.add<Integer<std::int64_t>>("keep", &S::keep, "checkpoints",
                                     "The newest N are kept, older ones are deleted.", at_least_one);
  section.add<Integer<std::int64_t>>(
      "wait_for_space", &S::wait_for_space_seconds, "seconds",
      "How long a finished run tries again to save if the disk is full, before it gives up.", not_negative);
}

std::string rising_spans(const std::vector<StepSpan>& spans) {
  std::int64_t before = 0;
  for (const auto& [first, last] : spans) {
    if (first <= before || last < first) return "must be positive and rise";
    before = last;
  }
  return "";
}

void add_report(std::vector<Key>& keys) {
  using S = ReportSection;
  SectionKeys<S> section(keys, "report", &RunConfig::report);
  section.add<Path>("metrics", &S::metrics, "", "File that gets one JSON line per step. Left out: none.");
  section.add<Path>(
      "tensorboard", &S::tensorboard, "",
      "Folder for event files, which TensorBoard draws: tensorboard --logdir DIR. Left out: none.");
  SectionKeys<S> trace(keys, "report.trace", &RunConfig::report);
  require(trace.add<Path>("path", &S::trace_path, "",
                          "File of the trace, such as out/trace.pftrace. A trace in it is continued. Rank N "
                          "of several writes out/trace.rank-N.pftrace. Left out: none."),
          {"report.trace.steps"}, [](const RunConfig& c) -> std::string {
            return c.report.trace_steps.empty() && !c.report.trace_path.empty()
                       ? "needs report.trace.steps, such as [3, 100-102]"
                       : "";
          });
  require(
      trace.add<StepSpans>(
          "steps", &S::trace_steps, "steps",
          "Which steps, counted from 1: [3, 100-102, 5000]. Of several models, those of each.", rising_spans),
      {"report.trace.path"}, [](const RunConfig& c) -> std::string {
        return c.report.trace_path.empty() && !c.report.trace_steps.empty()
                   ? "is of no effect without report.trace.path, a file"
                   : "";
      });
}

}  // namespace

void add_machine_keys(std::vector<Key>& keys) {
  add_parallel(keys);
  add_memory(keys);
  add_plan(keys);
  add_device(keys);
  add_checkpoint(keys);
  add_report(keys);
}

}  // namespace strata
