// Parameters to their packed form and back.
#include "optim/packing.h"
#include "engine/device/elementwise_calls.h"
#include "engine/device/state_calls.h"
#include "engine/run/execute/operations/kinds.h"

namespace strata::operations {
namespace {

/// Calls on the device what makes `out`, a row, of a stretch that is packed at `from`, with its scales.
void run_unpack(Kernels& kernels, const PackedStretch& stretch, std::byte* from, std::byte* scales,
                const Matrix& out) {
  const auto* codes = reinterpret_cast<const std::uint8_t*>(from);
  if (stretch.has_blocks()) {
    const BlockFormat format = stretch.block_format();
    return kernels.run(
        DecodeBlocks{.format = format,
                     .codes = span_of(codes, code_bytes(format, stretch.count)),
                     .scales = span_of(reinterpret_cast<const float*>(scales), stretch.blocks()),
                     .block = stretch.block,
                     .first = stretch.before,
                     .out = out});
  }
  if (stretch.has_codes()) {
    return kernels.run(DecodeFloat8{.codes = span_of(codes, stretch.count),
                                    .scale = reinterpret_cast<const Float8Factors*>(scales),
                                    .out = out});
  }
  kernels.run(Cast{{from, out.dtype, 1, stretch.count}, out});
}

}  // namespace

void pack(OperationContext& on, const Instruction& instruction) {
  const UnitShare& unit = on.share(instruction);
  const Packing& packing = unit.trained;
  const std::size_t part = unit.part_of(packing);
  const Operand &source = instruction.reads[0], &destination = instruction.writes[0];
  auto* from = reinterpret_cast<bfloat16*>(on.address(source.buffer));
  std::byte* to = on.address(destination.buffer);
  if (instruction.lane == Lane::cpu) {
    on.meter().touch(from, source.bytes());
    on.meter().touch(to, destination.bytes());
    return on.workers.execute([&] { strata::pack(packing, part, from, to); });
  }
  const auto row_of = [](bfloat16* elements, std::int64_t count) {
    return Matrix{elements, DType::bf16, 1, count};
  };
  for (const PackedStretch& stretch : packing.parts[part]) {
    const Matrix elements = row_of(from + stretch.first, stretch.count);
    if (stretch.has_codes()) {
      on.kernels.run(
          EncodeFloat8{.x = elements,
                       .codes = span_of(reinterpret_cast<std::uint8_t*>(to + stretch.at), stretch.count),
                       .scale = reinterpret_cast<Float8Factors*>(to + stretch.scales_at)});
    } else {
      on.kernels.run(Cast{elements, row_of(reinterpret_cast<bfloat16*>(to + stretch.at), stretch.count)});
    }
  }
}

/// All parts' elements are neighbours.
void unpack(OperationContext& on, const Instruction& instruction) {
  const Operand& whole = instruction.writes[0];
  const Packing& packing =
      on.share(instruction).packing(whole.role == Role::frozen ? Flat::frozen : Flat::trained);
  std::byte* packed = on.address(instruction.reads[0].buffer);
  std::byte* elements = on.address(whole.buffer);
  const Bytes size = size_of(packing.precision);
  for (const std::vector<PackedStretch>& part : packing.parts) {
    for (const PackedStretch& stretch : part) {
      run_unpack(on.kernels, stretch, packed + stretch.at, packed + stretch.scales_at,
                 {elements + stretch.first * size, packing.precision, 1, stretch.count});
    }
    packed += packing.part_bytes;
    elements += packing.part_elements * size;
  }
}

}  // namespace strata::operations
