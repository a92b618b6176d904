#include "base/resolved_path.h"

#include <system_error>

namespace strata {

std::filesystem::path resolved(const std::filesystem::path& path) {
  std::error_code error;
  // weakly_canonical() alone leaves a path relative if nothing of it is there.
  const std::filesystem::path whole = std::filesystem::absolute(path, error);
  if (error) return path.lexically_normal();
  std::filesystem::path found = std::filesystem::weakly_canonical(whole, error);
  return error ? whole.lexically_normal() : found;
}

}  // namespace strata
