#include "engine/run/assembly/opened_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <utility>

#include "base/error.h"
#include "base/file.h"
#include "base/host_memory.h"
#include "engine/config/run_config.h"
#include "engine/run/assembly/device.h"
#include "engine/run/assembly/precision.h"

namespace strata {
namespace {

/// A tenth of what is free is left to kernels and to the system.
Bytes most_of(Bytes bytes) {
  return bytes == kUnlimited ? bytes : bytes / 10 * 9;
}

/// A CPU's device memory is the host's own, so what one takes the other has not.
ParameterBudget budgets(const UseOptions& options, const Device& device) {
  ParameterBudget budget{options.device_memory, options.host_memory};
  const Bytes host = most_of(usable_memory());
  const bool is_own = !device.host_addressable();
  if (budget.device == kUnlimited) budget.device = is_own ? most_of(device.available_bytes()) : host;
  if (budget.host == kUnlimited && host != kUnlimited)
    budget.host = is_own ? host : std::max<Bytes>(0, host - budget.device);
  return budget;
}

Precision precision_of(const UseOptions& options) {
  if (options.precision) return *options.precision;
  return options.device == DeviceKind::cpu && !without_bf16(nullptr).empty() ? DType::fp32 : DType::bf16;
}

}  // namespace

OpenedModel open_model(const UseOptions& options, const std::function<ModelSource(const ModelUse&)>& open) {
  RunConfig config;
  config.device.kind = options.device;
  config.train.threads = options.threads;
  const Precision precision = precision_of(options);
  ModelSource source = open({options.device, precision.products});
  std::unique_ptr<Device> device = make_device(config);
  const ParameterBudget budget = budgets(options, *device);
  return {.precision = precision, .device = std::move(device), .source = std::move(source), .budget = budget};
}

std::string tokenizer_of(const ModelSource& source, const std::string& advice) {
  for (const std::filesystem::path& folder : source.text_folders)
    if (is_there(folder / "tokenizer.json")) return folder.string();
  if (!source.is_checkpoint) return source.folder.string();
  throw ConfigError(
      fmt::format("{} is a checkpoint, which has no tokenizer: {}", source.folder.string(), advice));
}

}  // namespace strata
