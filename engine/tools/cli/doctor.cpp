// strata doctor: what this machine has, what is missing or slow and how to mend it, and its rates for the
// planner.
#include <fmt/color.h>
#include <fmt/format.h>
#include <sys/resource.h>
#include <sys/statfs.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <map>
#include <optional>
#include <tuple>

#include "base/error.h"
#include "base/file.h"
#include "base/host_memory.h"
#include "base/nth.h"
#include "base/topology.h"
#include "base/vector_target.h"
#include "collectives/agreement.h"
#include "engine/config/load.h"
#include "engine/device/cpu/cpu_device.h"
#include "engine/plan/cost/step_times.h"
#include "engine/plan/lower/strategy.h"
#include "engine/run/assembly/device.h"
#include "engine/run/assembly/host.h"
#include "engine/run/assembly/load_model.h"
#include "engine/run/assembly/precision.h"
#include "engine/run/execute/choose_products.h"
#include "engine/run/execute/kernel_times.h"
#include "engine/run/execute/machine.h"
#include "engine/run/execute/trainer.h"
#include "engine/run/tune/precision.h"
#include "engine/run/tune/run_layout.h"
#include "engine/tools/cli/commands.h"
#include "engine/tools/cli/job.h"
#include "engine/tools/cli/overwriting.h"
#include "engine/tools/cli/setup.h"
#include "engine/tools/report/wrapped.h"
#include "offload/disk_curve.h"
#ifdef STRATA_CUDA
#include "engine/config/run_config.h"
#include "engine/device/cuda/cuda_device.h"
#include "engine/model/model.h"
#include "engine/run/tune/request_of_run.h"
#endif

namespace strata {
namespace {

enum class Grade { good, weak, bad };

/// What was found, and how to mend it if it is not good.
struct Finding {
  Grade grade = Grade::good;
  std::string subject, found, mend = {};
};

/// As no-color.org has it.
bool asks_for_no_color() {
  const char* wish = std::getenv("NO_COLOR");
  return wish != nullptr && *wish != '\0';
}

class Report {
 public:
  /// The first of several ranks speaks for all.
  explicit Report(bool speaks) : speaks_(speaks) {}

  void add(const Finding& finding) {
    constexpr std::array kNames = {"good", "weak", "bad"};
    constexpr std::array kColors = {fmt::terminal_color::green, fmt::terminal_color::yellow,
                                    fmt::terminal_color::red};
    worst_ = std::max(worst_, finding.grade);
    if (!speaks_) return;
    const std::string grade = fmt::format("{:<5}", nth(kNames, finding.grade));
    const std::string text = for_output(fmt::format("{}{:<12} {}{}", grade, finding.subject, finding.found,
                                                    finding.mend.empty() ? "" : ": " + finding.mend),
                                        grade.size() + 1);
    std::cout << (is_colored_ ? fmt::format(fmt::fg(nth(kColors, finding.grade)), "{}", grade) : grade)
              << text.substr(grade.size()) << std::endl;
  }
  Grade worst() const { return worst_; }

