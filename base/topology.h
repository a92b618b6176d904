// What the machine's processors look like (hwloc): on which cores a process may compute.
#pragma once

namespace strata {

/// Physical cores that this process may run on, at least 1: a second hardware thread of a core adds nothing
/// to matrix products.
int usable_cores();

/// Keeps this process to its share of the machine's cores, and so to the memory next to them, if
/// `processes` on it compute side by side: the `index`-th of them. Nothing if whoever started it keeps it
/// to some already, or if the system does not let it. Before usable_cores().
void bind_to_share(int index, int processes);

}  // namespace strata
