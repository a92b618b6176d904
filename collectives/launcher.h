// Whether this process is one of several.
#pragma once

namespace strata {

/// Whether a launcher (mpirun, srun) started this process as a rank among others, as its environment
/// variables say. A process that was started by itself needs no MPI.
bool started_by_launcher();

}  // namespace strata
