#include "engine/run/assembly/device.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/shipped_file.h"
#include "engine/device/cpu/cpu_device.h"
#include "engine/plan/lower/run_scratch.h"
#include "engine/run/execute/trainer.h"
#ifdef STRATA_CUDA
#include "engine/device/cuda/cuda_device.h"
#include "engine/device/cuda/cuda_stream.h"
#endif
#ifdef STRATA_NCCL
#include "collectives/nccl_communicator.h"
#include "engine/config/run_config.h"
#include "engine/model/model.h"
#endif

namespace strata {
namespace {

#ifdef STRATA_CUDA
/// What NCCL allocates on each GPU, for all ranks and for each group of some of them. Each of at most 32
/// channels has for two neighbours the buffers of three protocols: NCCL_BUFFSIZE of 4 MiB, LL128 of 5 MiB,
/// and LL of half a MiB. Sources: NCCL's environment variables, and src/include/device.h. Assumed, not
/// measured on GPUs.
Bytes nccl_bytes(const ParallelSection& parallel, std::int64_t ranks) {
  constexpr Bytes kOfGroup = Bytes{32} * 2 * (4 * MiB + 5 * MiB + MiB / 2);
  Bytes bytes = kOfGroup;
  for (const std::int64_t size : {parallel.data, parallel.replicate, parallel.data / parallel.replicate,
                                  parallel.tensor, parallel.context, parallel.pipeline}) {
    if (size > 1 && size < ranks) bytes += kOfGroup;
  }
  return bytes;
}
#endif

std::vector<ScratchPart> kernel_scratch(const RunConfig& config, const Model& model) {
  const Strategy strategy = plan_request(config, model).strategy;
  std::unique_ptr<ScratchRules> rules;
  if (config.device.kind == DeviceKind::cpu) rules = std::make_unique<CpuScratchRules>(host_threads(config));
#ifdef STRATA_CUDA
  if (config.device.kind == DeviceKind::cuda) rules = std::make_unique<CudaScratchRules>();
#endif
  if (!rules) return {};
  std::vector<ScratchPart> parts = rules->parts(scratch_of_run(*rules, model, strategy));
#ifdef STRATA_CUDA
  if (config.device.kind == DeviceKind::cuda && config.ranks() > 1)
    parts.push_back({"NCCL's buffers", nccl_bytes(config.parallel, config.ranks())});
#endif
  return parts;
}

}  // namespace

LinkLimit link_limit(const RunConfig& config) {
  LinkLimit limit;
  if (config.device.h2d_per_second) limit.to_device = static_cast<double>(*config.device.h2d_per_second);
  if (config.device.d2h_per_second) limit.to_host = static_cast<double>(*config.device.d2h_per_second);
  return limit;
}

std::string how_to_build_cuda() {
  return "build Strata from its source with STRATA_CUDA=ON, as " + shipped_file("docs/how-to/install.md") +
         " says";
}

std::unique_ptr<Device> make_device(const RunConfig& config, [[maybe_unused]] int local_rank) {
  if (config.device.kind == DeviceKind::cpu) {
    return std::make_unique<CpuDevice>(
        CpuDeviceOptions{.threads = static_cast<int>(config.train.threads), .link = link_limit(config)});
  }
#ifdef STRATA_CUDA
  return std::make_unique<CudaDevice>(local_rank % std::max(1, cuda_devices()));
#else
  throw ConfigError("device.kind: this program was built without CUDA; use cpu, or " + how_to_build_cuda());
#endif
}

MakeDeviceGroup device_groups(const RunConfig& config) {
  if (config.device.kind == DeviceKind::cpu) return {};
#ifdef STRATA_NCCL
  return [seconds = static_cast<double>(config.train.watchdog)](std::unique_ptr<Communicator> on_host,
                                                                Stream& stream) {
    return make_nccl_communicator(std::move(on_host), {.stream = static_cast<CudaStream&>(stream).handle(),
                                                       .watchdog_seconds = seconds});
  };
#else
  throw ConfigError(
      "device.kind: several ranks on GPUs need NCCL, and this program was built without it: build it where "
      "nccl.h is found");
#endif
}

RunShare share_of_run(const std::vector<ConfiguredModel>& models, const HostResources& host, int ranks) {
  std::vector<ScratchPart> scratch;
  const ConfiguredModel* largest = &models.front();  // by what it takes to load, save and hash it
  const auto bytes = [](const ConfiguredModel& model) { return scratch_bytes(*model.config, *model.model); };
  for (const ConfiguredModel& model : models) {
    std::vector<ScratchPart> own = kernel_scratch(*model.config, *model.model);
    if (total(own) >= total(scratch)) scratch = std::move(own);
    if (bytes(model) > bytes(*largest)) largest = &model;
  }
  const bool is_in_host_memory = largest->config->device.kind == DeviceKind::cpu;
  const HostShare share =
      share_of_host(*largest->config, *largest->model, host, ranks, is_in_host_memory ? total(scratch) : 0);
  return {.scratch = std::move(scratch), .host = share};
}

Bytes device_budget(const RunConfig& config, const Device& device, Bytes kernels) {
  const Bytes free = device.available_bytes();
  const Bytes available = free == kUnlimited ? free : std::max<Bytes>(0, free - kernels);
  if (config.memory.device == kUnlimited) return available;
  if (config.memory.device <= available) return config.memory.device;
  throw ConfigError(
      fmt::format("memory.device: {} is more than the {} that {} has free beside what its kernels need; give "
                  "at most that, or unlimited",
                  format_bytes(config.memory.device), format_bytes(available), device.name()));
}

}  // namespace strata
