// An IoError that carries the system's reason, for callers that do not treat every reason alike.
#pragma once

#include <filesystem>
#include <string_view>

#include "base/error.h"

namespace strata {

struct SystemError : IoError {
  SystemError(const std::string& sentence, int system_code) : IoError(sentence), code(system_code) {}
  /// A filesystem, or the user's share of it, is full.
  bool lacks_space() const;
  /// Nothing has that name, in a folder that could be searched.
  bool is_missing() const;

  int code;  ///< an errno
};

/// Throws SystemError: "cannot OPERATION PATH: REASON", with advice if the disk is full.
[[noreturn]] void throw_system_error(std::string_view operation, const std::filesystem::path& path, int code);

}  // namespace strata
