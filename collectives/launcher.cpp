#include "collectives/launcher.h"

#include <fmt/format.h>

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
};
constexpr std::array<Launcher, 3> kLaunchers = {{{"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"},
                                                 {"PMI_RANK", "PMI_SIZE"},
                                                 {"SLURM_PROCID", "SLURM_NTASKS"}}};

}  // namespace

bool started_by_launcher() {
  for (const Launcher& launcher : kLaunchers) {
    const char* size = std::getenv(launcher.size);
    if (std::getenv(launcher.rank) && size && std::atoi(size) > 1) return true;
  }
  return false;
}

std::string name_as_rank(int rank) {
  return fmt::format("rank {} ({})", rank, host_name());
}

}  // namespace strata
