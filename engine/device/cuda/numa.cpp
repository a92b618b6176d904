#include "engine/device/cuda/numa.h"

#include <hwloc.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cstdint>
#include <fstream>

#include "base/bytes.h"
#include "base/task_arena.h"
#include "base/topology.h"

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

void touch_pages(std::span<std::byte> memory) {
  if (memory.empty()) return;
  constexpr std::int64_t kPiece = 256 * MiB;
  constexpr int kMostThreads = 16;  // more than the system's page allocator serves
  const std::int64_t page = ::sysconf(_SC_PAGESIZE);
  const auto address = reinterpret_cast<std::uintptr_t>(memory.data());
  const std::int64_t before = static_cast<std::int64_t>(address) % page;
  std::byte* const first = memory.data() - before;
  const std::int64_t bytes = static_cast<std::int64_t>(memory.size()) + before;
  TaskArena(std::clamp(usable_cores(), 1, kMostThreads))
      .for_each((bytes + kPiece - 1) / kPiece, [&](std::int64_t piece, int /*slot*/) {
        const std::int64_t begin = piece * kPiece;
        // A kernel before 5.14 does not know it; locking touches the pages then.
        ::madvise(first + begin, static_cast<std::size_t>(std::min(kPiece, bytes - begin)),
                  MADV_POPULATE_WRITE);
      });
}

}  // namespace strata
