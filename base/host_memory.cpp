#include "base/host_memory.h"

#include <fmt/format.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <string>

namespace strata {
namespace {

/// "MemTotal:       24590324 kB"
Bytes machine_memory(const std::filesystem::path& root) {
  std::ifstream file(root / "proc/meminfo");
  std::string key;
  Bytes kibibytes = 0;
  while (file >> key) {
    if (key == "MemTotal:" && file >> kibibytes && kibibytes > 0) return kibibytes * KiB;
    std::getline(file, key);
  }
  return kUnlimited;
}

/// "max", or a number of bytes; version 1 says no limit with a number of about 2^63.
Bytes limit_in(const std::filesystem::path& path) {
  std::ifstream file(path);
  Bytes bytes = 0;
  return file >> bytes && bytes > 0 ? bytes : kUnlimited;
}

/// The least limit from `group` up to the top of the hierarchy, as far as it is visible here: a container may
/// see its own group as the top.
Bytes least_limit(const std::filesystem::path& hierarchy, std::filesystem::path group,
                  const std::string& file) {
  Bytes least = limit_in(hierarchy / file);
  for (group = group.relative_path(); !group.empty(); group = group.parent_path())
    least = std::min(least, limit_in(hierarchy / group / file));
  return least;
}

/// Lines of "hierarchy:controllers:group"; version 2 has one hierarchy, 0, and names no controllers.
Bytes control_group_memory(const std::filesystem::path& root) {
  const std::filesystem::path groups = root / "sys/fs/cgroup";
  std::ifstream file(root / "proc/self/cgroup");
  Bytes least = kUnlimited;
  for (std::string line; std::getline(file, line);) {
    const std::size_t first = line.find(':'), second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = fmt::format(",{},", line.substr(first + 1, second - first - 1));
    const std::string group = line.substr(second + 1);
    if (controllers == ",,") least = std::min(least, least_limit(groups, group, "memory.max"));
    if (controllers.find(",memory,") != std::string::npos)
      least = std::min(least, least_limit(groups / "memory", group, "memory.limit_in_bytes"));
  }
  return least;
}

}  // namespace

Bytes memory_limit(const std::filesystem::path& root) {
  return std::min(machine_memory(root), control_group_memory(root));
}

Bytes usable_memory() {
  rlimit addresses{};
  const bool is_limited = ::getrlimit(RLIMIT_AS, &addresses) == 0 && addresses.rlim_cur != RLIM_INFINITY;
  if (!is_limited) return memory_limit();
  std::ifstream file("/proc/self/statm");
  Bytes pages = 0;
  file >> pages;  // that are mapped
  const Bytes mapped = pages * ::sysconf(_SC_PAGESIZE);
  return std::min(memory_limit(), std::max<Bytes>(0, static_cast<Bytes>(addresses.rlim_cur) - mapped));
}

}  // namespace strata
