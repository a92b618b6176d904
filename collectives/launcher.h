// This process as one of several: whether it is, and how it is called.
#pragma once

#include <string>

namespace strata {

/// Whether a launcher (mpirun, srun) started this process as a rank among others, as its environment
/// variables say. A process that was started by itself needs no MPI.
bool started_by_launcher();

/// What starts `ranks` ranks with the launcher of this one, to be put before a command: "mpirun -n 4 ". Empty
/// for one rank.
std::string launch_words(int ranks);

/// For a process that MPI has joined with no other: why it is not alone nevertheless, as its environment
/// variables say, and what to do; a sentence, or empty.
std::string why_not_alone();

/// "rank 2 (node7)": how this process, which is that rank, names itself to users.
std::string name_as_rank(int rank);

}  // namespace strata
