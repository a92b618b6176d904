#include "engine/run/tune/precision.h"

#include <fmt/format.h>

#include <utility>

#include "engine/config/run_config.h"

namespace strata {

PrecisionChoice choose_precision(const RunConfig& config, const PrecisionFacts& facts) {
  for (const auto& [format, key] : {std::pair{config.memory.trained_as, "memory.trained_as"},
                                    std::pair{config.memory.frozen_as, "memory.frozen_as"}})
    if (format == ParameterFormat::fp8) return {kFp8, fmt::format("{} fp8 needs it", key)};
  const bool has_bf16 = facts.stored && facts.stored->precision.storage == DType::bf16;
  const MasterFormat master = config.optimizer.master;
  if (master != MasterFormat::fp32 && !has_bf16)
    return {DType::bf16, fmt::format("optimizer.master {} needs it", word_of(master))};
  if (config.parallel.reduce_dtype == ReduceDtype::bf16 && !has_bf16)
    return {DType::bf16, "parallel.reduce_dtype bf16 needs it"};
  if (facts.stored) {
    return {facts.stored->precision,
            fmt::format("the run resumes from {}, which has it", facts.stored->checkpoint)};
  }
  if (config.device.kind == DeviceKind::cuda) return {DType::bf16, "the device is a GPU"};
  if (!facts.without_bf16.empty())
    return {DType::fp32, facts.without_bf16 + " has no bf16 instructions, so bf16 would be no faster"};
  return {DType::bf16, "the CPU has instructions for it"};
}

}  // namespace strata
