#include "collectives/launcher.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdlib>

#include "base/host_name.h"

namespace strata {
namespace {

/// A launcher sets both in every rank. A shell within an allocation of Slurm has SLURM_NTASKS, but is no
/// rank.
struct Launcher {
  const char* rank;
  const char* size;
  const char* words = "mpirun -n";  ///< before the number of ranks
};
constexpr std::array<Launcher, 3> kLaunchers = {{{"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"},
                                                 {"PMI_RANK", "PMI_SIZE"},
                                                 {"SLURM_PROCID", "SLURM_NTASKS", "srun --mpi=pmix -n"}}};

/// What starts several tasks, and what each of them then has in its environment. Slurm's allocations have
/// SLURM_NTASKS, also where a script or a shell is alone in them; only the tasks of srun have its step's.
struct TaskStarter {
  const char* name;
  Launcher variables;
};
constexpr std::array<TaskStarter, 9> kTaskStarters = {
    {{"mpirun", kLaunchers[0]},
     {"a launcher with PMI", kLaunchers[1]},
     {"Slurm's srun", {"SLURM_PROCID", "SLURM_STEP_NUM_TASKS"}},
     {"torchrun", {"RANK", "WORLD_SIZE"}},
     {"MVAPICH's launcher", {"MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_SIZE"}},
     {"Flux", {"FLUX_TASK_RANK", "FLUX_JOB_SIZE"}},
     {"jsrun", {"JSM_NAMESPACE_RANK", "JSM_NAMESPACE_SIZE"}},
     {"Cray's aprun", {"ALPS_APP_PE", "ALPS_APP_SIZE"}},
     {"PALS", {"PALS_RANKID", "PALS_SIZE"}}}};

/// What the environment says of the number of tasks; 0 if it says nothing.
int tasks_of(const Launcher& variables) {
  const char* size = std::getenv(variables.size);
  return std::getenv(variables.rank) != nullptr && size != nullptr ? std::atoi(size) : 0;
}

/// Null if none has started this process as one of several.
const Launcher* launcher_of_ranks() {
  const auto* launcher =
      std::ranges::find_if(kLaunchers, [](const Launcher& each) { return tasks_of(each) > 1; });
  return launcher == kLaunchers.end() ? nullptr : launcher;
}

}  // namespace

std::string why_not_alone() {
  if (tasks_of(kLaunchers[0]) == 1) return "";  // mpirun -n 1 says so
  for (const TaskStarter& starter : kTaskStarters) {
    const int tasks = tasks_of(starter.variables);
    if (tasks < 2) continue;
    return fmt::format(
        "{} started this process as one of {} tasks ({}={}), but MPI joins it with no other: start ranks "
        "with mpirun or srun --mpi=pmix, or unset {} if each task is a run of its own",
        starter.name, tasks, starter.variables.size, tasks, starter.variables.size);
  }
  return "";
}

bool started_by_launcher() {
  return launcher_of_ranks() != nullptr;
}

std::string launch_words(int ranks) {
  if (ranks < 2) return "";
  const Launcher* launcher = launcher_of_ranks();
  return fmt::format("{} {} ", (launcher != nullptr ? *launcher : kLaunchers.front()).words, ranks);
}

std::string name_as_rank(int rank) {
  return fmt::format("rank {} ({})", rank, host_name());
}

}  // namespace strata
