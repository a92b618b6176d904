#include "engine/tools/cli/plan_target.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <iostream>
#include <optional>
#include <utility>

#include "base/error.h"
#include "base/file.h"
#include "engine/config/choices.h"
#include "engine/config/run_config.h"
#include "engine/config/value.h"
#include "engine/input/data/file_pattern.h"
#include "engine/run/assembly/host.h"
#include "engine/run/assembly/layout.h"
#include "engine/run/tune/planning_rates.h"
#include "engine/tools/cli/machine_file.h"
#include "engine/tools/cli/own_name.h"
#include "engine/tools/cli/setup.h"

namespace strata {
namespace {

/// What a profile says of a machine.
struct Machine {
  std::string name, file;
  DeviceKind kind = DeviceKind::cpu;
  std::optional<Bytes> device, memory, drives;
  std::int64_t node_ranks = 1;
};

Machine machine_of(const std::string& file) {
  const MachineRates rates = parse_profile(read_file(file), file);
  return {.name = std::filesystem::path(file).stem().string(),
          .file = file,
          .kind = rates.cores_copy ? DeviceKind::cpu : DeviceKind::cuda,
          .device = profiled_memory(file, kDeviceMemoryKey),
          .memory = profiled_memory(file),
          .drives = profiled_memory(file, kDrivesKey),
          .node_ranks = std::max<std::int64_t>(1, rates.links.node_ranks)};
}

std::string machine_setting(const std::string& file) {
  return "plan.machine=" + value::Text::write(file);
}

/// The run file's limits are of the machine that it was written for, so they are lifted, too.
std::vector<std::string> settings_of(const Machine& machine) {
  std::vector<std::string> settings = {fmt::format("device.kind={}", word_of(machine.kind)),
                                       "device.flops=0",
                                       "device.link={h2d: unlimited, d2h: unlimited, ranks: unlimited}",
                                       "memory.device=unlimited",
                                       "memory.host=unlimited",
                                       "memory.nvme.size=unlimited",
                                       "memory.nvme.limit={read: unlimited, write: unlimited}"};
  // The folder is not on this machine, so nobody asks how much is free in it here.
  if (machine.drives.value_or(0) > 0)
    settings.push_back("memory.nvme.path=" + value::Text::write("drives-of-" + machine.name));
  return settings;
}

std::string bytes_text(const std::optional<Bytes>& bytes) {
  return bytes.value_or(kUnlimited) == kUnlimited ? "unlimited" : format_bytes(*bytes);
}

/// Keys of a run file whose values another run does not have.
std::vector<std::string> replaced_keys(const RunConfig& given, const RunConfig& used) {
  std::vector<std::string> keys;
  const auto add = [&](bool is_replaced, std::string key) {
    if (is_replaced) keys.push_back(std::move(key));
  };
  const MemorySection& memory = given.memory;
  add(given.device.kind != used.device.kind, fmt::format("device.kind {}", word_of(given.device.kind)));
  add(memory.device != used.memory.device, "memory.device " + bytes_text(memory.device));
  add(memory.host && memory.host != used.memory.host, "memory.host " + bytes_text(memory.host));
  add(!memory.nvme_path.empty() &&
          (memory.nvme_path != used.memory.nvme_path || memory.nvme_size != used.memory.nvme_size),
      "memory.nvme");
  add(memory.nvme_read_per_second != used.memory.nvme_read_per_second ||
          memory.nvme_write_per_second != used.memory.nvme_write_per_second,
      "memory.nvme.limit");
  add(given.device.flops_per_second != used.device.flops_per_second, "device.flops");
  add(given.device.h2d_per_second != used.device.h2d_per_second ||
          given.device.d2h_per_second != used.device.d2h_per_second ||
          given.device.sent_per_second != used.device.sent_per_second,
      "device.link");
  return keys;
}

/// "8 ranks on nodes of 8, each with a GPU of 76.00 GiB, 2.00 TiB of host memory a node".
std::string describe(const Machine& machine, const RunConfig& run) {
  const std::int64_t ranks = run.ranks();
  std::string text = fmt::format("{} rank{}", ranks, ranks == 1 ? "" : "s");
  if (machine.node_ranks > 1) text += fmt::format(" on nodes of {}", machine.node_ranks);
  if (machine.kind == DeviceKind::cuda) {
    text += fmt::format(", {} a GPU{}", ranks == 1 ? "with" : "each with",
                        machine.device ? fmt::format(" of {}", format_bytes(*machine.device)) : "");
  } else {
    text += ", on a CPU";
  }
  const std::string_view of_node = machine.node_ranks > 1 ? " a node" : "";
  if (machine.memory) text += fmt::format(", {} of host memory{}", format_bytes(*machine.memory), of_node);
  if (machine.drives.value_or(0) > 0)
    text += fmt::format(", {} of drives{}", format_bytes(*machine.drives), of_node);
  return text;
}

std::string line_of(const Machine& machine, const RunConfig& given, const RunConfig& used) {
  const std::vector<std::string> keys = replaced_keys(given, used);
  const std::string_view verb = keys.size() == 1 ? "is" : "are";
  return fmt::format(
      "machine  {}: {}{}\n", machine.name, describe(machine, used),
      keys.empty() ? "" : fmt::format("; the run file's {} {} not used", fmt::join(keys, ", "), verb));
}

/// A refusal says where ranks come from that the command line does not name.
RunModels load_on(const PlanningCommand& command, const Machine& machine,
                  const std::vector<std::string>& settings, std::int64_t ranks) {
  try {
    return load_run_models(command.run_file, settings, ranks);
  } catch (const ConfigError& error) {
    if (command.ranks != 0 || ranks == 1) throw;
    load_run_models(command.run_file, settings, 1);  // or it is not for the ranks
    throw ConfigError(fmt::format("{}; --on {} plans for all {} devices of a node, --ranks 1 for one of them",
                                  error.what(), command.on, machine.node_ranks));
  }
}

/// Nothing if the run fits the machine by whose rates it is planned.
std::string contradiction(const Machine& machine, const RunConfig& run) {
  const auto exceeds = [](const std::optional<Bytes>& budget, const std::optional<Bytes>& bytes) {
    return bytes && budget && *budget != kUnlimited && *budget > *bytes;
  };
  if (machine.kind != run.device.kind) {
    return fmt::format(
        "device.kind is {}, and that of {} is {}: its rates are used with the run file's device "
        "and budgets (memory.device {}, memory.host {})",
        word_of(run.device.kind), machine.name, word_of(machine.kind), bytes_text(run.memory.device),
        run.memory.host ? bytes_text(run.memory.host) : "none");
  }
  if (exceeds(run.memory.device, machine.kind == DeviceKind::cpu ? machine.memory : machine.device))
    return fmt::format("memory.device: {} is more than {} has", format_bytes(run.memory.device),
                       machine.name);
  if (exceeds(run.memory.host, machine.memory))
    return fmt::format("memory.host: {} is more than {} has", format_bytes(*run.memory.host), machine.name);
  return "";
}

/// Nothing says how much a GPU has, so every plan fits it.
bool has_unknown_memory(const RunConfig& config) {
  return config.device.kind != DeviceKind::cpu && config.memory.device == kUnlimited &&
         !profiled_memory(config.plan.machine, kDeviceMemoryKey);
}

bool is_missing(const std::string& pattern) {
  return expand_pattern(pattern).empty() && expand_pattern(pattern + ".bin").empty();
}

/// "data.path corpus.txt", or empty.
std::string missing_data(const RunModels& run) {
  for (const NamedRun& model : run.models) {
    const DataSection& data = model.config.data;
    const std::string_view key = data.sources.empty() ? "data.path" : "data.sources";
    for (const DataSource& source : sources_of(data))
      for (const std::string& pattern : source.path)
        if (is_missing(pattern)) return fmt::format("{} {}", key, pattern);
  }
  return "";
}

}  // namespace

std::string PlanningCommand::line(std::string_view name) const {
  std::string line = RunFileCommand::line(name);
  if (!machine.empty()) line += " --machine " + shell_word(machine);
  if (!on.empty()) line += " --on " + shell_word(on);
  if (ranks > 0) line += fmt::format(" --ranks {}", ranks);
  return line;
}

PlanTarget plan_target(const PlanningCommand& command, const std::vector<std::string>& more) {
  std::vector<std::string> given = command.overrides;
  given.insert(given.end(), more.begin(), more.end());
  PlanTarget target;
  target.ranks = std::max<std::int64_t>(1, command.ranks);
  if (command.on.empty()) {
    if (!command.machine.empty())
      given.push_back(machine_setting(machine_file("--machine", command.machine)));
    target.run = load_run_models(command.run_file, given, target.ranks);
    const std::string& file = target.run.models.front().config.plan.machine;
    target.machine_name = command.machine.empty() ? file : command.machine;
    return target;
  }
  const Machine machine = machine_of(machine_file("--on", command.on));
  if (command.ranks == 0) target.ranks = machine.node_ranks;
  std::vector<std::string> settings = settings_of(machine);
  settings.insert(settings.end(), given.begin(), given.end());
  settings.push_back(machine_setting(machine.file));
  target.run = load_on(command, machine, settings, target.ranks);
  const RunModels as_given = load_run_models(command.run_file, given, target.ranks);
  target.machine_line = line_of(machine, as_given.models.front().config, target.run.models.front().config);
  return target;
}

void PlanTarget::warn() const {
  const RunConfig& first = run.models.front().config;
  if (machine_name.empty() || !is_there(first.plan.machine)) return;
  const std::string words = contradiction(machine_of(first.plan.machine), first);
  if (words.empty()) return;
  std::cerr << fmt::format("warning: {}; --on {} plans for all that it has\n", words, machine_name);
}

std::string PlanTarget::rates_are(const MachineRates& by) const {
  const RunConfig& config = run.models.front().config;
  const std::string& file = config.plan.machine;
  const bool is_measured = !file.empty() && profiled_as_measured(file);
  std::string text = is_measured ? fmt::format("measured by strata doctor, in {}", file)
                     : file.empty()
                         ? fmt::format("nominal, assumed of {} and not measured", nominal_device(config))
                         : fmt::format("nominal, from {} and not measured by strata doctor", file);
  if (!is_measured) text += ": a run on the real machine may take longer";
  if (by.kernels.is_empty())
    text += fmt::format(". Norms{} cost nothing in this plan",
                        by.cores_copy ? " and activations" : ", activations and AdamW on the device");
  if (file.empty() || (is_measured && by.kernels.is_empty()))
    text += "; strata doctor RUN.yaml --profile FILE measures them, and plan.machine takes the file";
  if (file.empty()) text += ". --on MACHINE plans for another machine";
  if (has_unknown_memory(config))
    text += ". The memory of the device was not checked, since memory.device is unlimited";
  return text;
}

std::string PlanTarget::data_line() const {
  const std::string missing = missing_data(run);
  if (missing.empty()) return "";
  return fmt::format("data     {} is not there yet: planned by the run file alone\n", missing);
}

std::string PlanTarget::notes(const MachineRates& by) const {
  return fmt::format("rates    {}\n{}", rates_are(by), data_line());
}

}  // namespace strata
