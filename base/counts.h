// Numbers of things, printed for a person.
#pragma once

#include <cstdint>
#include <string>

namespace strata {

/// With a comma between groups of three digits: "11,714,827".
std::string grouped(std::int64_t count);

/// With three digits and a word for the rest: "3.34 million", "8.03 billion"; below a million as grouped()
/// has it.
std::string rounded_count(std::int64_t count);

}  // namespace strata
