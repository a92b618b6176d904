// What tests cannot ask of a program that a sanitizer watches.
#pragma once

namespace strata::test {

/// Whether a sanitizer keeps shadows of memory: several times what the program takes, and terabytes of
/// addresses.
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
inline constexpr bool kShadowedMemory = true;
#else
inline constexpr bool kShadowedMemory = false;
#endif

}  // namespace strata::test
