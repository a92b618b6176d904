#include "engine/device/cuda/attention_cudnn.h"

#include <cudnn_frontend.h>
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <initializer_list>
#include <map>
#include <memory>
#include <mutex>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "engine/device/attention_calls.h"
#include "engine/device/cuda/attention_documents.h"
#include "engine/device/cuda/attention_parts.h"
#include "engine/device/cuda/cuda_error.h"

namespace strata {
namespace {

namespace fe = cudnn_frontend;
using Tensor = std::shared_ptr<fe::graph::Tensor_attributes>;

/// Names of the tensors of both graphs. A graph takes its pointers in this order, without those of tensors
/// that it lacks.
enum Name : std::int64_t {
  kQuery = 1,
  kKey,
  kValue,
  kOut,
  kLogSumExp,
  kOutGradient,
  kQueryGradient,
  kKeyGradient,
  kValueGradient,
  kQueryLengths,
  kKeyLengths,
};

/// cuDNN's kernels load and store 16 bytes at a time, and do not check.
constexpr std::int64_t kVectorBytes = 16;

bool vectors_fit(const Matrix& matrix) {
  return matrix.dtype != DType::fp32 && reinterpret_cast<std::uintptr_t>(matrix.data) % kVectorBytes == 0 &&
         matrix.stride * size_of(matrix.dtype) % kVectorBytes == 0;
}

/// Why cuDNN is not asked; empty if it is.
std::string why_not(const AttentionShape& shape, const Places& places, std::initializer_list<Matrix> operands,
                    const Matrix& log_sum_exp) {
  if (shape.soft_cap != 0) return "cuDNN knows no soft cap";
  if (!cudnn_computes(shape)) return "cuDNN computes no steps of a ring of ranks";
  const auto is_fp32 = [](const Matrix& matrix) { return matrix.dtype == DType::fp32; };
  if (std::any_of(operands.begin(), operands.end(), is_fp32)) return "cuDNN computes none in fp32";
  if (shape.batch < 1 || shape.sequence < 2) return "cuDNN computes none of less than two tokens";
  if (!places.empty() && document_classes(shape.sequence).empty())
    return fmt::format("cuDNN is given no documents of at most {} tokens", kShortDocument);
  if (shape.head_dimension * size_of(DType::bf16) % kVectorBytes != 0 ||
      !std::all_of(operands.begin(), operands.end(), vectors_fit) || !log_sum_exp.contiguous())
    return "cuDNN loads 16 bytes at a time, and heads do not begin at multiples of them";
  return {};
}

std::string too_large_head() {
  return fmt::format(
      "the scores of one head are more than {}, which cuDNN's deterministic backward pass keeps",
      format_bytes(kLargestHeadBytes));
}

/// What a plan is made for: shape and strides.
struct Problem {
  bool backward = false;
  DType dtype = DType::bf16;
  std::int64_t batch = 0, sequence = 0, heads = 0, kv_heads = 0, head_dimension = 0, window = 0;
  float scale = 1;
  std::int64_t query = 0, key = 0, value = 0, out = 0;  ///< strides
  std::int64_t out_gradient = 0, query_gradient = 0, key_gradient = 0, value_gradient = 0;
  bool padded = false;  ///< a sequence has only as many tokens as it is told when the plan runs

