#include <fmt/format.h>
#include <nccl.h>

#include "base/shared_library.h"
#include "collectives/versions.h"

namespace strata {
namespace {

std::string found_nccl() {
  // As nccl_library() loads it; it stays.
  void* library = load_library("libnccl.so.2");
  if (library == nullptr) return "not found";
  const auto get_version =
      reinterpret_cast<decltype(&ncclGetVersion)>(find_symbol(library, "ncclGetVersion"));
  int version = 0;
  if (!get_version || get_version(&version) != ncclSuccess) return "a library that does not say its version";
  return dotted_version(static_cast<std::size_t>(version));
}

}  // namespace

LibraryVersion nccl_version() {
  return {.name = "NCCL",
          .built = fmt::format("{}.{}.{}", NCCL_MAJOR, NCCL_MINOR, NCCL_PATCH),
          .found = found_nccl()};
}

}  // namespace strata
