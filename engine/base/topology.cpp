#include "engine/base/topology.h"

#include <hwloc.h>

#include <algorithm>
#include <thread>

namespace strata {
namespace {

int count_cores() {
  hwloc_topology_t topology = nullptr;
  if (hwloc_topology_init(&topology) != 0) return 0;
  int cores = 0;
  if (hwloc_topology_load(topology) == 0) {
    hwloc_bitmap_t allowed = hwloc_bitmap_alloc();
    if (hwloc_get_cpubind(topology, allowed, HWLOC_CPUBIND_PROCESS) == 0) {
      cores = hwloc_get_nbobjs_inside_cpuset_by_type(topology, allowed, HWLOC_OBJ_CORE);
    }
    hwloc_bitmap_free(allowed);
  }
  hwloc_topology_destroy(topology);
  return cores;
}

}  // namespace

int usable_cores() {
  static const int cores = [] {
    const int counted = count_cores();
    return counted > 0 ? counted : static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
  }();
  return cores;
}

}  // namespace strata
