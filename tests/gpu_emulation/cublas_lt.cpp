// The functions of cuBLASLt that the CUDA device calls. A product is computed from its descriptors, in
// fp32 and in the order of the depth. It fails for descriptors that cuBLASLt would refuse, for promises about
// alignment that the pointers do not keep, and for operands that are not on the device.
#include "engine/device/cuda/cublas_lt_library.h"

#include <cmath>
#include <cstring>
#include <initializer_list>
#include <stdexcept>
#include <string>
#include <vector>

#include "base/dtype.h"
#include "base/float8.h"
#include "optim/stochastic_rounding.h"
#include "tests/cuda_emulation/stream.h"
#include "tests/gpu_emulation/emulated_gpu.h"

struct cublasLtContext {};

namespace strata::gpu_emulation {
namespace {

// What the opaque structures hold here.

constexpr std::uint32_t kMark = 0x414C474F;  ///< what every algorithm begins with

struct Layout {
  cudaDataType_t type;
  std::uint64_t rows, columns;
  std::int64_t leading;
  bool operator==(const Layout&) const = default;
};

struct Operation {
  cublasComputeType_t compute;
  cudaDataType_t scale;
  cublasOperation_t transpose_a = CUBLAS_OP_N, transpose_b = CUBLAS_OP_N;
  cublasLtEpilogue_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  const void* bias = nullptr;
  cudaDataType_t bias_type = CUDA_R_32F;
  void* sum = nullptr;  ///< that GELU is applied to
  std::int64_t sum_leading = 0;
  const float *scale_a = nullptr, *scale_b = nullptr;  ///< of products of FP8
  std::int8_t fast_sums = 0;

