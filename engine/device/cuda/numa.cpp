#include "engine/device/cuda/numa.h"

#include <hwloc.h>

#include <algorithm>
#include <cctype>
#include <fstream>

namespace strata {

int numa_node_of_pci(std::string bus_id, const std::filesystem::path& sysfs) {
  std::transform(bus_id.begin(), bus_id.end(), bus_id.begin(),
                 [](unsigned char c) { return std::tolower(c); });
  std::ifstream file(sysfs / "bus/pci/devices" / bus_id / "numa_node");
  int node = -1;
  return file >> node ? node : -1;
}

void prefer_numa_node(std::span<std::byte> memory, int node) {
  if (memory.empty() || node < 0) return;
  hwloc_topology_t topology = nullptr;
  if (hwloc_topology_init(&topology) != 0) return;
  if (hwloc_topology_load(topology) == 0) {
    const hwloc_obj_t object = hwloc_get_numanode_obj_by_os_index(topology, static_cast<unsigned>(node));
    // Without the strict flag this prefers the node, so that an arena larger than it still gets its pages.
    if (object != nullptr) {
      hwloc_set_area_membind(topology, memory.data(), memory.size(), object->nodeset, HWLOC_MEMBIND_BIND,
                             HWLOC_MEMBIND_BYNODESET);
    }
  }
  hwloc_topology_destroy(topology);
}

}  // namespace strata
