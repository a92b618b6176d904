// What the machine's processors look like (hwloc): on which cores a process may compute.
#pragma once

namespace strata {

/// Physical cores that this process may run on, at least 1: a second hardware thread of a core adds nothing
/// to matrix products.
int usable_cores();

/// Binds this process, the `index`-th of `processes` on the machine, to its share of the cores, and so to the
/// memory next to them. Does nothing if the launcher has bound the process already, or if the system refuses.
/// REQUIRES: usable_cores() was not called yet.
void bind_to_share(int index, int processes);

}  // namespace strata
