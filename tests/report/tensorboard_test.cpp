// Event files: their records are what the format says, and a run that goes on tells nothing twice.
#include "engine/tools/report/tensorboard.h"

#include <gmock/gmock.h>

#include <cmath>
#include <cstring>
#include <fstream>
#include <limits>
#include <map>
#include <protozero/pbf_reader.hpp>
#include <random>

#include "base/error.h"
#include "base/folder.h"
#include "engine/tools/report/event_file.h"
#include "tests/base/temporary_folder.h"

namespace strata::test {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;
using ::testing::SizeIs;

/// CRC-32C bit by bit, as RFC 3720 has it.
std::uint32_t crc_of(std::string_view bytes) {
  std::uint32_t crc = 0xFFFFFFFF;
  for (const char byte : bytes) {
    crc ^= static_cast<unsigned char>(byte);
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? 0x82F63B78U : 0U);
  }
  return ~crc;
}

std::uint32_t masked(std::uint32_t crc) {
  return ((crc >> 15) | (crc << 17)) + 0xA282EAD8U;
}

struct Event {
  std::int64_t step = 0;
  double wall_time = 0;
  std::string version;
  bool starts = false;
  std::map<std::string, float> values;
};

Event event_in(std::string_view bytes) {
  Event read;
  protozero::pbf_reader event(bytes.data(), bytes.size());
  while (event.next()) {
    if (event.tag() == 1) {
      read.wall_time = event.get_double();
    } else if (event.tag() == 2) {
      read.step = event.get_int64();
    } else if (event.tag() == 3) {
      read.version = event.get_string();
    } else if (event.tag() == 5) {
      protozero::pbf_reader summary = event.get_message();
      while (summary.next(1)) {
        protozero::pbf_reader value = summary.get_message();
        std::string tag;
        while (value.next()) {
          if (value.tag() == 1) {
            tag = value.get_string();
          } else {
            read.values[tag] = value.get_float();
          }
        }
      }
    } else if (event.tag() == 7) {
      protozero::pbf_reader log = event.get_message();
      while (log.next(1)) read.starts = log.get_enum() == 1;
    } else {
      event.skip();
    }
  }
  return read;
}

std::vector<std::filesystem::path> files_of(const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> files;
  for (const std::string& name : Folder::named(folder).names()) files.push_back(folder / name);
  return files;
}

/// The whole file must be records.
std::vector<Event> events_of(const std::filesystem::path& file) {
  const std::string bytes = read_file(file);
  std::vector<Event> events;
  const auto u32 = [&](std::size_t at) {
    std::uint32_t value = 0;
    std::memcpy(&value, bytes.data() + at, sizeof(value));
    return value;
  };
  for (std::size_t at = 0; at < bytes.size();) {
    std::uint64_t length = 0;
    std::memcpy(&length, bytes.data() + at, sizeof(length));
    EXPECT_EQ(u32(at + 8), masked(crc_of(std::string_view(bytes).substr(at, 8))));
    const std::string_view event = std::string_view(bytes).substr(at + 12, length);
    EXPECT_EQ(u32(at + 12 + length), masked(crc_of(event)));
    events.push_back(event_in(event));
    at += 16 + length;
  }
  return events;
}

StepReport step(std::int64_t number) {
  StepReport report;
  report.step = number;
  report.loss = 2.5;
  report.grad_norm = 0.5;
  report.learning_rate = 1e-3;
  report.seconds = 0.25;
  return report;
}

class TensorBoard : public ::testing::Test {
 protected:
  TensorBoardLog log() {
    return TensorBoardLog(path(), rate_, [this] { return costs_; });
  }
  std::string path() const { return folder_ / "new/curves"; }

  /// What a reader shows of all files: by tag, values by step. A value that is told twice is not expected.
  std::map<std::string, std::map<std::int64_t, float>> curves() const {
    std::map<std::string, std::map<std::int64_t, float>> curves;
    for (const std::filesystem::path& file : files_of(path())) {
      for (const Event& event : events_of(file)) {
        if (event.starts) {
          for (auto& [tag, values] : curves) values.erase(values.lower_bound(event.step), values.end());
        }
        for (const auto& [tag, value] : event.values)
          EXPECT_TRUE(curves[tag].emplace(event.step, value).second) << tag << " at " << event.step;
      }
    }
    return curves;
  }
  std::vector<std::int64_t> steps_of(const std::string& tag) const {
    std::vector<std::int64_t> steps;
    const std::map<std::int64_t, float> values = curves()[tag];
    steps.reserve(values.size());
    for (const auto& [number, value] : values) steps.push_back(number);
    return steps;
  }

