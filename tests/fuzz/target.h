// What the fuzz targets share: a reader may refuse its input with a ConfigError, and do nothing else that is
// not reading it.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <string>
#include <string_view>

#include "base/error.h"

namespace strata::fuzz {

/// Ends the process if `read` throws anything but a ConfigError: libFuzzer takes an exception that escapes
/// for a finding.
template <typename Read>
void expect_read_or_refused(const Read& read) {
  try {
    read();
  } catch (const ConfigError&) {
  }
}

inline void require(bool holds, const char* what) {
  if (holds) return;
  std::cerr << "does not hold: " << what << '\n';
  std::abort();
}

/// A folder in memory, if there is /dev/shm, for readers of files. It is the process's own and stays when
/// that crashes.
inline const std::filesystem::path& folder() {
  static const std::filesystem::path path = [] {
    const std::filesystem::path memory = "/dev/shm";
    const std::filesystem::path above =
        std::filesystem::is_directory(memory) ? memory : std::filesystem::temp_directory_path();
    std::string name = (above / "strata-fuzz-XXXXXX").string();
    require(::mkdtemp(name.data()) != nullptr, "a folder can be made");
    std::atexit([] { std::filesystem::remove_all(folder()); });
    return std::filesystem::path(name);
  }();
  return path;
}

inline std::filesystem::path write(const std::string& name, std::string_view content) {
  const std::filesystem::path path = folder() / name;
  std::ofstream(path, std::ios::binary) << content;
  return path;
}

/// The part of `input` before the first line that is "--", which it loses together with that line; all if
/// there is none. So one input can be several files.
inline std::string_view next_part(std::string_view& input) {
  constexpr std::string_view kSeparator = "\n--\n";
  const std::size_t end = input.find(kSeparator);
  const std::string_view part = input.substr(0, end);
  input = end == std::string_view::npos ? std::string_view() : input.substr(end + kSeparator.size());
  return part;
}

/// A reader for libFuzzer's inputs, if the environment variable STRATA_FUZZ_TARGET has its name.
class Target {
 public:
  using Read = void (*)(std::string_view input);
  Target(std::string_view name, Read read);
};

}  // namespace strata::fuzz

#define STRATA_FUZZ_TARGET(name, read_input) \
  static const strata::fuzz::Target name##_target(#name, read_input);
