#include "engine/plan/cost/machine_document.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "base/shipped_file.h"
#include "engine/plan/cost/rates.h"

namespace strata {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

const std::string kYaml =
    "flops_per_second: 600e12  # assumed\n"
    "memory_bytes_per_second: 200e9\n"
    "h2d_bytes_per_second: 50e9\n"
    "d2h_bytes_per_second: 40e9\n"
    "nvme_read_bytes_per_second: 6e9\n"
    "nvme_write_bytes_per_second: 0\n"
    "cores_copy: false\n";

std::string refusal(const std::string& text) {
  try {
    machine_document(text, "machine.yaml");
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "";
}

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

TEST(MachineDocument, HasSizesAndRatesWithUnitsOrAsAnyWholeNumber) {
  const nlohmann::json document = machine_document(kYaml +
                                                       "memory_bytes: 64GiB\ndevice_memory_bytes: 22.5 "
                                                       "GiB\nnvme_bytes: 1e12\ncopy_bytes_per_second: 8GB/s",
                                                   "machine.yaml");
  EXPECT_EQ(document[kMemoryKey], 64 * GiB);
  EXPECT_EQ(document[kDeviceMemoryKey], 45 * GiB / 2);
  EXPECT_TRUE(document[kDrivesKey].is_number_integer());
  EXPECT_EQ(document[kDrivesKey], 1'000'000'000'000);
  EXPECT_EQ(document["copy_bytes_per_second"], 8e9);
}

TEST(MachineDocument, ThatHasAValueThatCannotBeReadIsRefused) {
  for (const char* line : {"memory_bytes: a lot", "memory_bytes: 1.5", "memory_bytes: 1e30",
                           "memory_bytes: 0", "memory_bytes: -1", "memory_bytes: unlimited", "memory_bytes:",
                           "nvme_bytes: [1]", "cores: two", "cores: 0", "node_ranks: 1.5", "measured: 1",
                           "kernels: {}", "copy_bytes_per_second: fast", "rank_latency_seconds: -1"}) {
    const std::string key = std::string(line).substr(0, std::string(line).find(':'));
    EXPECT_THAT(refusal(kYaml + line),
                AllOf(HasSubstr("machine.yaml is no machine profile: "), HasSubstr(key)))
        << line;
  }
  EXPECT_THAT(
      refusal(kYaml + "memory_bytes: 64 gigs"),
      HasSubstr("memory_bytes: expected a size such as 64GiB or a whole number of bytes, found \"64 gigs\""));
}

TEST(MachineDocument, ThatHasAnUnknownKeyIsRefusedWithTheNearest) {
  EXPECT_THAT(refusal(kYaml + "device_memroy_bytes: 24GiB"),
              HasSubstr("unknown key 'device_memroy_bytes': did you mean 'device_memory_bytes'?"));
  EXPECT_THAT(refusal(kYaml + "color: red"),
              HasSubstr("unknown key 'color': the keys are flops_per_second, "));
}

TEST(MachineDocument, ThatLacksKeysIsRefusedWithWhatTheyMean) {
  EXPECT_THAT(
      refusal("flops_per_second: 1e12\nmemory_bytes_per_second: 1e10\nh2d_bytes_per_second: 1e10"),
      HasSubstr("it lacks d2h_bytes_per_second (copies back), cores_copy (false for a GPU, true for a "
                "CPU); " +
                shipped_file("docs/reference/machine-file.md") + " explains the keys"));
}

TEST(MachineDocument, NeedsRatesOfDrivesIfItHasDrives) {
  const std::string without = kYaml.substr(0, kYaml.find("nvme_read")) + "cores_copy: false\n";
  EXPECT_EQ(parse_profile(without, "machine.yaml").nvme_read_bytes_per_second, 0);
  EXPECT_THAT(refusal(without + "nvme_bytes: 1TB"),
              HasSubstr("it lacks nvme_read_bytes_per_second (of the drives"));
}

}  // namespace
}  // namespace strata
