#include "base/shipped_file.h"

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <vector>

#include "base/file.h"

namespace strata {

namespace fs = std::filesystem;

std::string shipped_file(const std::string& name) {
  std::error_code error;
  const fs::path folder = fs::read_symlink("/proc/self/exe", error).parent_path();
  const fs::path share = folder.parent_path() / "share";
  std::vector<fs::path> places = {share / "strata" / name, share / "doc/strata" / name};
  for (fs::path above = folder; above.has_relative_path(); above = above.parent_path())
    places.push_back(above / name);
  const auto found = std::ranges::find_if(places, [](const fs::path& place) { return is_there(place); });
  if (found == places.end()) return name;
  const std::string from_here = found->lexically_relative(fs::current_path(error)).string();
  return from_here.empty() || from_here.starts_with("..") ? found->string() : from_here;
}

}  // namespace strata
