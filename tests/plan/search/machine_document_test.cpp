#include "engine/plan/search/machine_document.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "engine/plan/search/rates.h"

namespace strata {
namespace {

const std::string kYaml =
    "flops_per_second: 600e12  # assumed\n"
    "memory_bytes_per_second: 200e9\n"
    "h2d_bytes_per_second: 50e9\n"
    "d2h_bytes_per_second: 40e9\n"
    "nvme_read_bytes_per_second: 6e9\n"
    "nvme_write_bytes_per_second: 0\n"
    "cores_copy: false\n";

TEST(MachineDocument, InYamlIsTheProfileThatJsonIs) {
  const MachineRates rates = parse_profile(kYaml, "machine.yaml");
  EXPECT_EQ(rates.flops_per_second, 600e12);
  EXPECT_FALSE(rates.cores_copy);
  EXPECT_EQ(rates, parse_profile(profile_json(rates).dump(), "machine.json"));
}

TEST(MachineDocument, IsReadAsItsNameEnds) {
  EXPECT_THROW(parse_profile(kYaml, "machine.json"), ConfigError);
  EXPECT_EQ(parse_profile(kYaml, "machine.yml"), parse_profile(kYaml, "machine.yaml"));
}

TEST(MachineDocument, ThatIsNoProfileIsRefusedWithItsName) {
  for (const std::string text :
       {"", "[1, 2]", "a: [", "flops_per_second: fast", "flops_per_second: .inf", "a: 1\na: 2"}) {
    try {
      parse_profile(text, "machine.yaml");
      FAIL() << text;
    } catch (const ConfigError& error) {
      EXPECT_NE(std::string(error.what()).find("machine.yaml"), std::string::npos) << error.what();
    }
  }
}

}  // namespace
}  // namespace strata
