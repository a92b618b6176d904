#include "engine/device/cpu/tile_product.h"

#include <omp.h>

#include <array>
#include <bit>
#include <dnnl.hpp>
#include <mutex>
#include <unordered_map>

#include "base/nth.h"
#include "base/vector_target.h"
#include "engine/device/cpu/conversion.h"
#include "engine/device/cpu/finish.h"
#include "engine/device/cpu/packed_product.h"

namespace strata {
namespace {

using Type = dnnl::memory::data_type;
using Memory = dnnl::memory;

/// oneDNN can be capped until it is first used.
void cap_library() {
  static const dnnl::status status = [] {
    if (!vector_target_is_capped()) return dnnl::status::success;
    switch (vector_target()) {
      case VectorTarget::baseline:  // oneDNN has nothing less than SSE4
      case VectorTarget::sse4:
        return dnnl::set_max_cpu_isa(dnnl::cpu_isa::sse41);
      case VectorTarget::avx2:
        return dnnl::set_max_cpu_isa(dnnl::cpu_isa::avx2);
      case VectorTarget::avx512:
        return dnnl::set_max_cpu_isa(dnnl::cpu_isa::avx512_core_vnni);
      case VectorTarget::avx512_bf16:
        return dnnl::set_max_cpu_isa(dnnl::cpu_isa::avx512_core_bf16);
    }
    return dnnl::status::success;
  }();
  dnnl::error::wrap_c_api(static_cast<dnnl_status_t>(status), "oneDNN does not follow STRATA_VECTOR_TARGET");
}

const dnnl::engine& cpu_engine() {
  static const dnnl::engine engine = [] {
    cap_library();
    return dnnl::engine(dnnl::engine::kind::cpu, 0);
  }();
  return engine;
}

dnnl::cpu_isa library_isa() {
  cap_library();
  return dnnl::get_effective_cpu_isa();
}

/// oneDNN takes its thread count from OpenMP, per calling thread.
void use_one_thread() {
  thread_local const bool done = (omp_set_num_threads(1), true);
  static_cast<void>(done);
}

/// REQUIRES: not fp16, whose products all go through fp32.
Type type_of(DType dtype) {
  return dtype == DType::fp32 ? Type::f32 : Type::bf16;
}

struct Hash {
  std::size_t operator()(const TileProduct& p) const {
    std::uint64_t hash = 0;
    for (const std::int64_t value :
         {p.m, p.n, p.k, p.a_row, p.a_column, p.b_row, p.b_column, p.out_row,
          std::int64_t{p.dtype == DType::fp32} * 8 + std::int64_t{p.out_dtype == DType::fp32} * 4 +
              std::int64_t{p.accumulate} * 2 + std::int64_t{p.bias}}) {
      hash = std::rotl(hash ^ static_cast<std::uint64_t>(value), 23) * 0x9E3779B97F4A7C15U;
    }
    return hash ^ (hash >> 32);
  }
};

struct Layouts {
  Memory::desc a, b, out, bias;
};

Layouts layouts_of(const TileProduct& p) {
  Layouts layouts{.a = {{p.m, p.k}, type_of(p.dtype), Memory::dims{p.a_row, p.a_column}},
                  .b = {{p.k, p.n}, type_of(p.dtype), Memory::dims{p.b_row, p.b_column}},
                  .out = {{p.m, p.n}, type_of(p.out_dtype), Memory::dims{p.out_row, 1}},
                  .bias = {}};
  if (p.bias) layouts.bias = {{1, p.n}, type_of(p.dtype), Memory::dims{p.n, 1}};
  return layouts;
}

struct Compiled {
  dnnl::matmul primitive;
  Memory::desc scratchpad;
};

Compiled compile(const TileProduct& product) {
  use_one_thread();
  const Layouts layouts = layouts_of(product);
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  if (product.accumulate) {
    dnnl::post_ops sum;
    sum.append_sum(1.0F);
    attributes.set_post_ops(sum);
  }
  const dnnl::matmul::desc description =
      product.bias ? dnnl::matmul::desc(layouts.a, layouts.b, layouts.bias, layouts.out)
                   : dnnl::matmul::desc(layouts.a, layouts.b, layouts.out);
  const dnnl::matmul::primitive_desc primitive(description, attributes, cpu_engine());
  return {dnnl::matmul(primitive), primitive.scratchpad_desc()};
}

/// Compiled once for the process.
const Compiled& compiled(const TileProduct& product) {
  static std::mutex mutex;
  static std::unordered_map<TileProduct, Compiled, Hash> cache;
  const std::lock_guard lock(mutex);
  const auto found = cache.find(product);
  return found != cache.end() ? found->second : cache.emplace(product, compile(product)).first->second;
}

/// A compiled product with a thread's own handles of its operands.
struct Execution {
  explicit Execution(const TileProduct& product) : primitive(compiled(product).primitive) {
    const Layouts layouts = layouts_of(product);
    const auto handle = [](const Memory::desc& layout) { return Memory(layout, cpu_engine(), nullptr); };
    memory[0] = handle(layouts.a);
    memory[1] = handle(layouts.b);
    memory[2] = handle(layouts.out);
    memory[3] = handle(compiled(product).scratchpad);
    constexpr std::array kArguments = {DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DST, DNNL_ARG_SCRATCHPAD,
                                       DNNL_ARG_BIAS};
    if (product.bias) memory[4] = handle(layouts.bias);
    for (std::size_t i = 0; i < kArguments.size(); ++i) arguments[i] = {kArguments[i], memory[i].get(true)};
    count = product.bias ? 5 : 4;
  }
  dnnl::matmul primitive;
  std::array<Memory, 5> memory;
  std::array<dnnl_exec_arg_t, 5> arguments;
  int count;
};

Execution& execution(const TileProduct& product) {
  thread_local std::unordered_map<TileProduct, Execution, Hash> cache;
  const auto found = cache.find(product);
  return found != cache.end() ? found->second : cache.try_emplace(product, product).first->second;
}

Bytes native_scratch_bytes(const TileProduct& product) {
  return align_up(static_cast<Bytes>(compiled(product).scratchpad.get_size()));
}

void multiply_native(const TileProduct& product, const void* a, const void* b, void* out, const void* bias,
                     std::byte* scratch) {
  use_one_thread();
  thread_local const dnnl::stream stream(cpu_engine());
  Execution& run = execution(product);
  const std::array<const void*, 5> data = {a, b, out, scratch, bias};
  for (int i = 0; i < run.count; ++i) {
    nth(run.memory, i).set_data_handle(const_cast<void*>(nth(data, i)));
  }
  dnnl::error::wrap_c_api(
      dnnl_primitive_execute(run.primitive.get(), stream.get(), run.count, run.arguments.data()),
      "a matrix product failed");
}

/// One operand as it is stored: `rows` stretches of `columns` elements, `stride` apart.
struct Stored {
  std::int64_t rows, columns, stride;
};

Stored stored(std::int64_t rows, std::int64_t columns, std::int64_t row, std::int64_t column) {
  return column == 1 ? Stored{rows, columns, row} : Stored{columns, rows, column};
}
Stored stored_a(const TileProduct& p) {
  return stored(p.m, p.k, p.a_row, p.a_column);
}
Stored stored_b(const TileProduct& p) {
  return stored(p.k, p.n, p.b_row, p.b_column);
}

/// The product of upcast operands that keep their orientation, without gaps between stretches.
TileProduct upcast(const TileProduct& p) {
  TileProduct product{.m = p.m, .n = p.n, .k = p.k, .out_row = p.n};
  (p.a_column == 1 ? product.a_row : product.a_column) = stored_a(p).columns;
  (p.a_column == 1 ? product.a_column : product.a_row) = 1;
  (p.b_column == 1 ? product.b_row : product.b_column) = stored_b(p).columns;
  (p.b_column == 1 ? product.b_column : product.b_row) = 1;
  return product;
}

void upcast_operand(const void* from, DType dtype, const Stored& layout, float* to) {
  convert({const_cast<void*>(from), dtype, layout.rows, layout.columns, layout.stride},
          {to, DType::fp32, layout.rows, layout.columns});
}

void multiply_through_fp32(const TileProduct& p, const void* a, const void* b, void* out, const void* bias,
                           std::byte* scratch) {
  auto* a_values = reinterpret_cast<float*>(scratch);
  float* b_values = a_values + p.m * p.k;
  float* sums = b_values + p.k * p.n;
  std::byte* inner = reinterpret_cast<std::byte*>(sums + p.m * p.n);
  inner += align_up(inner - scratch) - (inner - scratch);
  upcast_operand(a, p.dtype, stored_a(p), a_values);
  upcast_operand(b, p.dtype, stored_b(p), b_values);
  multiply_native(upcast(p), a_values, b_values, sums, nullptr, inner);
  finish_block({sums, DType::fp32, p.m, p.n}, {const_cast<void*>(bias), p.dtype, 1, p.n}, p.accumulate,
               {out, p.out_dtype, p.m, p.n, p.out_row});
}

bool goes_through_fp32(DType dtype, Bf16Route route) {
  return dtype == DType::fp16 || (dtype == DType::bf16 && route == Bf16Route::through_fp32);
}

bool is_packed(DType dtype, Bf16Route route) {
  return packed_products_are_fastest() && (dtype == DType::fp32 || goes_through_fp32(dtype, route));
}

}  // namespace

std::string_view matrix_product_instructions() {
  switch (library_isa()) {
    case dnnl::cpu_isa::sse41:
      return "sse41";
    case dnnl::cpu_isa::avx:
      return "avx";
    case dnnl::cpu_isa::avx2:
      return "avx2";
    case dnnl::cpu_isa::avx2_vnni:
      return "avx2_vnni";
    case dnnl::cpu_isa::avx512_core:
      return "avx512_core";
    case dnnl::cpu_isa::avx512_core_vnni:
      return "avx512_core_vnni";
    case dnnl::cpu_isa::avx512_core_bf16:
      return "avx512_core_bf16";
    case dnnl::cpu_isa::avx512_core_amx:
      return "avx512_core_amx";
    default:
      return "oneDNN's choice";
  }
}

Bf16Route bf16_route_of_this_machine() {
  static const Bf16Route route = [] {
    // Without bf16 instructions oneDNN emulates them: measured at a third of its fp32 rate.
    const auto isa = library_isa();
    const bool native = isa == dnnl::cpu_isa::avx512_core_bf16 || isa == dnnl::cpu_isa::avx512_core_amx;
    return native ? Bf16Route::native : Bf16Route::through_fp32;
  }();
  return route;
}

bool bits_allow_any_tiles(DType dtype, Bf16Route route) {
  return is_packed(dtype, route);
}

Bytes scratch_bytes(const TileProduct& product, Bf16Route route) {
  if (is_packed(product.dtype, route)) return packed_scratch_bytes(product);
  if (!goes_through_fp32(product.dtype, route)) return native_scratch_bytes(product);
  const std::int64_t values = product.m * product.k + product.k * product.n + product.m * product.n;
  return align_up(values * 4) + native_scratch_bytes(upcast(product));
}

void multiply_tile(const TileProduct& product, const void* a, const void* b, void* out, const void* bias,
                   std::byte* scratch, Bf16Route route) {
  if (is_packed(product.dtype, route)) return multiply_packed(product, a, b, out, bias, scratch);
  const auto multiply = goes_through_fp32(product.dtype, route) ? multiply_through_fp32 : multiply_native;
  multiply(product, a, b, out, bias, scratch);
}

}  // namespace strata