  TemporaryFolder folder_;
  ProductRate rate_ = ProductRate(1e9);
  StepCosts costs_ = {.tokens = 1000, .model_flops = 5e7, .peak_bytes = {}, .traffic = {}};
};

TEST_F(TensorBoard, HasTheChecksumOfRfc3720) {
  EXPECT_EQ(crc_of("123456789"), 0xE3069283U);
}

TEST_F(TensorBoard, ShowsNoMoreThanTheWholeMachine) {
  std::mt19937 random(5);
  TensorBoardLog curves = log();
  for (std::int64_t number = 0; number < 100; ++number) {
    StepReport report = step(number);
    report.seconds = std::uniform_real_distribution<double>(0.001, 0.2)(random);
    curves.on_step(report);
  }
  const auto utilisation = TensorBoard::curves()["train/mfu"];
  EXPECT_FALSE(utilisation.empty());
  for (const auto& [number, value] : utilisation) {
    EXPECT_GT(value, 0) << number;
    EXPECT_LE(value, 1) << number;
  }
}

TEST_F(TensorBoard, HasTheStepsFiguresAndThePlans) {
  costs_.peak_bytes[Tier::device] = 4096;
  costs_.traffic[Link::h2d] = 512;
  TensorBoardLog curves = log();
  curves.on_validation({.step = 0, .loss = 3.5});
  StepReport report = step(0);
  report.loss_scale = 8;
  curves.on_step(report);
  const std::vector<std::filesystem::path> files = files_of(path());
  ASSERT_THAT(files, SizeIs(1));
  EXPECT_THAT(files[0].filename().string(),
              ::testing::MatchesRegex("events\\.out\\.tfevents\\.[0-9]{10}\\..+"));
  const std::vector<Event> events = events_of(files[0]);
  ASSERT_THAT(events, SizeIs(4));
  EXPECT_EQ(events[0].version, "brain.Event:2");
  EXPECT_TRUE(events[1].starts);
  EXPECT_EQ(events[1].step, 0);
  EXPECT_THAT(events[2].values, ElementsAre(Pair("train/validation_loss", 3.5F)));
  EXPECT_EQ(events[2].step, 0);
  EXPECT_EQ(events[3].step, 1);
  EXPECT_GT(events[3].wall_time, 1.7e9);
  EXPECT_THAT(
      events[3].values,
      ElementsAre(Pair("memory/device_peak_bytes", 4096), Pair("traffic/h2d_bytes", 512),
                  Pair("train/grad_norm", 0.5F), Pair("train/learning_rate", 1e-3F), Pair("train/loss", 2.5F),
                  Pair("train/loss_scale", 8), Pair("train/mfu", 0.2F), Pair("train/seconds", 0.25F),
                  Pair("train/skipped", 0), Pair("train/tokens_per_second", 4000)));
}

/// What a sample says is no Markdown, and valid UTF-8.
TEST_F(TensorBoard, ShowsSamplesAsTheyAre) {
  {
    TensorBoardLog curves = log();
    curves.on_samples({.step = 0, .seconds = 1, .samples = {{"caf\xC3", "\r# a\nb", {1}}}});
  }
  EXPECT_THAT(read_file(files_of(path())[0]), HasSubstr("    caf\xEF\xBF\xBD\n    # a\n    b"));
}

TEST_F(TensorBoard, ShowsALossThatIsNoNumber) {
  TensorBoardLog curves = log();
  StepReport report = step(0);
  report.loss = std::numeric_limits<double>::quiet_NaN();
  report.skipped = true;
  curves.on_step(report);
  const Event event = events_of(files_of(path())[0]).back();
  EXPECT_TRUE(std::isnan(event.values.at("train/loss")));
  EXPECT_EQ(event.values.at("train/skipped"), 1);
}

