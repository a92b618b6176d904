#include "offload/uring_version.h"

#include <dlfcn.h>
#include <liburing.h>

#include <filesystem>
#include <string_view>
#include <system_error>

namespace strata {

LibraryVersion uring_version() {
  // Before 2.4 the library has no function that says its version, but the name of its file does.
  constexpr std::string_view kName = "liburing.so.";
  LibraryVersion version{.name = "liburing", .built = STRATA_LIBURING_VERSION, .found = "inside the program"};
  Dl_info info{};
  if (dladdr(reinterpret_cast<const void*>(&io_uring_queue_init), &info) == 0) return version;
  std::error_code error;
  const std::string file = std::filesystem::canonical(info.dli_fname, error).filename().string();
  if (file.starts_with(kName)) version.found = file.substr(kName.size());
  return version;
}

}  // namespace strata