  // NOLINTNEXTLINE(modernize-use-nullptr): clang-tidy 14 misreads it
  auto operator<=>(const Problem&) const = default;
};

Problem problem_of(const AttentionForward& call) {
  const AttentionShape& shape = call.shape;
  return {.dtype = call.query.dtype,
          .batch = shape.batch,
          .sequence = shape.sequence,
          .heads = shape.heads,
          .kv_heads = shape.kv_heads,
          .head_dimension = shape.head_dimension,
          .window = shape.window < shape.sequence ? shape.window : 0,
          .scale = shape.scale,
          .query = call.query.stride,
          .key = call.key.stride,
          .value = call.value.stride,
          .out = call.out.stride};
}

Problem problem_of(const AttentionBackward& call) {
  const AttentionForward forward{call.shape, call.query, call.key, call.value, call.out, call.log_sum_exp};
  Problem problem = problem_of(forward);
  problem.backward = true;
  problem.out_gradient = call.out_gradient.stride;
  problem.query_gradient = call.query_gradient.stride;
  problem.key_gradient = call.key_gradient.stride;
  problem.value_gradient = call.value_gradient.stride;
  return problem;
}

template <typename Call>
Problem problem_of_slots(const Call& slots) {
  Problem problem = problem_of(slots);
  problem.padded = true;
  return problem;
}

/// The tensors of a call's plan in the order of Name.
std::vector<void*> pointers_of(const AttentionForward& call) {
  return {call.query.data, call.key.data, call.value.data, call.out.data, call.log_sum_exp.data};
}
std::vector<void*> pointers_of(const AttentionBackward& call) {
  return {call.query.data,         call.key.data,          call.value.data,          call.out.data,
          call.log_sum_exp.data,   call.out_gradient.data, call.query_gradient.data, call.key_gradient.data,
          call.value_gradient.data};
}

/// Rows of tokens as cuDNN's [batch, heads, sequence, head_dimension].
void describe(fe::graph::Tensor_attributes& tensor, const Problem& problem, Name name, std::int64_t heads,
              std::int64_t stride) {
  tensor.set_uid(name)
      .set_dim({problem.batch, heads, problem.sequence, problem.head_dimension})
      .set_stride({problem.sequence * stride, problem.head_dimension, stride, 1});
}

void describe_log_sum_exp(fe::graph::Tensor_attributes& tensor, const Problem& problem) {
  tensor.set_uid(kLogSumExp)
      .set_dim({problem.batch, problem.heads, problem.sequence, 1})
      .set_stride({problem.heads * problem.sequence, problem.sequence, 1, 1})
      .set_data_type(fe::DataType_t::FLOAT);
}

Tensor input(fe::graph::Graph& graph, const Problem& problem, Name name, std::int64_t heads,
             std::int64_t stride) {
  fe::graph::Tensor_attributes tensor;
  describe(tensor, problem, name, heads, stride);
  return graph.tensor(tensor);
}

void output(const Tensor& tensor, const Problem& problem, Name name, std::int64_t heads,
            std::int64_t stride) {
  describe(*tensor, problem, name, heads, stride);
  tensor->set_output(true);
}

Tensor lengths(fe::graph::Graph& graph, const Problem& problem, Name name) {
  fe::graph::Tensor_attributes tensor;
  tensor.set_uid(name)
      .set_dim({problem.batch, 1, 1, 1})
      .set_stride({1, 1, 1, 1})
      .set_data_type(fe::DataType_t::INT32);
  return graph.tensor(tensor);
}

/// Token t sees (t - window, t] or [0, t].
template <typename Attributes>
Attributes masked(fe::graph::Graph& graph, const Problem& problem) {
  Attributes attributes;
  attributes.set_diagonal_alignment(fe::DiagonalAlignment_t::TOP_LEFT).set_diagonal_band_right_bound(0);
  if (problem.window > 0) attributes.set_diagonal_band_left_bound(static_cast<int>(problem.window));
  attributes.set_attn_scale(problem.scale);
  if (problem.padded) {
    attributes.set_padding_mask(true)
        .set_seq_len_q(lengths(graph, problem, kQueryLengths))
        .set_seq_len_kv(lengths(graph, problem, kKeyLengths));
  }
  return attributes;
}

void add_forward(fe::graph::Graph& graph, const Problem& problem) {
  auto attributes = masked<fe::graph::SDPA_attributes>(graph, problem);
  attributes.set_generate_stats(true);
  const auto [out, log_sum_exp] =
      graph.sdpa(input(graph, problem, kQuery, problem.heads, problem.query),
                 input(graph, problem, kKey, problem.kv_heads, problem.key),
                 input(graph, problem, kValue, problem.kv_heads, problem.value), attributes);
  output(out, problem, kOut, problem.heads, problem.out);
  describe_log_sum_exp(*log_sum_exp, problem);
  log_sum_exp->set_output(true);
}

void add_backward(fe::graph::Graph& graph, const Problem& problem) {
  auto attributes = masked<fe::graph::SDPA_backward_attributes>(graph, problem);
  attributes.set_deterministic_algorithm(true);
  fe::graph::Tensor_attributes log_sum_exp;
  describe_log_sum_exp(log_sum_exp, problem);
  const auto [query, key, value] =
      graph.sdpa_backward(input(graph, problem, kQuery, problem.heads, problem.query),
                          input(graph, problem, kKey, problem.kv_heads, problem.key),
                          input(graph, problem, kValue, problem.kv_heads, problem.value),
                          input(graph, problem, kOut, problem.heads, problem.out),
                          input(graph, problem, kOutGradient, problem.heads, problem.out_gradient),
                          graph.tensor(log_sum_exp), attributes);
  output(query, problem, kQueryGradient, problem.heads, problem.query_gradient);
  output(key, problem, kKeyGradient, problem.kv_heads, problem.key_gradient);
  output(value, problem, kValueGradient, problem.kv_heads, problem.value_gradient);
}

/// cuDNN's reasons, which come from each engine in several lines, in one of at most 300 characters.
std::string in_one_line(const std::string& message) {
  constexpr std::size_t kMost = 300;
  constexpr std::string_view kReason = "Reason: ";
  std::vector<std::string> said;
  std::istringstream lines(message);
  for (std::string line; std::getline(lines, line);) {
    const std::size_t reason = line.find(kReason);
    if (reason != std::string::npos) line.erase(0, reason + kReason.size());
    const bool is_of_its_code = line.find("()") != std::string::npos || line.find("==") != std::string::npos;
    if (line.empty() || line.front() == '{' || is_of_its_code || std::ranges::find(said, line) != said.end())
      continue;
    said.push_back(line);
  }
  std::string all = fmt::format("{}", fmt::join(said, "; "));
  if (all.size() > kMost) all = all.substr(0, kMost - 3) + "...";
  return all;
}

/// For the GPU of the handle that it is built with, or a described one.
std::unique_ptr<fe::graph::Graph> graph_of(const Problem& problem, const DescribedGpu* gpu = nullptr) {
  auto graph = std::make_unique<fe::graph::Graph>();
  if (gpu != nullptr) graph->set_sm_version(gpu->sm_version);  // operators take it over when they are added
  graph->set_io_data_type(problem.dtype == DType::bf16 ? fe::DataType_t::BFLOAT16 : fe::DataType_t::HALF)
      .set_intermediate_data_type(fe::DataType_t::FLOAT)
      .set_compute_data_type(fe::DataType_t::FLOAT);
  problem.backward ? add_backward(*graph, problem) : add_forward(*graph, problem);
  return graph;
}

const std::vector<fe::HeurMode_t> kHeuristics = {fe::HeurMode_t::A, fe::HeurMode_t::FALLBACK};

/// Why the graph cannot run on pointers in the order of Name; empty if it can. A graph takes pointers by
/// position: those of its tensors in the order that it gives their names.
std::string why_in_another_order(const fe::graph::Graph& graph, const Problem& problem) {
  std::vector<std::int64_t> names;
  for (std::int64_t name = kQuery; name <= (problem.backward ? kValueGradient : kLogSumExp); ++name)
    names.push_back(name);
  if (problem.padded) names.insert(names.end(), {kQueryLengths, kKeyLengths});
  const std::vector<std::int64_t> taken = graph.get_variant_pack_uids_sorted();
  if (taken == names) return {};
  return fmt::format("it takes operands {}, not {}", fmt::join(taken, " "), fmt::join(names, " "));
}

CudnnAnswer ask(const Problem& problem, const DescribedGpu& gpu) {
  auto properties = std::make_shared<fe::DeviceProperties>();
  if (const fe::error_t status = properties->deserialize({gpu.properties.begin(), gpu.properties.end()});
      status.is_bad())
    return {.refusal = "cuDNN does not take the description of the GPU: " + in_one_line(status.err_msg)};
  const std::unique_ptr<fe::graph::Graph> graph = graph_of(problem, &gpu);
  graph->set_device_properties(properties);
  if (const fe::error_t status = graph->build(kHeuristics); status.is_bad())
    return {.refusal = in_one_line(status.err_msg)};
  CudnnAnswer answer{.refusal = why_in_another_order(*graph, problem)};
  if (const fe::error_t status = graph->get_workspace_size(answer.workspace_bytes); status.is_bad())
    answer.refusal = in_one_line(status.err_msg);
  return answer;
}

/// Asks for all plans over slots: the answer has the largest workspace, or the first refusal.
template <typename Call>
CudnnAnswer ask_of_slots(const Call& call, const DescribedGpu& gpu) {
  const std::optional<AttentionChunk> chunk = document_chunk(call.shape);
  if (!chunk) return {.refusal = "it has no slots for documents"};
  CudnnAnswer answer;
  for (const Call& slots : slot_calls(call, *chunk)) {
    CudnnAnswer of_class = ask(problem_of_slots(slots), gpu);
    if (!of_class.refusal.empty()) return of_class;
    answer.workspace_bytes = std::max(answer.workspace_bytes, of_class.workspace_bytes);
  }
  return answer;
}

}  // namespace

CudnnAnswer ask_cudnn(const AttentionForward& call, const DescribedGpu& gpu) {
  return call.places.empty() ? ask(problem_of(call), gpu) : ask_of_slots(call, gpu);
}

CudnnAnswer ask_cudnn(const AttentionBackward& call, const DescribedGpu& gpu) {
  if (!call.places.empty()) return ask_of_slots(call, gpu);
  const std::optional<AttentionChunk> chunk = backward_chunk(call.shape);
  if (!chunk) return {.refusal = "one head is too large"};
  return ask(problem_of(part_of(call, *chunk, head_gradients(call, *chunk, nullptr))), gpu);
}

namespace {

/// A graph that was built for a problem, or why cuDNN refuses it.
struct BuiltGraph {
  std::unique_ptr<fe::graph::Graph> graph;
  std::string refusal;
};

/// The process's graphs, since building one takes cuDNN up to a second. Any thread may call; the graph's
/// device is current. Graphs and the handles that built them stay until the process ends, when CUDA may be
/// gone before static objects are.
class BuiltGraphs {
 public:
  static BuiltGraphs& of_process() {
    static auto* const graphs = new BuiltGraphs;
    return *graphs;
  }