/// Killed behind step 6, it goes on from the checkpoint of step 4, which was validated before.
TEST_F(TensorBoard, ContinuesCurvesOfARunThatWasKilled) {
  {
    TensorBoardLog curves = log();
    curves.on_validation({.step = 0, .loss = 3});
    for (int s = 0; s < 4; ++s) curves.on_step(step(s));
    curves.on_validation({.step = 4, .loss = 2});
    for (int s = 4; s < 6; ++s) curves.on_step(step(s));
  }
  for (int time = 0; time < 2; ++time) {  // and once more, in the same second
    TensorBoardLog curves = log();
    curves.on_validation({.step = 4, .loss = 2});
    curves.on_step(step(4));
  }
  EXPECT_THAT(files_of(path()), SizeIs(3));
  EXPECT_THAT(steps_of("train/loss"), ElementsAre(1, 2, 3, 4, 5));
  EXPECT_THAT(steps_of("train/validation_loss"), ElementsAre(0, 4));
}

TEST_F(TensorBoard, ValidatesWhereTheProcessBeforeHadNot) {
  {
    TensorBoardLog curves = log();
    for (int s = 0; s < 4; ++s) curves.on_step(step(s));
  }
  {
    TensorBoardLog curves = log();
    curves.on_validation({.step = 4, .loss = 2});
    curves.on_step(step(4));
    curves.on_step(step(5));
    curves.on_validation({.step = 6, .loss = 1});
  }
  {  // that of step 6 is dropped by a process that goes on from step 5, and told again by it, not by the next
    TensorBoardLog curves = log();
    curves.on_step(step(5));
    curves.on_validation({.step = 6, .loss = 1});
  }
  {
    TensorBoardLog curves = log();
    curves.on_validation({.step = 6, .loss = 1});
  }
  EXPECT_THAT(steps_of("train/validation_loss"), ElementsAre(4, 6));
}

TEST_F(TensorBoard, BeginsAnewWithARunThatDoes) {
  {
    TensorBoardLog curves = log();
    curves.on_validation({.step = 0, .loss = 3});
    for (int s = 0; s < 4; ++s) curves.on_step(step(s));
  }
  TensorBoardLog curves = log();
  curves.on_validation({.step = 0, .loss = 2});
  curves.on_step(step(0));
  EXPECT_THAT(this->curves()["train/validation_loss"], ElementsAre(Pair(0, 2)));
  EXPECT_THAT(steps_of("train/loss"), ElementsAre(1));
}

TEST_F(TensorBoard, ReadsOlderFilesAsFarAsTheyAreWhole) {
  {
    TensorBoardLog curves = log();
    curves.on_validation({.step = 4, .loss = 2});
  }
  const std::filesystem::path file = files_of(path())[0];
  const std::string whole = read_file(file);
  EXPECT_TRUE(has_value(FileReader(file), "train/validation_loss", 4, false));
  EXPECT_FALSE(has_value(FileReader(file), "train/validation_loss", 5, false));
  EXPECT_FALSE(has_value(FileReader(file), "train/loss", 4, false));
  for (std::size_t size = 0; size < whole.size(); ++size) {
    std::ofstream(file, std::ios::binary) << whole.substr(0, size);
    EXPECT_FALSE(has_value(FileReader(file), "train/validation_loss", 4, false)) << size;
  }
  for (std::size_t at = 0; at < whole.size(); ++at) {
    std::string damaged = whole;
    damaged[at] = static_cast<char>(damaged[at] ^ 0x10);
    std::ofstream(file, std::ios::binary) << damaged;
    EXPECT_FALSE(has_value(FileReader(file), "train/validation_loss", 4, false)) << at;
  }
}

TEST_F(TensorBoard, FollowsALinkThatTheUserNames) {
  std::filesystem::create_directory(folder_ / "there");
  std::filesystem::create_directory_symlink("there", folder_ / "link");
  const TensorBoardLog log(folder_ / "link", rate_, [] { return StepCosts(); });
  EXPECT_THAT(files_of(folder_ / "there"), SizeIs(1));
}

TEST_F(TensorBoard, IsRefusedWhereNothingCanBeWritten) {
  std::ofstream(folder_ / "file") << "text";
  const std::string folder = folder_ / "file/curves";
  try {
    const TensorBoardLog log(folder, rate_, [] { return StepCosts(); });
    FAIL() << "accepted";
  } catch (const ConfigError& error) {
    EXPECT_THAT(error.what(), AllOf(HasSubstr("report.tensorboard"), HasSubstr("file/curves")));
  }
}

}  // namespace
}  // namespace strata::test
