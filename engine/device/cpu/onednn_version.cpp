#include "engine/device/cpu/onednn_version.h"

#include <fmt/format.h>

#include <dnnl.h>

namespace strata {

LibraryVersion onednn_version() {
  const dnnl_version_t& found = *dnnl_version();
  return {.name = "oneDNN",
          .built = fmt::format("{}.{}.{}", DNNL_VERSION_MAJOR, DNNL_VERSION_MINOR, DNNL_VERSION_PATCH),
          .found = fmt::format("{}.{}.{}", found.major, found.minor, found.patch)};
}

}  // namespace strata
