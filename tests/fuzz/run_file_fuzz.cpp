// A run file, YAML or JSON, and behind a line "--" the one run file that there is to name in it. What is read
// must come back from its own dump.
#include "engine/config/run_models.h"
#include "tests/fuzz/target.h"

namespace strata::fuzz {
namespace {

void read_run_file(std::string_view input) {
  const std::string text(next_part(input));
  const auto read = [&](const std::string&) { return std::string(input); };
  const RunModels run = parse_run_models(text, "run.yaml", {}, 1, read);
  const std::string dumped = dump(run);
  try {
    require(parse_run_models(dumped, "dump") == run, "a dumped run file repeats the run");
  } catch (const ConfigError& error) {
    // Bytes, values or levels of what a short file stands for.
    require(std::string_view(error.what()).find(" more than ") != std::string_view::npos,
            "a dumped run file is read unless it is too large");
  }
}

}  // namespace
}  // namespace strata::fuzz

STRATA_FUZZ_TARGET(run_file, strata::fuzz::read_run_file)
