#include "base/topology.h"

#include <hwloc.h>

#include <algorithm>
#include <climits>
#include <memory>
#include <thread>
#include <vector>

#include "base/nth.h"

namespace strata {
namespace {

class Topology {
 public:
  Topology() {
    if (hwloc_topology_init(&topology_) != 0) return;
    loaded_ = hwloc_topology_load(topology_) == 0;
  }
  ~Topology() {
    if (topology_ != nullptr) hwloc_topology_destroy(topology_);
  }
  Topology(const Topology&) = delete;
  Topology& operator=(const Topology&) = delete;

  bool loaded() const { return loaded_; }
  hwloc_topology_t get() const { return topology_; }

 private:
  hwloc_topology_t topology_ = nullptr;
  bool loaded_ = false;
};

struct FreeBitmap {
  void operator()(hwloc_bitmap_t bitmap) const { hwloc_bitmap_free(bitmap); }
};
using Bitmap = std::unique_ptr<hwloc_bitmap_s, FreeBitmap>;

/// What this process may run on; null if the system does not say.
Bitmap allowed_processors(const Topology& topology) {
  Bitmap allowed(hwloc_bitmap_alloc());
  if (!topology.loaded() || hwloc_get_cpubind(topology.get(), allowed.get(), HWLOC_CPUBIND_PROCESS) != 0)
    return nullptr;
  return allowed;
}

int count_cores() {
  const Topology topology;
  const Bitmap allowed = allowed_processors(topology);
  return allowed ? hwloc_get_nbobjs_inside_cpuset_by_type(topology.get(), allowed.get(), HWLOC_OBJ_CORE) : 0;
}

}  // namespace

int usable_cores() {
  static const int cores = [] {
    const int counted = count_cores();
    return counted > 0 ? counted : static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
  }();
  return cores;
}

void bind_to_share(int index, int processes) {
  const Topology topology;
  const Bitmap allowed = allowed_processors(topology);
  if (processes < 2 || !allowed) return;
  hwloc_obj_t root = hwloc_get_root_obj(topology.get());
  if (!hwloc_bitmap_isincluded(root->cpuset, allowed.get())) return;
  auto shares = sized<std::vector<hwloc_cpuset_t>>(processes, nullptr);
  if (hwloc_distrib(topology.get(), &root, 1, shares.data(), static_cast<unsigned>(processes), INT_MAX, 0) !=
      0)
    return;
  hwloc_set_cpubind(topology.get(), nth(shares, index), HWLOC_CPUBIND_PROCESS);
  for (hwloc_cpuset_t share : shares) hwloc_bitmap_free(share);
}

}  // namespace strata
