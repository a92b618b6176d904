// Where the nvme tier can be tested: a folder that allows O_DIRECT, and a system that allows io_uring. A test
// of a drive that is not there is skipped and says why.
#pragma once

#include <filesystem>
#include <string>

#include "base/error.h"
#include "offload/store.h"

namespace strata::test {

/// Empty if a store with this engine works in the folder.
inline std::string why_no_drive(const std::filesystem::path& folder,
                                StoreEngine engine = StoreEngine::automatic) {
  try {
    const std::string description =
        open_store({.folders = {folder.string()}, .bytes = kStoreAlignment})->describe();
    const bool has_uring = description.starts_with("io_uring");
    return engine == StoreEngine::io_uring && !has_uring ? description : "";
  } catch (const ConfigError& error) {
    const std::string message = error.what();
    return message.find("page cache") != std::string::npos ? message + " (TMPDIR, for tests)" : "";
  }
}

}  // namespace strata::test
