#include "engine/device/cuda/attention_cudnn.h"

#include <cudnn_frontend.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <initializer_list>
#include <map>

#include "base/error.h"
#include "engine/device/cuda/attention_chunk.h"
#include "engine/device/cuda/cuda_error.h"

namespace strata {
namespace {

namespace fe = cudnn_frontend;
using Tensor = std::shared_ptr<fe::graph::Tensor_attributes>;

/// Names of the tensors of both graphs. A plan takes its pointers in this order, without the ones that it
/// lacks.
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
};

constexpr std::int64_t kForwardTensors = kLogSumExp;
constexpr std::int64_t kBackwardTensors = kValueGradient;

/// cuDNN's kernels load and store 16 bytes at a time, and do not check.
constexpr std::int64_t kVectorBytes = 16;

bool vectors_fit(const Matrix& matrix) {
  return matrix.dtype != DType::fp32 && reinterpret_cast<std::uintptr_t>(matrix.data) % kVectorBytes == 0 &&
         matrix.stride * size_of(matrix.dtype) % kVectorBytes == 0;
}

bool may_fit(const AttentionShape& shape, std::initializer_list<Matrix> operands, const Matrix& log_sum_exp) {
  if (!cudnn_computes(shape) || shape.batch < 1 || shape.sequence < 2 ||
      shape.head_dimension * size_of(DType::bf16) % kVectorBytes != 0)
    return false;
  return std::all_of(operands.begin(), operands.end(), vectors_fit) && log_sum_exp.contiguous();
}

/// What a plan is made for: shape and strides.
struct Problem {
  bool backward = false;
  DType dtype = DType::bf16;
  std::int64_t batch = 0, sequence = 0, heads = 0, kv_heads = 0, head_dimension = 0, window = 0;
  float scale = 1;
  std::int64_t query = 0, key = 0, value = 0, out = 0;  ///< strides
  std::int64_t out_gradient = 0, query_gradient = 0, key_gradient = 0, value_gradient = 0;

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

Problem problem_of(const AttentionBackward& call, const AttentionChunk& chunk) {
  const AttentionForward forward{call.shape, call.query, call.key, call.value, call.out, call.log_sum_exp};
  Problem problem = problem_of(forward);
  problem.backward = true;
  problem.heads = call.shape.heads / call.shape.kv_heads * chunk.kv_heads;
  problem.kv_heads = chunk.kv_heads;
  problem.batch = chunk.batch;
  problem.out_gradient = call.out_gradient.stride;
  problem.query_gradient = call.query_gradient.stride;
  problem.key_gradient = call.key_gradient.stride;
  problem.value_gradient = call.value_gradient.stride;
  return problem;
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

/// Token t sees (t - window, t] or [0, t].
template <typename Attributes>
Attributes masked(const Problem& problem) {
  Attributes attributes;
  attributes.set_diagonal_alignment(fe::DiagonalAlignment_t::TOP_LEFT).set_diagonal_band_right_bound(0);
  if (problem.window > 0) attributes.set_diagonal_band_left_bound(static_cast<int>(problem.window));
  attributes.set_attn_scale(problem.scale);
  return attributes;
}

void add_forward(fe::graph::Graph& graph, const Problem& problem) {
  auto attributes = masked<fe::graph::SDPA_attributes>(problem);
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
  auto attributes = masked<fe::graph::SDPA_backward_attributes>(problem);
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

/// Rows of sequences from `batch` on, and columns of heads from `head` on.
void* part(const Matrix& matrix, const AttentionShape& shape, std::int64_t batch, std::int64_t head) {
  return matrix.row_slice(batch * shape.sequence, 1).column_slice(head * shape.head_dimension, 1).data;
}

}  // namespace

class CudnnAttention::Plans {
 public:
  ~Plans() {
    if (handle_ != nullptr) cudnnDestroy(handle_);
  }

  /// A graph that was built for the problem; null if cuDNN refuses it.
  fe::graph::Graph* find(const Problem& problem) {
    const auto [known, fresh] = graphs_.try_emplace(problem);
    if (fresh) known->second = build(problem);
    return known->second.get();
  }

  /// `pointers` in the order of Name.
  void run(const CudaContext& context, fe::graph::Graph& graph, std::span<void*> pointers) {
    std::int64_t workspace_bytes = 0;
    check(graph.get_workspace_size(workspace_bytes));
    std::byte* workspace = context.scratch.at_least(workspace_bytes);
    if (cudnnSetStream(handle_, context.stream) != CUDNN_STATUS_SUCCESS) {
      throw DeviceError("attention could not be started (cuDNN refuses the stream)");
    }
    check(graph.execute(handle_, pointers.data(), static_cast<int>(pointers.size()), workspace));
  }

 private:
  static void check(const fe::error_t& status) {
    if (status.is_bad())
      throw DeviceError(fmt::format("attention could not be started (cuDNN: {})", status.err_msg));
  }

  std::unique_ptr<fe::graph::Graph> build(const Problem& problem) {
    if (handle_ == nullptr && cudnnCreate(&handle_) != CUDNN_STATUS_SUCCESS) handle_ = nullptr;
    if (handle_ == nullptr) return nullptr;
    auto graph = std::make_unique<fe::graph::Graph>();
    graph->set_io_data_type(problem.dtype == DType::bf16 ? fe::DataType_t::BFLOAT16 : fe::DataType_t::HALF)
        .set_intermediate_data_type(fe::DataType_t::FLOAT)
        .set_compute_data_type(fe::DataType_t::FLOAT);
    problem.backward ? add_backward(*graph, problem) : add_forward(*graph, problem);
    const fe::error_t status = graph->build(handle_, {fe::HeurMode_t::A, fe::HeurMode_t::FALLBACK});
    if (status.is_good()) return graph;
    cudaGetLastError();  // a refusal is no failure of what comes next
    return nullptr;
  }

  cudnnHandle_t handle_ = nullptr;
  std::map<Problem, std::unique_ptr<fe::graph::Graph>> graphs_;
};

CudnnAttention::CudnnAttention() : plans_(std::make_unique<Plans>()) {}
CudnnAttention::~CudnnAttention() = default;

bool CudnnAttention::forward(const CudaContext& context, const AttentionForward& call) {
  if (!may_fit(call.shape, {call.query, call.key, call.value, call.out}, call.log_sum_exp)) return false;
  fe::graph::Graph* graph = plans_->find(problem_of(call));
  if (graph == nullptr) return false;
  std::array<void*, kForwardTensors> pointers = {call.query.data, call.key.data, call.value.data,
                                                 call.out.data, call.log_sum_exp.data};
  plans_->run(context, *graph, pointers);
  return true;
}

bool CudnnAttention::backward(const CudaContext& context, const AttentionBackward& call) {
  const AttentionShape& shape = call.shape;
  if (!may_fit(shape,
               {call.query, call.key, call.value, call.out, call.out_gradient, call.query_gradient,
                call.key_gradient, call.value_gradient},
               call.log_sum_exp)) {
    return false;
  }
  const std::optional<AttentionChunk> chunk = backward_chunk(shape);
  if (!chunk) return false;
  fe::graph::Graph* graph = plans_->find(problem_of(call, *chunk));
  if (graph == nullptr) return false;
  for (std::int64_t batch = 0; batch < shape.batch; batch += chunk->batch) {
    for (std::int64_t kv_head = 0; kv_head < shape.kv_heads; kv_head += chunk->kv_heads) {
      const std::int64_t head = kv_head * (shape.heads / shape.kv_heads);
      std::array<void*, kBackwardTensors> pointers = {
          part(call.query, shape, batch, head),
          part(call.key, shape, batch, kv_head),
          part(call.value, shape, batch, kv_head),
          part(call.out, shape, batch, head),
          call.log_sum_exp.row_slice(batch * shape.heads + head, 1).data,
          part(call.out_gradient, shape, batch, head),
          part(call.query_gradient, shape, batch, head),
          part(call.key_gradient, shape, batch, kv_head),
          part(call.value_gradient, shape, batch, kv_head),
      };
      plans_->run(context, *graph, pointers);
    }
  }
  return true;
}

}  // namespace strata
