// Builds a plain program from instructions on named values: each value has its home on the host, is fetched
// right before each use on the device and written back right after, unless it lives there.
#pragma once

#include <optional>
#include <vector>

#include "engine/plan/program/program.h"

namespace strata {

/// Something the program computes with. Its device buffers come and go (one per visit in the plain program),
/// its home stays.
struct Value {
  SharedText name;
  BufferKind kind = BufferKind::activation;
  ElementType type = ElementType::byte;
  std::int64_t elements = 0;
  BufferId home = -1;      ///< on the host; made when first needed
  BufferId resident = -1;  ///< device buffer, if the value lives on the device
  bool pinned = false;     ///< gets a resident buffer with its first use
  bool at_home = false;    ///< of a value with both buffers: the host's is as new as the device's
  bool scratch = false;    ///< dies with its instruction: never copied
  bool begins = false;     ///< of a gradient: the next instruction that adds to it finds nothing there

  Bytes bytes() const { return elements * size_of(type); }
  /// As it stands in an instruction, in one of its buffers.
  Operand operand(Role role, BufferId buffer) const { return {role, type, buffer, elements}; }
};

Value make_value(SharedText name, BufferKind kind, ElementType type, std::int64_t elements);

enum class Access : std::uint8_t { read, write, update };

struct Use {
  /// What an exchange takes of a value.
  struct Part {
    ElementType type = ElementType::byte;
    std::int64_t elements = 0;
    Bytes offset = 0;
  };

  Role role;
  Value* value;
  Access access;
  std::optional<Part> part = {};

  Operand operand(BufferId buffer) const {
    if (part) return {role, part->type, buffer, part->elements, part->offset};
    return value->operand(role, buffer);
  }
};

class ProgramBuilder {
 public:
  /// Makes the value live on the device from now on.
  void make_resident(Value& value, bool persistent);
  BufferId home(Value& value);

  /// An instruction on the device's memory: fetch what it reads, run, write back what it wrote. Its operands
  /// are `uses`. What it makes of state for the step before is fetched for the first step, which finds it at
  /// home.
  void on_device(Instruction instruction, const std::vector<Use>& uses);
  /// An instruction on the homes. What lives on the device too is brought from there and back.
  void on_host(Instruction instruction, const std::vector<Use>& uses);

  Program program;

 private:
  BufferId add(const Value& value, Tier tier, bool persistent);
  void copy(Operation operation, Lane lane, const Instruction& of, const Value& value, BufferId from,
            BufferId to, Serves serves);
};

}  // namespace strata
