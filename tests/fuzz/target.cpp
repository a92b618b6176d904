#include "tests/fuzz/target.h"

#include <cstdint>
#include <map>

namespace strata::fuzz {
namespace {

std::map<std::string_view, Target::Read>& targets() {
  static std::map<std::string_view, Target::Read> all;
  return all;
}

Target::Read chosen_target() {
  const char* const name = std::getenv("STRATA_FUZZ_TARGET");
  const auto found = targets().find(name != nullptr ? name : "");
  if (found != targets().end()) return found->second;
  std::cerr << "STRATA_FUZZ_TARGET names no target, which is one of:";
  for (const auto& [known, read] : targets()) std::cerr << ' ' << known;
  std::cerr << '\n';
  std::exit(2);
}

}  // namespace

Target::Target(std::string_view name, Read read) {
  targets().emplace(name, read);
}

}  // namespace strata::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const strata::fuzz::Target::Read read = strata::fuzz::chosen_target();
  strata::fuzz::expect_read_or_refused([&] { read({reinterpret_cast<const char*>(data), size}); });
  return 0;
}
