#include "base/shared_library.h"

#include <dlfcn.h>

namespace strata {

void* load_library(const std::string& file) {
  return dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
}

std::string why_not_loaded() {
  const char* reason = dlerror();
  return reason == nullptr ? "it was not loaded" : reason;
}

void* find_symbol(void* library, const char* name) {
  return dlsym(library, name);
}

}  // namespace strata