  const BuiltGraph& find(const Problem& problem) {
    int device = 0;
    check_cuda(cudaGetDevice(&device), "the GPU in use is unknown");
    const std::lock_guard lock(mutex_);
    const auto [known, is_new] = graphs_.try_emplace({device, problem});
    if (is_new) known->second = build(device, problem);
    return known->second;
  }

 private:
  BuiltGraph build(int device, const Problem& problem) {
    cudnnHandle_t& handle = handles_[device];
    if (handle == nullptr) {
      if (const cudnnStatus_t status = cudnnCreate(&handle); status != CUDNN_STATUS_SUCCESS) {
        handle = nullptr;
        return {.graph = nullptr, .refusal = cudnnGetErrorString(status)};
      }
    }
    std::unique_ptr<fe::graph::Graph> graph = graph_of(problem);
    const fe::error_t status = graph->build(handle, kHeuristics);
    cudaGetLastError();  // what cuDNN tried in vain is no failure of what comes next
    if (status.is_bad()) return {.graph = nullptr, .refusal = in_one_line(status.err_msg)};
    if (std::string why = why_in_another_order(*graph, problem); !why.empty())
      return {.graph = nullptr, .refusal = std::move(why)};
    return {.graph = std::move(graph), .refusal = {}};
  }

  std::mutex mutex_;
  std::map<int, cudnnHandle_t> handles_;                  ///< by device
  std::map<std::pair<int, Problem>, BuiltGraph> graphs_;  ///< by device and problem
};

}  // namespace

class CudnnAttention::Plans {
 public:
  explicit Plans(SlowPaths& slow_paths) : slow_paths_(slow_paths) {}
  ~Plans() {
    if (handle_ != nullptr) cudnnDestroy(handle_);
  }
  Plans(const Plans&) = delete;
  Plans& operator=(const Plans&) = delete;

