// --set arguments, one a line, on a run file that is complete.
#include "engine/config/describe.h"
#include "engine/config/load.h"
#include "engine/config/run_config.h"
#include "tests/fuzz/target.h"

namespace strata::fuzz {
namespace {

void read_overrides(std::string_view input) {
  std::vector<std::string> overrides;
  while (!input.empty()) {
    const std::size_t end = std::min(input.find('\n'), input.size());
    overrides.emplace_back(input.substr(0, end));
    input.remove_prefix(std::min(end + 1, input.size()));
  }
  const RunConfig config = parse_run_config(
      "model: {architecture: gpt2, config: {n_layer: 2}}\ndata: {path: a.txt}\n", "run.yaml", overrides);
  require(parse_run_config(dump(config), "dump") == config, "a dumped run file repeats the run");
}

}  // namespace
}  // namespace strata::fuzz

STRATA_FUZZ_TARGET(override, strata::fuzz::read_overrides)
