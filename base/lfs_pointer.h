// Git LFS leaves a small text in the place of a large file that was not fetched. Pure functions.
#pragma once

#include <string_view>

namespace strata {

/// How such a text begins.
inline constexpr std::string_view kLfsPointer = "version https://git-lfs.github.com/spec/";
/// The sentence for the user behind the file's path.
inline constexpr std::string_view kLfsAdvice =
    "this is a Git LFS pointer, not the file itself; fetch it with `git lfs pull` or download it again";

constexpr bool is_lfs_pointer(std::string_view text) {
  return text.starts_with(kLfsPointer);
}

}  // namespace strata