  bool has_bias() const {
    return epilogue == CUBLASLT_EPILOGUE_BIAS || epilogue == CUBLASLT_EPILOGUE_GELU_AUX_BIAS;
  }
  bool has_gelu() const {
    return epilogue == CUBLASLT_EPILOGUE_GELU_AUX || epilogue == CUBLASLT_EPILOGUE_GELU_AUX_BIAS;
  }
};

struct Preference {
  std::uint64_t workspace = 0;
  std::uint32_t reductions = CUBLASLT_REDUCTION_SCHEME_MASK;
  std::uint32_t alignment_a = 256, alignment_b = 256, alignment_c = 256, alignment_d = 256;
};

/// Which one it is, and what it was chosen for.
struct Algorithm {
  std::uint32_t mark = kMark, number = 0;
  std::uint32_t first_of_depth = 0;  ///< where its sums begin
  std::uint64_t workspace;
  std::uint32_t alignment_a, alignment_b, alignment_c, alignment_d, alignment_bias;
};

template <typename Opaque, typename Value>
void write(Opaque* opaque, const Value& value) {
  static_assert(sizeof(Value) <= sizeof(Opaque));
  std::memcpy(static_cast<void*>(opaque), &value, sizeof value);
}
template <typename Value, typename Opaque>
Value read(const Opaque* opaque) {
  Value value;
  std::memcpy(static_cast<void*>(&value), opaque, sizeof value);
  return value;
}

std::size_t size_of(cudaDataType_t type) {
  if (type == CUDA_R_8F_E4M3) return 1;
  return type == CUDA_R_32F ? 4 : 2;
}

float load(const void* data, cudaDataType_t type, std::int64_t index) {
  if (type == CUDA_R_32F) return static_cast<const float*>(data)[index];
  if (type == CUDA_R_16BF) return static_cast<float>(static_cast<const bfloat16*>(data)[index]);
  if (type == CUDA_R_8F_E4M3) return static_cast<float>(static_cast<const float8_e4m3*>(data)[index]);
  return static_cast<float>(static_cast<const float16*>(data)[index]);
}
void store(void* data, cudaDataType_t type, std::int64_t index, float value) {
  if (type == CUDA_R_32F) {
    static_cast<float*>(data)[index] = value;
  } else if (type == CUDA_R_16BF) {
    static_cast<bfloat16*>(data)[index] = bfloat16(value);
  } else {
    static_cast<float16*>(data)[index] = float16(value);
  }
}

float rounded(cudaDataType_t type, float value) {
  if (type == CUDA_R_32F) return value;
  return type == CUDA_R_16BF ? static_cast<float>(bfloat16(value)) : static_cast<float>(float16(value));
}

/// cuBLASLt's heuristics choose by all that they are told, so whatever differs there may differ in bits.
std::uint32_t number_of_problem(const Operation& operation, std::initializer_list<Layout> layouts,
                                const Preference& preference) {
  std::uint32_t number = 0;
  const auto add = [&](auto value) { number = mix_bits(number ^ static_cast<std::uint32_t>(value)); };
  for (const Layout& layout : layouts) {
    add(layout.type);
    add(layout.rows);
    add(layout.columns);
    add(layout.leading);
  }
  for (const auto value : {operation.transpose_a, operation.transpose_b}) add(value);
  add(operation.epilogue);
  for (const void* address : {operation.bias, static_cast<const void*>(operation.sum)})
    add(reinterpret_cast<std::uintptr_t>(address));  // of exactly the alignment
  for (const auto value :
       {preference.alignment_a, preference.alignment_b, preference.alignment_c, preference.alignment_d})
    add(value);
  return number;
}

bool is_known(cudaDataType_t type) {
  return type == CUDA_R_32F || type == CUDA_R_16BF || type == CUDA_R_16F || type == CUDA_R_8F_E4M3;
}

/// What Ada and Hopper ask of products of FP8 beside what holds of all.
std::string why_float8_is_refused(const Operation& operation, const Layout& a, const Layout& b,
                                  const Layout& d) {
  if (machine().compute_capability < 89) return "the GPU has no FP8";
  if (operation.transpose_a != CUBLAS_OP_T || operation.transpose_b != CUBLAS_OP_N)
    return "the depth of an operand in FP8 is not contiguous";
  if (d.type != CUDA_R_16BF && d.type != CUDA_R_32F)
    return "a product of FP8 has another type than bf16 or fp32";
  for (const Layout& layout : {a, b, d}) {
    if (layout.rows % 16 != 0 || layout.columns % 16 != 0 ||
        static_cast<std::size_t>(layout.leading) * size_of(layout.type) % 16 != 0)
      return "a size or stride of a product of FP8 is no multiple of 16";
  }
  if (operation.scale_a == nullptr || operation.scale_b == nullptr) return "an operand in FP8 has no scale";
  for (const float* scale : {operation.scale_a, operation.scale_b}) {  // from cuBLASLt 12.9 on
    if (reinterpret_cast<std::uintptr_t>(scale) % 16 != 0) return "a scale is at no multiple of 16 bytes";
  }
  if (operation.fast_sums != 0) return "sums are not those of fp32";
  return {};
}

/// rows[i] is column i of the matrix, as fp32; of its transpose if asked for.
std::vector<std::vector<float>> columns_of(const void* data, const Layout& layout, bool transposed) {
  const auto rows = static_cast<std::size_t>(layout.rows), columns = static_cast<std::size_t>(layout.columns);
  std::vector<std::vector<float>> result(transposed ? rows : columns,
                                         std::vector<float>(transposed ? columns : rows));
  for (std::size_t column = 0; column < columns; ++column) {
    for (std::size_t row = 0; row < rows; ++row) {
      const float value =
          load(data, layout.type,
               static_cast<std::int64_t>(column) * layout.leading + static_cast<std::int64_t>(row));
      (transposed ? result[row][column] : result[column][row]) = value;
    }
  }
  return result;
}

std::size_t extent(const Layout& layout) {
  return (static_cast<std::size_t>(layout.columns - 1) * static_cast<std::size_t>(layout.leading) +
          static_cast<std::size_t>(layout.rows)) *
         size_of(layout.type);
}

bool is_aligned(const void* data, std::uint32_t alignment) {
  return reinterpret_cast<std::uintptr_t>(data) % alignment == 0;
}

float gelu_tanh(float x) {
  constexpr float kSlope = 0.7978845608F, kCubic = 0.044715F;
  return x / 2 * (1 + std::tanh(kSlope * (x + kCubic * x * x * x)));
}

struct Multiplication {
  Operation operation;
  Layout a_layout, b_layout, c_layout, d_layout;
  const void *a, *b, *c;
  void* d;
  float alpha, beta;
  std::size_t first_of_depth;  ///< where sums begin
};

/// Empty if cuBLASLt would take it.
std::string why_refused(const Operation& operation, const Layout& a, const Layout& b, const Layout& c,
                        const Layout& d) {
  for (const Layout& layout : {a, b, c, d}) {
    if (!is_known(layout.type)) return "a matrix has a type that is not emulated";
    if (layout.rows == 0 || layout.columns == 0) return "a matrix is empty";
    if (layout.leading < static_cast<std::int64_t>(layout.rows)) return "columns of a matrix overlap";
  }
  if (operation.compute != CUBLAS_COMPUTE_32F || operation.scale != CUDA_R_32F)
    return "sums are not those of fp32";
  if (a.type != b.type) return "the operands have two types";
  const bool is_float8 = a.type == CUDA_R_8F_E4M3;
  if (is_float8) {
    if (std::string why = why_float8_is_refused(operation, a, b, d); !why.empty()) return why;
  }
  if (!is_float8 && d.type != a.type && d.type != CUDA_R_32F)
    return "the output's type does not go with the operands'";
  if (c.type != d.type || c.rows != d.rows || c.columns != d.columns) return "C is not like D";
  const bool transpose_a = operation.transpose_a == CUBLAS_OP_T,
             transpose_b = operation.transpose_b == CUBLAS_OP_T;
  const std::uint64_t rows = transpose_a ? a.columns : a.rows, depth = transpose_a ? a.rows : a.columns;
  if (depth != (transpose_b ? b.columns : b.rows)) return "the operands' depths differ";
  if (rows != d.rows || (transpose_b ? b.rows : b.columns) != d.columns)
    return "the output has another shape";
  if (operation.epilogue != CUBLASLT_EPILOGUE_DEFAULT && !operation.has_bias() && !operation.has_gelu())
    return "the epilogue is not emulated";
  if (operation.has_bias() && operation.bias_type != d.type)
    return "the bias has another type than the output";
  if (operation.has_gelu()) {
    if (operation.sum == nullptr || reinterpret_cast<std::uintptr_t>(operation.sum) % 16 != 0)
      return "the sum that GELU is applied to has no place that is a multiple of 16";
    if (operation.sum_leading < static_cast<std::int64_t>(d.rows) || operation.sum_leading % 8 != 0)
      return "columns of the sum that GELU is applied to overlap, or begin at no multiple of 8";
  }
  return {};
}

void multiply(const Multiplication& of) {
  const bool transpose_a = of.operation.transpose_a == CUBLAS_OP_T;
  const bool transpose_b = of.operation.transpose_b == CUBLAS_OP_T;
  const std::vector<std::vector<float>> a = columns_of(of.a, of.a_layout, transpose_a);
  const std::vector<std::vector<float>> b = columns_of(of.b, of.b_layout, transpose_b);
  const auto rows = static_cast<std::size_t>(of.d_layout.rows);
  const bool is_float8 = of.a_layout.type == CUDA_R_8F_E4M3;
  const float alpha = is_float8 ? of.alpha * *of.operation.scale_a * *of.operation.scale_b : of.alpha;
  std::vector<float> sums(rows);
  for (std::size_t column = 0; column < of.d_layout.columns; ++column) {
    std::fill(sums.begin(), sums.end(), 0.0F);
    for (std::size_t i = 0; i < a.size(); ++i) {
      const std::size_t k = (i + of.first_of_depth) % a.size();
      const float factor = b[column][k];
      const float* from = a[k].data();
      for (std::size_t row = 0; row < rows; ++row) sums[row] += factor * from[row];
    }
    for (std::size_t row = 0; row < rows; ++row) {
      const std::int64_t index =
          static_cast<std::int64_t>(column) * of.d_layout.leading + static_cast<std::int64_t>(row);
      float value = alpha * sums[row];
      if (of.beta != 0) {
        if (of.c == of.d) value = rounded(of.d_layout.type, value);  // as on an H200
        value += of.beta * load(of.c, of.c_layout.type,
                                static_cast<std::int64_t>(column) * of.c_layout.leading +
                                    static_cast<std::int64_t>(row));
      }
      if (of.operation.has_bias())
        value += load(of.operation.bias, of.operation.bias_type, static_cast<std::int64_t>(row));
      if (of.operation.has_gelu()) {
        store(of.operation.sum, of.d_layout.type,
              static_cast<std::int64_t>(column) * of.operation.sum_leading + static_cast<std::int64_t>(row),
              value);
        value = gelu_tanh(value);
      }
      store(of.d, of.d_layout.type, index, value);
    }
  }
}

/// Says it where a test sees it: cuBLASLt's statuses have no words.
cublasStatus_t refuse(const std::string& why) {
  fail("cuBLASLt: " + why);
  return CUBLAS_STATUS_INVALID_VALUE;
}

template <typename T>
bool take(T& value, const void* buffer, std::size_t bytes) {
  if (bytes != sizeof value) return false;
  std::memcpy(&value, buffer, bytes);
  return true;
}

cublasStatus_t create(cublasLtHandle_t* handle) {
  *handle = new cublasLtContext;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t destroy(cublasLtHandle_t handle) {
  delete handle;
  return CUBLAS_STATUS_SUCCESS;
}
const char* status_string(cublasStatus_t) {
  return "an error of the emulated cuBLASLt";
}

cublasStatus_t init_layout(cublasLtMatrixLayout_t layout, std::size_t, cudaDataType type, std::uint64_t rows,
                           std::uint64_t columns, std::int64_t leading) {
  write(layout, Layout{type, rows, columns, leading});
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t init_operation(cublasLtMatmulDesc_t operation, std::size_t, cublasComputeType_t compute,
                              cudaDataType_t scale) {
  write(operation, Operation{.compute = compute, .scale = scale});
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t set_of_operation(cublasLtMatmulDesc_t operation, cublasLtMatmulDescAttributes_t attribute,
                                const void* buffer, std::size_t bytes) {
  auto value = read<Operation>(operation);
  bool taken = false;
  switch (attribute) {
    case CUBLASLT_MATMUL_DESC_TRANSA:
      taken = take(value.transpose_a, buffer, bytes);
      break;
    case CUBLASLT_MATMUL_DESC_TRANSB:
      taken = take(value.transpose_b, buffer, bytes);
      break;
    case CUBLASLT_MATMUL_DESC_EPILOGUE:
      taken = take(value.epilogue, buffer, bytes);
      break;
    case CUBLASLT_MATMUL_DESC_BIAS_POINTER:
      taken = take(value.bias, buffer, bytes);
      break;
    case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER:
      taken = take(value.sum, buffer, bytes);
      break;
    case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD:
      taken = take(value.sum_leading, buffer, bytes);
      break;
    case CUBLASLT_MATMUL_DESC_A_SCALE_POINTER:
      taken = take(value.scale_a, buffer, bytes);
      break;
    case CUBLASLT_MATMUL_DESC_B_SCALE_POINTER:
      taken = take(value.scale_b, buffer, bytes);
      break;
    case CUBLASLT_MATMUL_DESC_FAST_ACCUM:
      taken = take(value.fast_sums, buffer, bytes);
      break;
    case CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE:
      taken = take(value.bias_type, buffer, bytes);
      break;
    default:
      break;
  }
  write(operation, value);
  return taken ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_INVALID_VALUE;
}
cublasStatus_t init_preference(cublasLtMatmulPreference_t preference, std::size_t) {
  write(preference, Preference{});
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t set_of_preference(cublasLtMatmulPreference_t preference,
                                 cublasLtMatmulPreferenceAttributes_t attribute, const void* buffer,
                                 std::size_t bytes) {
  auto value = read<Preference>(preference);
  bool taken = false;
  switch (attribute) {
    case CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES:
      taken = take(value.workspace, buffer, bytes);
      break;
    case CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK:
      taken = take(value.reductions, buffer, bytes);
      break;
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES:
      taken = take(value.alignment_a, buffer, bytes);
      break;
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES:
      taken = take(value.alignment_b, buffer, bytes);
      break;
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES:
      taken = take(value.alignment_c, buffer, bytes);
      break;
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES:
      taken = take(value.alignment_d, buffer, bytes);
      break;
    default:
      break;
  }
  write(preference, value);
  return taken ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_INVALID_VALUE;
}

cublasStatus_t algorithms(cublasLtHandle_t, cublasLtMatmulDesc_t operation_of, cublasLtMatrixLayout_t a,
                          cublasLtMatrixLayout_t b, cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                          cublasLtMatmulPreference_t preference_of, int requested,
                          cublasLtMatmulHeuristicResult_t results[], int* count) {
  *count = 0;
  const auto operation = read<Operation>(operation_of);
  const std::string why =
      why_refused(operation, read<Layout>(a), read<Layout>(b), read<Layout>(c), read<Layout>(d));
  if (!why.empty() || requested < 1) return refuse(why);
  const auto preference = read<Preference>(preference_of);
  if ((preference.reductions & (CUBLASLT_REDUCTION_SCHEME_INPLACE | CUBLASLT_REDUCTION_SCHEME_OUTPUT_TYPE)) !=
      0)
    return refuse("sums in the output's type, or in an order that changes, are allowed");
  if ((operation.has_bias() && !machine().adds_bias) || (operation.has_gelu() && !machine().applies_gelu))
    return CUBLAS_STATUS_NOT_SUPPORTED;
  const auto bias = reinterpret_cast<std::uintptr_t>(operation.bias);
  if (requested > 1) ++counts().proposals;
  const std::uint32_t problem = number_of_problem(
      operation, {read<Layout>(a), read<Layout>(b), read<Layout>(c), read<Layout>(d)}, preference);
  for (*count = 0; *count < std::min(requested, machine().algorithms); ++*count) {
    results[*count] = {};
    write(&results[*count].algo,
          Algorithm{.number = static_cast<std::uint32_t>(*count),
                    .first_of_depth = problem + static_cast<std::uint32_t>(*count),
                    .workspace = preference.workspace >> *count,
                    .alignment_a = preference.alignment_a,
                    .alignment_b = preference.alignment_b,
                    .alignment_c = preference.alignment_c,
                    .alignment_d = preference.alignment_d,
                    .alignment_bias = operation.has_bias() ? static_cast<std::uint32_t>(bias & -bias) : 1});
    results[*count].state = CUBLAS_STATUS_SUCCESS;
  }
  return CUBLAS_STATUS_SUCCESS;
}

std::size_t version() {
  return machine().cublas_version;
}

cublasStatus_t check_algorithm(cublasLtHandle_t, cublasLtMatmulDesc_t operation, cublasLtMatrixLayout_t a,
                               cublasLtMatrixLayout_t b, cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                               const cublasLtMatmulAlgo_t* algorithm_of,
                               cublasLtMatmulHeuristicResult_t* result) {
  const std::string why = why_refused(read<Operation>(operation), read<Layout>(a), read<Layout>(b),
                                      read<Layout>(c), read<Layout>(d));
  if (!why.empty()) return refuse(why);
  const auto algorithm = read<Algorithm>(algorithm_of);
  if (algorithm.mark != kMark || algorithm.number >= static_cast<std::uint32_t>(machine().algorithms))
    return CUBLAS_STATUS_NOT_SUPPORTED;
  *result = {};
  result->workspaceSize = algorithm.workspace;
  result->state = CUBLAS_STATUS_SUCCESS;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t multiply(cublasLtHandle_t, cublasLtMatmulDesc_t operation_of, const void* alpha, const void* a,
                        cublasLtMatrixLayout_t a_layout, const void* b, cublasLtMatrixLayout_t b_layout,
                        const void* beta, const void* c, cublasLtMatrixLayout_t c_layout, void* d,
                        cublasLtMatrixLayout_t d_layout, const cublasLtMatmulAlgo_t* algorithm_of,
                        void* workspace, std::size_t workspace_bytes, cudaStream_t stream) {
  const auto algorithm = read<Algorithm>(algorithm_of);
  const Multiplication product{.operation = read<Operation>(operation_of),
                               .a_layout = read<Layout>(a_layout),
                               .b_layout = read<Layout>(b_layout),
                               .c_layout = read<Layout>(c_layout),
                               .d_layout = read<Layout>(d_layout),
                               .a = a,
                               .b = b,
                               .c = c,
                               .d = d,
                               .alpha = *static_cast<const float*>(alpha),
                               .beta = *static_cast<const float*>(beta),
                               .first_of_depth = algorithm.first_of_depth};
  const std::string why =
      why_refused(product.operation, product.a_layout, product.b_layout, product.c_layout, product.d_layout);
  if (!why.empty()) return refuse(why);
  if (algorithm.mark != kMark) return refuse("the algorithm is none");
  if (c == d && product.c_layout != product.d_layout) return refuse("C is D and laid out differently");
  if (c != d && product.beta == 0) return refuse("C is another matrix than D and not added");
  if (!is_aligned(a, algorithm.alignment_a) || !is_aligned(b, algorithm.alignment_b) ||
      !is_aligned(c, algorithm.alignment_c) || !is_aligned(d, algorithm.alignment_d) ||
      !is_aligned(product.operation.bias, algorithm.alignment_bias))
    return refuse("a matrix is less aligned than its algorithm was chosen for");
  if (workspace_bytes < algorithm.workspace || !is_on_device(workspace, workspace_bytes))
    return refuse("the workspace is smaller than its algorithm was chosen for");
  const Operation& operation = product.operation;
  const Layout sum_layout = {product.d_layout.type, product.d_layout.rows, product.d_layout.columns,
                             operation.sum_leading};
  if (!is_on_device(a, extent(product.a_layout)) || !is_on_device(b, extent(product.b_layout)) ||
      !is_on_device(c, extent(product.c_layout)) || !is_on_device(d, extent(product.d_layout)) ||
      (operation.has_bias() &&
       !is_on_device(operation.bias, product.d_layout.rows * size_of(product.d_layout.type))) ||
      (operation.has_gelu() && !is_on_device(operation.sum, extent(sum_layout))))
    return refuse("a matrix is not on the device");
  if (product.a_layout.type == CUDA_R_8F_E4M3) {
    if (!is_on_device(product.operation.scale_a, sizeof(float)) ||
        !is_on_device(product.operation.scale_b, sizeof(float)))
      return refuse("a scale is not on the device");
    ++counts().float8_products;
  }
  ++counts().products;
  if (operation.has_gelu()) ++counts().gelu_products;
  if (algorithm.number == 0) ++counts().first_proposals;
  stream->add([product, computes = stream->computes(), number = static_cast<int>(algorithm.number)] {
    if (computes) multiply(product);
    if (machine().product_seconds) spend(machine().product_seconds(number));
  });
  return CUBLAS_STATUS_SUCCESS;
}

}  // namespace
}  // namespace strata::gpu_emulation

namespace strata {

const CublasLtLibrary& cublas_lt() {
  using namespace gpu_emulation;  // NOLINT(google-build-using-namespace): its functions have no other name
  static constexpr CublasLtLibrary kLibrary = {.version = version,
                                               .status_string = status_string,
                                               .create = create,
                                               .destroy = destroy,
                                               .init_layout = init_layout,
                                               .init_operation = init_operation,
                                               .set_of_operation = set_of_operation,
                                               .init_preference = init_preference,
                                               .set_of_preference = set_of_preference,
                                               .algorithms = algorithms,
                                               .check_algorithm = check_algorithm,
                                               .multiply = multiply};
  return kLibrary;
}

}  // namespace strata