  /// A graph that was built for the problem; null if cuDNN refuses it, which is said.
  const fe::graph::Graph* find(const Problem& problem) {
    const BuiltGraph& built = BuiltGraphs::of_process().find(problem);
    if (!built.refusal.empty()) {
      say_slow(
          {.sequence = problem.sequence, .heads = problem.heads, .head_dimension = problem.head_dimension},
          fmt::format("cuDNN refuses its {} pass ({})", problem.backward ? "backward" : "forward",
                      built.refusal));
    }
    return built.graph.get();
  }

  /// `pointers` in the order of Name.
  void run(const CudaContext& context, const fe::graph::Graph& graph, std::vector<void*> pointers,
           std::byte* workspace) {
    if (handle_ == nullptr) check(cudnnCreate(&handle_));
    check(cudnnSetStream(handle_, context.stream));
    check(graph.execute(handle_, pointers.data(), static_cast<int>(pointers.size()), workspace));
  }

  /// Enqueues a call within documents. False, with nothing enqueued, if cuDNN does not compute it, which is
  /// said.
  template <typename Call>
  bool run_within_documents(const CudaContext& context, const Call& call) {
    const std::optional<AttentionChunk> chunk = document_chunk(call.shape);
    if (!chunk) {
      say_slow(call.shape, too_large_head());
      return false;
    }
    Bytes workspace = 0;
    for (const Call& slots : slot_calls(call, *chunk)) {
      const fe::graph::Graph* graph = find(problem_of_slots(slots));
      if (graph == nullptr) return false;
      workspace = std::max(workspace, workspace_bytes(*graph));
    }
    strata::run_within_documents(context, call, *chunk, workspace,
                                 [&](const Call& slots, std::int32_t* lengths, std::byte* memory) {
                                   std::vector<void*> pointers = pointers_of(slots);
                                   pointers.insert(pointers.end(), 2, lengths);  // of queries and of keys
                                   run(context, *find(problem_of_slots(slots)), pointers, memory);
                                 });
    return true;
  }

