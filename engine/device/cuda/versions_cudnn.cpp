#include <cudnn.h>

#include "engine/device/cuda/versions.h"

namespace strata {

LibraryVersion cudnn_version() {
  return {
      .name = "cuDNN", .built = dotted_version(CUDNN_VERSION), .found = dotted_version(cudnnGetVersion())};
}

}  // namespace strata
