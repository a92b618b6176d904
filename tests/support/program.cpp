// What every test program does before main: strata_test() links it into each. Memory is handed out dirty,
// here and in the programs that are started from here, and a wrong cap of the vector code ends the program
// instead of being left aside.
#include <cstdlib>

#include "base/vector_target.h"

namespace strata::testing {
namespace {

[[maybe_unused]] const bool kMemoryIsDirty = setenv("STRATA_DIRTY_MEMORY", "1", 1) == 0;
[[maybe_unused]] const VectorTarget kTarget = vector_target();

}  // namespace
}  // namespace strata::testing