 private:
  bool speaks_;
  bool is_colored_ = isatty(STDOUT_FILENO) != 0 && !asks_for_no_color();
  Grade worst_ = Grade::good;
};

std::string first_line(const char* path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

Finding find_kernel() {
  utsname names{};
  ::uname(&names);
  const std::string reason = why_no_io_uring();
  if (reason.empty())
    return {Grade::good, "kernel", fmt::format("{} {}, with io_uring", names.sysname, names.release)};
  return {
      Grade::weak, "kernel",
      fmt::format("{} {}, without io_uring ({})", names.sysname, names.release, reason),
      "drives are used by threads; set kernel.io_uring_disabled to 0, or allow io_uring to the container"};
}

Finding find_locked_memory() {
  constexpr rlim_t kEnough = 8 << 20;
  rlimit limit{};
  ::getrlimit(RLIMIT_MEMLOCK, &limit);
  const std::string found =
      limit.rlim_cur == RLIM_INFINITY ? "unlimited" : format_bytes(static_cast<Bytes>(limit.rlim_cur));
  if (limit.rlim_cur >= kEnough) return {Grade::good, "memlock", found};
  return {Grade::weak, "memlock", found,
          "kernels before 5.12 count io_uring's memory here; raise it with ulimit -l"};
}

/// "always [madvise] never" has its choice in brackets.
Finding find_huge_pages() {
  const std::string modes = first_line("/sys/kernel/mm/transparent_hugepage/enabled");
  if (modes.empty())
    return {Grade::weak, "huge pages", "not there", "large arenas cost more address translation"};
  if (modes.find("[never]") == std::string::npos) return {Grade::good, "huge pages", modes};
  return {Grade::weak, "huge pages", modes,
          "as root, echo madvise > /sys/kernel/mm/transparent_hugepage/enabled"};
}

Finding find_vector_code() {
  const std::string cap = vector_target_is_capped() ? " (capped by STRATA_VECTOR_TARGET)" : "";
  return {Grade::good, "vector code", CpuDevice::vector_code() + cap};
}

Finding find_cuda() {
#ifdef STRATA_CUDA
  const std::string reason = why_no_cuda_device();
  if (reason.empty()) return {Grade::good, "CUDA", CudaDevice().name()};
  return {Grade::weak, "CUDA", reason, "device.kind cuda is not possible here; the CPU device is"};
#else
  return {Grade::weak, "CUDA", "this program was built without it",
          "use the CPU device, or " + how_to_build_cuda()};
#endif
}

Bytes free_memory() {
  return static_cast<Bytes>(::sysconf(_SC_AVPHYS_PAGES)) * ::sysconf(_SC_PAGESIZE);
}

Finding find_memory(const MachineRates& rates, int threads) {
  return {Grade::good, "DRAM",
          fmt::format("{}, {} free, {:.1f} GB/s for AdamW on {} threads", format_bytes(usable_memory()),
                      format_bytes(free_memory()), rates.memory_bytes_per_second / 1e9, threads)};
}

/// In both precisions, so that a user who chooses one sees its cost.
Finding find_compute(Device& device, const MachineRates& rates, const Precision& measured) {
  const auto tflops = [&](DType dtype) {
    return (dtype == measured ? rates.flops_per_second : product_rate(device, dtype)) / 1e12;
  };
  return {Grade::good, "device",
          fmt::format("{}: {:.2f} TFLOP/s in fp32 and {:.2f} in bf16, copies {:.1f} GB/s there and {:.1f} "
                      "GB/s back",
                      device.name(), tflops(DType::fp32), tflops(DType::bf16),
                      rates.h2d_bytes_per_second / 1e9, rates.d2h_bytes_per_second / 1e9)};
}

/// What a run has measured that was planned by a profile, from its report. Throws ConfigError.
StepComparison learned_from(const std::string& path) {
  std::string text;
  try {
    text = read_file(path);
  } catch (const Error& error) {
    throw ConfigError(fmt::format("--learn: {}", error.what()));
  }
  try {
    const nlohmann::json report = nlohmann::json::parse(text);
    const nlohmann::json& simulated = report.at("simulated");
    if (simulated.at("by_profile").get<bool>()) return comparison_from_json(simulated);
  } catch (const nlohmann::json::exception&) {
    throw ConfigError(fmt::format(
        "--learn: {} is not the report of a run whose steps were measured; make one with strata train --json",
        path));
  }
  throw ConfigError(fmt::format(
      "--learn: the run of {} was planned without a profile of the machine; make one with strata doctor "
      "RUN.yaml --profile FILE, set plan.machine to it, and train again",
      path));
}

/// A run for each shape of passes that it may have: one, or if plan.search is to choose those of all layouts.
std::vector<RunConfig> shapes_of(const RunConfig& config, std::int64_t ranks) {
  if (config.plan.search == PlanSearch::none) return {config};
  std::map<std::tuple<std::int64_t, std::int64_t, bool, std::int64_t>, RunConfig> shapes;
  for (const RunLayout& layout : layouts_of(config, ranks, 0)) {
    const ParallelSection& parallel = layout.parallel;
    shapes.try_emplace({parallel.tensor, parallel.context, parallel.sequence, layout.microbatch},
                       with_layout(config, layout));
  }
  std::vector<RunConfig> configs;
  configs.reserve(shapes.size());
  for (auto& [shape, of_shape] : shapes) configs.push_back(std::move(of_shape));
  return configs;
}

/// What the passes of the run's model take, call by call, is added to the rates.
Finding find_kernels(Device& device, const RunConfig& config, std::int64_t ranks, MachineRates& rates) {
  const Bytes room =
      device.host_addressable() ? std::min(usable_memory(), free_memory()) : device.available_bytes();
  try {
    for (const RunConfig& shape : shapes_of(config, ranks))
      measure_kernels(device, load_model_of_rank(shape, 0), shape.precision(), microbatch_of_rank(shape),
                      room, rates.kernels);
  } catch (const Error& error) {
    return {Grade::weak, "kernels", fmt::format("not all were timed: {}", error.what()),
            "plans take the others' FLOPs"};
  }
  return {Grade::good, "kernels",
          fmt::format("{} calls of the model's passes with {} sequences of {} tokens were timed",
                      rates.kernels.size(),
                      config.plan.search == PlanSearch::none ? std::to_string(config.train.microbatch)
                                                             : "all microbatches",
                      config.data.sequence_length)};
}

/// As a run of this file would, so that kernels are timed as they will run.
std::optional<Finding> find_products(Device& device, const RunConfig& config, std::int64_t ranks,
                                     Communicator* world) {
  const std::vector<RunConfig> shapes = shapes_of(config, ranks);
  std::vector<Model> models;
  models.reserve(shapes.size());
  for (const RunConfig& shape : shapes) models.push_back(load_model_of_rank(shape, 0));
  std::vector<ProductsOf> products;
  for (std::size_t i = 0; i < shapes.size(); ++i)
    products.push_back({models[i], shapes[i].precision(), microbatch_of_rank(shapes[i])});
  const ChosenProducts chosen = choose_products(device, config.device.product_table, products, world);
  if (chosen.table.empty()) return std::nullopt;
  return Finding{Grade::good, "products", chosen.describe()};
}

/// The links of the job's ranks are added to the rates.
Finding find_links(const RunConfig& config, Job& job, MachineRates& rates) {
  if (config.device.kind != DeviceKind::cpu)
    return {Grade::good, "links", "between GPUs are not measured; give the profile their rates by hand"};
  const std::unique_ptr<Communicator> node = job.world()->split(job.rank() - job.local_rank(), job.rank());
  const auto of_all = [&](double value, ReduceOp op) {
    job.world()->all_reduce(&value, &value, 1, Element::fp64, op);
    return value;
  };
  const double most = of_all(job.local_size(), ReduceOp::max);
  if (of_all(node->size(), ReduceOp::min) != most)
    return {Grade::weak, "links", "not measured",
            "start as many ranks on each host, and number those of a host one after another"};
  rates.links = measure_links(*job.world(), *node);
  std::string found;
  const auto add = [&](std::string_view where, double bytes_per_second, double latency) {
    if (bytes_per_second > 0)
      found += fmt::format("{}{:.2f} GB/s and {:.1f} us {}", found.empty() ? "" : ", ",
                           bytes_per_second / 1e9, latency * 1e6, where);
  };
  add("between ranks of a host", rates.links.inside_bytes_per_second, rates.links.inside_latency);
  add("between hosts", rates.links.across_bytes_per_second, rates.links.across_latency);
  return {Grade::good, "links", fmt::format("{}, by {} ranks", found, job.size())};
}

std::string filesystem_of(const struct statfs& status) {
  switch (static_cast<unsigned long>(status.f_type)) {
    case 0xEF53:
      return "ext4";
    case 0x58465342:
      return "xfs";
    case 0x9123683E:
      return "btrfs";
    case 0x01021994:
      return "tmpfs";
    case 0x794C7630:
      return "overlayfs";
    case 0x6969:
      return "nfs";
    default:
      return fmt::format("filesystem {:#x}", status.f_type);
  }
}

Finding find_space(const std::string& folder) {
  struct statfs status {};
  if (::statfs(folder.c_str(), &status) != 0)
    return {Grade::bad, "drive", folder + ": no such folder", "make it"};
  const Bytes free = static_cast<Bytes>(status.f_bavail) * status.f_bsize;
  const std::string found = fmt::format("{}: {}, {} free", folder, filesystem_of(status), format_bytes(free));
  constexpr Bytes kLittle = 16 * GiB;  // the state of a model of a billion parameters
  if (free >= kLittle) return {Grade::good, "drive", found};
  return {Grade::weak, "drive", found, "14 bytes per parameter go there at most"};
}

/// The folder's curve, as lines of their own; its best speeds are added to the rates.
Finding find_speed(const std::string& folder, MachineRates& rates) {
  constexpr Bytes kFile = 128 * MiB;
  constexpr double kSlow = 500e6;
  try {
    const std::vector<CurvePoint> curve =
        measure_disk_curve(folder, kFile, {128 * KiB, MiB, 4 * MiB}, {1, 4, 16});
    DiskSpeed best;
    std::string lines;
    for (const CurvePoint& point : curve) {
      best = {std::max(best.read, point.speed.read), std::max(best.write, point.speed.write)};
      lines += fmt::format("\n       {:>10} x {:<2}  read {:5.2f} GB/s, write {:5.2f} GB/s",
                           format_bytes(point.block), point.depth, point.speed.read / 1e9,
                           point.speed.write / 1e9);
    }
    rates.nvme_read_bytes_per_second += best.read;
    rates.nvme_write_bytes_per_second += best.write;
    const bool slow = std::min(best.read, best.write) < kSlow;
    return {slow ? Grade::weak : Grade::good, "speed",
            fmt::format("{}: read {:.2f} GB/s, write {:.2f} GB/s, past the page cache{}{}", folder,
                        best.read / 1e9, best.write / 1e9,
                        slow ? "; steps will wait for it unless they are long" : "", lines)};
  } catch (const Error& error) {
    return {Grade::bad, "speed", error.what()};
  }
}

/// The profile may be the one that the run is planned by: that is how it is measured anew.
void refuse_overwriting_run(const DoctorCommand& command) {
  CommandFiles files;
  RunModels run;
  if (!command.run_file.empty()) {
    run = load_run_models(command.run_file, command.overrides, command.ranks);
    for (NamedRun& model : run.models) model.config.plan.machine.clear();
    files = files_of(command, run);
  }
  files.outputs.push_back({"--profile", command.profile});
  files.find_inputs = [find_of_run = files.find_inputs, &command] {
    CommandInputs inputs = find_of_run ? find_of_run() : CommandInputs();
    inputs.push_back({"--learn", command.learn});
    return inputs;
  };
  refuse_overwriting(files);
}

/// The first rank whose CPU has no instructions for bf16; empty if all have them.
std::string without_bf16(Job& job) {
  const std::vector<std::string> ranks =
      texts_of_ranks(job.world(), [&] { return strata::without_bf16(job.world()); });
  const auto first = std::ranges::find_if(ranks, [](const std::string& rank) { return !rank.empty(); });
  return first == ranks.end() ? "" : *first;
}

/// Every rank measures what ranks share, so that they share it as in a run; the first one speaks.
int examine(const DoctorCommand& command, Job& job) {
  RunConfig config;
  if (!command.run_file.empty()) config = load_run_config(command.run_file, command.overrides, command.ranks);
  job.set_watchdog(static_cast<double>(config.train.watchdog));
  if (!command.folders.empty()) config.memory.nvme_path = command.folders;
  refuse_overwriting_run(command);
  if (job.is_first()) check_json_path("--profile", command.profile);
  std::optional<StepComparison> learned;
  if (!command.learn.empty()) learned = learned_from(command.learn);
  bind_to_share(job.local_rank(), job.local_size());
  Report report(job.is_first());
  report.add(find_kernel());
  report.add(find_locked_memory());
  report.add(find_huge_pages());
  report.add(find_vector_code());
  report.add(find_cuda());
  const std::unique_ptr<Device> device = make_device(config, job.local_rank());
  const int threads = host_threads(config);
  const PrecisionChoice choice = choose_precision(config, {.stored = {}, .without_bf16 = without_bf16(job)});
  const Precision precision = config.train.precision.value_or(choice.precision);
  MachineRates rates = measure_machine(*device, precision, link_limit(config), threads, {}, job.world());
  report.add(find_memory(rates, threads));
  report.add(find_compute(*device, rates, precision));
  report.add(
      {Grade::good, "precision",
       fmt::format("train.precision auto begins a run in {}: {}", name_of(choice.precision), choice.why)});
  if (job.size() > 1) report.add(find_links(config, job, rates));
  if (job.is_first()) {
    for (const std::string& folder : config.memory.nvme_path) {
      report.add(find_space(folder));
      report.add(find_speed(folder, rates));
    }
  }
  if (!command.run_file.empty() && !command.profile.empty()) {
    config.train.precision = precision;
    if (const std::optional<Finding> products = find_products(*device, config, command.ranks, job.world()))
      report.add(*products);
    report.add(find_kernels(*device, config, command.ranks, rates));
  }
  for (const std::string& sentence : device->slow_paths()) report.add({Grade::weak, "slow path", sentence});
  if (learned) {
    rates = corrected(std::move(rates), *learned);
    report.add(
        {Grade::good, "learned",
         fmt::format("rates are corrected by {}, whose step took {:.3f} s where {:.3f} s were simulated",
                     command.learn, learned->measured.step, learned->simulated.step)});
  }
  nlohmann::json profile = profile_json(rates);
  profile[kMeasuredKey] = true;
  profile[kMemoryKey] = usable_memory();
  if (!device->host_addressable()) profile[kDeviceMemoryKey] = device->available_bytes();
  if (const Bytes free = this_host(config).drives; free != kUnlimited) profile[kDrivesKey] = free;
  profile[kBf16Key] = without_bf16(job).empty();
  if (job.is_first()) write_json(command.profile, profile);
  return report.worst() == Grade::bad ? 1 : 0;
}

}  // namespace

int run_doctor(const DoctorCommand& command) {
  Job job;
  return job.run([&] { return examine(command, job); });
}

}  // namespace strata
