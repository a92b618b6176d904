// A Hugging Face folder's config.json, or a run file's model.config. What Strata understands it must write
// and read again.
#include "base/json_text.h"
#include "engine/model/architectures/architecture.h"
#include "tests/fuzz/target.h"

namespace strata::fuzz {
namespace {

void read_config(std::string_view input) {
  const nlohmann::json json = parse_json(input, "config.json");
  const Architecture architecture = parse_architecture(json, "config.json");
  const nlohmann::json written = parse_json(json_text(to_hf_config(architecture)), "written");
  require(parse_architecture(written, "written") == architecture,
          "a config that is written is read as the same model");
}

}  // namespace
}  // namespace strata::fuzz

STRATA_FUZZ_TARGET(config_json, strata::fuzz::read_config)
