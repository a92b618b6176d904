// Residency: which values stay on the device between two uses. Copies of what stays are removed from the program.
#pragma once

#include "engine/plan/program.h"

namespace strata {

/// Device bytes that the hungriest single instruction of a plain program needs, persistent buffers included: no budget below
/// it can run the program.
Bytes smallest_device_bytes(const Program& program);

/// Walks the plain program and keeps each value on the device until its next use while `device_bytes` allows; when it does
/// not, the value whose next use is furthest away leaves (Belady 1966: optimal for equal sizes, and the accesses are known).
/// Two visits that a kept value connects share one buffer; the fetch between them goes, and the write-back too unless the
/// host copy is read later. REQUIRES: device_bytes ≥ smallest_device_bytes(program).
Program keep_resident(const Program& plain, Bytes device_bytes);

/// Removes buffers that no instruction touches; persistent ones stay.
Program without_unused_buffers(const Program& program);

/// Bytes that all copies of one direction move in one run of the program.
Bytes copied_bytes(const Program& program, Operation copy);

}  // namespace strata
