// Prefetch: fetches move up and write-backs move down as far as the budget allows, so that copies run under compute.
#pragma once

#include "engine/plan/program.h"

namespace strata {

/// Moves every copy_to_device earlier and every copy_to_host later (by at most kWriteBackSlack instructions) while the bytes
/// live on the device stay within `device_bytes`. Copies of one direction keep their order; none passes an instruction that
/// it depends on. Other instructions keep their order.
Program prefetch(const Program& program, Bytes device_bytes);

/// A write-back that has this many instructions to run under is not what the compute lane waits for.
constexpr std::int32_t kWriteBackSlack = 8;

}  // namespace strata
