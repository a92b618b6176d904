// A run file, YAML or JSON. What is read must come back from its own dump.
#include "engine/config/describe.h"
#include "engine/config/load.h"
#include "tests/fuzz/target.h"

namespace strata::fuzz {
namespace {

void read_run_file(std::string_view input) {
  const RunConfig config = parse_run_config(input, "run.yaml");
  require(parse_run_config(dump(config), "dump") == config, "a dumped run file repeats the run");
}

}  // namespace
}  // namespace strata::fuzz

STRATA_FUZZ_TARGET(strata::fuzz::read_run_file)
