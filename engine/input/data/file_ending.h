// What a file's name ends with. A plain function.
#pragma once

#include <strings.h>

#include <string>
#include <string_view>

namespace strata {

/// Capital letters in names are as good as small ones.
inline bool has_ending(const std::string& file, std::string_view ending) {
  return file.size() >= ending.size() &&
         ::strcasecmp(file.c_str() + file.size() - ending.size(), ending.data()) == 0;
}

}  // namespace strata