  static Bytes workspace_bytes(const fe::graph::Graph& graph) {
    std::int64_t bytes = 0;
    check(graph.get_workspace_size(bytes));
    return bytes;
  }

  /// Says that kernels of our own compute such attention.
  void say_slow(const AttentionShape& shape, const std::string& why) {
    slow_paths_.add(
        fmt::format("attention over {} tokens with {} heads of {} goes through kernels that are slower "
                    "than cuDNN's: {}",
                    shape.sequence, shape.heads, shape.head_dimension, why));
  }

 private:
  static void check(const fe::error_t& status) {
    if (status.is_bad())
      throw DeviceError(fmt::format("attention could not be started (cuDNN: {})", status.err_msg));
  }

  static void check(cudnnStatus_t status) {
    if (status != CUDNN_STATUS_SUCCESS)
      throw DeviceError(
          fmt::format("attention could not be started (cuDNN: {})", cudnnGetErrorString(status)));
  }

  SlowPaths& slow_paths_;
  cudnnHandle_t handle_ = nullptr;  ///< of the stream
};

CudnnAttention::CudnnAttention(SlowPaths& slow_paths) : plans_(std::make_unique<Plans>(slow_paths)) {}
CudnnAttention::~CudnnAttention() = default;

bool CudnnAttention::forward(const CudaContext& context, const AttentionForward& call) {
  if (const std::string why =
          why_not(call.shape, call.places, {call.query, call.key, call.value, call.out}, call.log_sum_exp);
      !why.empty()) {
    plans_->say_slow(call.shape, why);
    return false;
  }
  if (!call.places.empty()) return plans_->run_within_documents(context, call);
  const fe::graph::Graph* graph = plans_->find(problem_of(call));
  if (graph == nullptr) return false;
  plans_->run(context, *graph, pointers_of(call), context.scratch.at_least(Plans::workspace_bytes(*graph)));
  return true;
}

bool CudnnAttention::backward(const CudaContext& context, const AttentionBackward& call) {
  if (const std::string why = why_not(call.shape, call.places,
                                      {call.query, call.key, call.value, call.out, call.out_gradient,
                                       call.query_gradient, call.key_gradient, call.value_gradient},
                                      call.log_sum_exp);
      !why.empty()) {
    plans_->say_slow(call.shape, why);
    return false;
  }
  if (!call.places.empty()) return plans_->run_within_documents(context, call);
  const std::optional<AttentionChunk> chunk = backward_chunk(call.shape);
  if (!chunk) {
    plans_->say_slow(call.shape, too_large_head());
    return false;
  }
  const auto gradients_in = [&](std::byte* memory) { return head_gradients(call, *chunk, memory); };
  const fe::graph::Graph* graph = plans_->find(problem_of(part_of(call, *chunk, gradients_in(nullptr))));
  if (graph == nullptr) return false;
  const Bytes of_heads = head_gradient_bytes(call.shape, *chunk);
  std::byte* memory = context.scratch.at_least(of_heads + Plans::workspace_bytes(*graph));
  run_in_parts(context, call, *chunk, gradients_in(memory), [&](const AttentionBackward& part) {
    plans_->run(context, *graph, pointers_of(part), memory + of_heads);
  });
  return true;
}

}  // namespace strata
