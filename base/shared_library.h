// Shared libraries that are loaded when the program runs, for the life of the process.
#pragma once

#include <fmt/format.h>

#include <string>
#include <string_view>

namespace strata {

/// Null if it cannot be loaded: why_not_loaded() then says why. `file`: a path, or a name to search for.
void* load_library(const std::string& file);
std::string why_not_loaded();
/// Null if the library has none.
void* find_symbol(void* library, const char* name);

/// Throws `Error` for a library without a function: "NAME has no FUNCTION; REMEDY".
template <class Error>
class FunctionsOf {
 public:
  FunctionsOf(void* library, std::string_view name, std::string_view remedy)
      : library_(library), name_(name), remedy_(remedy) {}

  template <class Function>
  void find(const char* name, Function& function) const {
    function = reinterpret_cast<Function>(find_symbol(library_, name));
    if (function == nullptr) throw Error(fmt::format("{} has no {}; {}", name_, name, remedy_));
  }

 private:
  void* library_;
  std::string_view name_, remedy_;
};

}  // namespace strata
