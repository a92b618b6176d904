// The instruction sets that the vector code of this process uses: the best that the processor has, or what
// STRATA_VECTOR_TARGET in the environment caps it to. Highway's choice and oneDNN's both follow it. Any
// thread may ask.
#pragma once

#include <cstdint>
#include <string_view>

namespace strata {

/// From the least to the best on x86-64; each has what those before it have. `baseline` is what every
/// processor of the build's architecture has, and all that there is on others.
enum class VectorTarget : std::uint8_t { baseline, sse4, avx2, avx512, avx512_bf16 };

std::string_view name_of(VectorTarget target);

/// The one in use. A cap that the processor does not reach leaves its best. Throws ConfigError if
/// STRATA_VECTOR_TARGET is no target's name.
VectorTarget vector_target();
/// The best that the processor has, whatever caps it.
VectorTarget best_vector_target();
/// Whether STRATA_VECTOR_TARGET is set: then libraries must not choose better instructions by themselves
/// either.
bool vector_target_is_capped();

/// Lets Highway choose no better target than that, if the variable names one. True, for the line below.
bool cap_highway();

/// Highway chooses at its first dispatch, and this happens when a program that has vector code is loaded:
/// storage_vectors-inl.h, which all of that includes, includes this.
inline const bool kHighwayIsCapped = cap_highway();

}  // namespace strata
