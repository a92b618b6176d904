#include <fmt/format.h>
#include <mpi.h>

#include <array>

#include "collectives/versions.h"

namespace strata {

LibraryVersion mpi_version() {
#ifdef OMPI_MAJOR_VERSION
  const std::string built =
      fmt::format("Open MPI {}.{}.{}", OMPI_MAJOR_VERSION, OMPI_MINOR_VERSION, OMPI_RELEASE_VERSION);
#else
  const std::string built = fmt::format("MPI {}.{}", MPI_VERSION, MPI_SUBVERSION);
#endif
  std::array<char, MPI_MAX_LIBRARY_VERSION_STRING> text{};
  int length = 0;
  if (MPI_Get_library_version(text.data(), &length) != MPI_SUCCESS)
    return {.name = "MPI", .built = built, .found = "a library that does not say its version"};
  // "Open MPI v4.1.4, package: Debian OpenMPI, ident: …"; MPICH has a table of lines.
  const std::string found(text.data(), static_cast<std::size_t>(length));
  return {.name = "MPI", .built = built, .found = found.substr(0, found.find_first_of(",\n"))};
}

}  // namespace strata
