// The run file's word for each enumerator of an enum. Used to read, print and document keys, and by reports
// that name a choice.
#pragma once

#include <string_view>

#include "base/nth.h"

namespace strata {

/// Words<E>::list[i] is the word of the enumerator with value i. It stands behind the enum.
template <typename E>
struct Words;

template <typename E>
constexpr std::string_view word_of(E value) {
  return nth(Words<E>::list, value);
}

}  // namespace strata
