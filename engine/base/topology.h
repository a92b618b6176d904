// What the machine's processors look like (hwloc): how many cores a process may compute on.
#pragma once

namespace strata {

/// Physical cores that this process may run on, at least 1: a second hardware thread of a core adds nothing to matrix products.
int usable_cores();

}  // namespace strata
