// Which memory of the host lies next to a GPU. A copy that crosses from one processor socket to another is
// slower, so pinned memory is asked for on the GPU's side.
#pragma once

#include <filesystem>
#include <span>
#include <string>

namespace strata {

/// NUMA node of a PCI device, named as "0000:1B:00.0"; -1 if the system does not say.
int numa_node_of_pci(std::string bus_id, const std::filesystem::path& sysfs = "/sys");

/// Asks for pages of `node` where `memory` is not touched yet. A wish: if it cannot be granted, or `node`
/// is -1, pages come from wherever the system likes.
void prefer_numa_node(std::span<std::byte> memory, int node);

/// Has the system give the memory's pages now, on several threads: locking them alone does it on one. What
/// they hold stays.
void touch_pages(std::span<std::byte> memory);

}  // namespace strata
