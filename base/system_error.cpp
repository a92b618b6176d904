#include "base/system_error.h"

#include <fmt/format.h>

#include <cerrno>
#include <system_error>

namespace strata {

bool SystemError::lacks_space() const {
  return code == ENOSPC || code == EDQUOT;
}

bool SystemError::is_missing() const {
  return code == ENOENT;
}

void throw_system_error(std::string_view operation, const std::filesystem::path& path, int code) {
  const char* advice =
      code == ENOSPC || code == EDQUOT ? "; free some space there or choose another path" : "";
  throw SystemError(fmt::format("cannot {} {}: {}{}", operation, path.string(),
                                std::generic_category().message(code), advice),
                    code);
}

}  // namespace strata
