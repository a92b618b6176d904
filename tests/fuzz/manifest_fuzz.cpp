// A checkpoint's manifest: as it is, and with the checksum that makes it look undamaged.
#include <nlohmann/json.hpp>

#include "base/hash.h"
#include "engine/run/checkpoint/manifest.h"
#include "tests/fuzz/target.h"

namespace strata::fuzz {
namespace {

std::string with_checksum(nlohmann::json manifest) {
  manifest.erase("manifest_xxh3");
  manifest["manifest_xxh3"] = hex(hash_text(manifest.dump()));
  return manifest.dump(2) + "\n";
}

void read_manifest_text(std::string_view input) {
  expect_read_or_refused([&] { parse_manifest(std::string(input), "manifest.json"); });
  if (input.size() > 4096) return;  // deep ones were refused above, and dump() would follow them
  const nlohmann::json json = nlohmann::json::parse(input, nullptr, false);
  if (json.is_object() && std::ranges::count(input, '[') + std::ranges::count(input, '{') < 256) {
    const Manifest manifest = parse_manifest(with_checksum(json), "manifest.json");
    parse_manifest(to_text(manifest), "written");
  }
}

}  // namespace
}  // namespace strata::fuzz

STRATA_FUZZ_TARGET(manifest, strata::fuzz::read_manifest_text)
