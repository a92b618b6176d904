// Bytes as they are, from tier to tier and within one.
#include <algorithm>

#include <fmt/format.h>

#include "base/error.h"
#include "engine/device/elementwise_calls.h"
#include "engine/run/execute/operations/kinds.h"

namespace strata::operations {
namespace {

/// `transfer`, whose error names the file and then the buffer that was meant.
template <typename Transfer>
void for_buffer(const Buffer& buffer, const Transfer& transfer) {
  try {
    transfer();
  } catch (const IoError& error) {
    throw IoError(fmt::format("{}; it is {}", error.what(), *buffer.name));
  }
}

}  // namespace

void copy(OperationContext& on, const Instruction& instruction) {
  const BufferId source = instruction.reads[0].buffer, destination = instruction.writes[0].buffer;
  const Bytes bytes = on.setup.program->buffer(source).bytes;
  if (instruction.operation == Operation::copy_to_device) {
    on.setup.streams->of(instruction.lane).copy_to_device(on.address(destination), on.address(source), bytes);
  } else {
    on.setup.streams->of(instruction.lane).copy_to_host(on.address(destination), on.address(source), bytes);
  }
}

void read(OperationContext& on, const Instruction& instruction) {
  const Buffer& source = on.setup.program->buffer(instruction.reads[0].buffer);
  const std::span to = span_of(on.address(instruction.writes[0].buffer), source.bytes);
  on.meter().touch(to);
  for_buffer(source, [&] { on.setup.spill.reads->read(source.offset, to); });
}

void write(OperationContext& on, const Instruction& instruction) {
  const Buffer& destination = on.setup.program->buffer(instruction.writes[0].buffer);
  const std::span from = span_of(on.address(instruction.reads[0].buffer), destination.bytes);
  on.meter().touch(from);
  for_buffer(destination, [&] { on.setup.spill.writes->write(destination.offset, from); });
}

void stash(OperationContext& on, const Instruction& instruction) {
  if (instruction.lane != Lane::cpu)
    return on.kernels.run(Cast{on.flat(instruction.reads[0]), on.flat(instruction.writes[0])});
  const Operand &source = instruction.reads[0], &destination = instruction.writes[0];
  const std::byte* from = on.address(source.buffer);
  std::byte* to = on.address(destination.buffer);
  on.meter().touch(from, source.bytes());
  on.meter().touch(to, destination.bytes());
  constexpr std::int64_t kPart = 256 * KiB;
  on.workers.execute([&] {
    for_ranges(source.bytes(), kPart, [&](std::int64_t first, std::int64_t last, int) {
      std::copy(from + first, from + last, to + first);
    });
  });
}

}  // namespace strata::operations
