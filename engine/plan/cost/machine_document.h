// The file of a machine's profile as JSON values: as strata doctor writes it, or YAML written by hand. Keys
// and values are checked here, so that readers of single keys need no checks. Pure functions; any thread.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace strata {

/// Keys of a machine's profile beside its rates.
constexpr const char* kMemoryKey = "memory_bytes";
constexpr const char* kBf16Key = "bf16_instructions";
constexpr const char* kDeviceMemoryKey = "device_memory_bytes";
constexpr const char* kDrivesKey = "nvme_bytes";
constexpr const char* kMeasuredKey = "measured";

/// Keys that only a machine with drives needs.
constexpr const char* kDriveReadKey = "nvme_read_bytes_per_second";
constexpr const char* kDriveWriteKey = "nvme_write_bytes_per_second";

/// YAML if `path` ends with .yaml or .yml, else JSON. Sizes and rates with units are numbers of bytes in what
/// comes back, and sizes are integers. Throws ConfigError that names `path` if `text` is neither, if a key is
/// unknown or missing, or if a value cannot be read.
nlohmann::json machine_document(std::string_view text, const std::string& path);

}  // namespace strata
