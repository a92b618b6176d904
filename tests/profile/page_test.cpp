// The page of a profile: its columns are the profile, nothing in it can become markup, and it stays small.
#include "engine/tools/profile/page.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fmt/format.h>

#include <string>

#include "engine/tools/profile/page_data.h"
#include "engine/tools/profile/summary.h"
#include "tests/profile/support.h"

namespace strata {
namespace {

using test::Profiled;
using ::testing::HasSubstr;
using ::testing::Not;

/// A text of the page's table, with the microbatch that was cut off.
std::string text_of(const nlohmann::json& data, const nlohmann::json& columns, const char* name,
                    std::size_t row, const char* form) {
  const std::string text = data["texts"][columns[name][row].get<std::size_t>()];
  const std::int64_t microbatch = columns["microbatch"][row];
  return microbatch < 0 ? text : text + fmt::format(fmt::runtime(form), microbatch);
}

TEST(PageData, IsTheProfileInColumns) {
  const Profiled of;
  const nlohmann::json data = page_data("run.yaml", {of.profile}, {});
  const nlohmann::json& page = data["profiles"][0];
  EXPECT_EQ(page["summary"], summary_of(of.profile));
  const double tick = page["tick_seconds"];
  const nlohmann::json& slices = page["slices"];
  ASSERT_EQ(slices["number"].size(), of.profile.slices.size());
  std::int64_t number = 0, start = 0;
  for (std::size_t s = 0; s < of.profile.slices.size(); ++s) {
    const ProfileSlice& slice = of.profile.slices[s];
    number += slices["number"][s].get<std::int64_t>();
    start += slices["start"][s].get<std::int64_t>();
    EXPECT_EQ(number, slice.instruction);
    EXPECT_NEAR(static_cast<double>(start) * tick, slice.time.start, tick);
    EXPECT_NEAR(static_cast<double>(start + slices["duration"][s].get<std::int64_t>()) * tick, slice.time.end,
                tick);
    EXPECT_EQ(slices["awaited"][s], slice.time.awaited);
    EXPECT_EQ(text_of(data, slices, "title", s, " mb={}"),
              title_of(of.plan.training.program, of.profile.instruction(slice.instruction)));
  }
  const nlohmann::json& lives = page["lives"];
  std::size_t row = 0;
  for (const BufferLife& life : of.profile.lives) {
    const Buffer& buffer = of.plan.training.program.buffer(life.buffer);
    if (buffer.bytes == 0) continue;
    EXPECT_EQ(text_of(data, lives, "name", row, "[mb={}]"), buffer.name);
    EXPECT_EQ(data["sizes"][lives["size"][row].get<std::size_t>()], buffer.bytes);
    EXPECT_EQ(data["tiers"][lives["tier"][row].get<std::size_t>()], name_of(buffer.tier));
    EXPECT_EQ(data["kinds"][lives["kind"][row].get<std::size_t>()], name_of(buffer.kind));
    EXPECT_EQ(lives["maker"][row], life.maker);
    EXPECT_EQ(lives["last_user"][row], life.last_user);
    EXPECT_NEAR(lives["to"][row].get<double>() * tick, life.to, tick);
    ++row;
  }
  EXPECT_EQ(lives["name"].size(), row);
}

/// What looks like a microbatch's name and is none stays as it is.
TEST(PageData, KeepsNamesThatOnlyLookLikeAMicrobatchs) {
  Profiled of;
  Program program = of.plan.training.program;
  const std::vector<std::string> names = {"x[mb=007]", "x[mb=-1]", "x[mb=]",
                                          "[mb=3]",    "x[mb=2] ", "x[mb=99999999999]"};
  for (std::size_t n = 0; n < names.size(); ++n) program.buffers[n].name = names[n];
  StepProfile profile = of.profile;
  profile.program = &program;
  const nlohmann::json data = page_data("run", {profile}, {});
  const nlohmann::json& lives = data["profiles"][0]["lives"];
  std::size_t row = 0;
  for (const BufferLife& life : profile.lives) {
    if (program.buffer(life.buffer).bytes == 0) continue;
    EXPECT_EQ(text_of(data, lives, "name", row++, "[mb={}]"), program.buffer(life.buffer).name);
  }
}

/// A step of hours takes a coarser tick, so numbers stay short.
TEST(PageData, HasTicksForTheStepsLength) {
  Profiled of;
  for (const double seconds : {1e-6, 1.0, 9.0, 4e4}) {
    of.profile.end = seconds;
    const nlohmann::json page = page_data("run", {of.profile}, {})["profiles"][0];
    EXPECT_LE(page["end"].get<double>(), 1e14);
    EXPECT_GE(page["tick_seconds"].get<double>(), 1e-12);
    EXPECT_NEAR(page["end"].get<double>() * page["tick_seconds"].get<double>(), seconds, seconds * 1e-6);
  }
}

TEST(Page, IsOneFileInWhichNoNameIsMarkup) {
  Profiled of;
  Program program = of.plan.training.program;
  const std::string hostile = "</script><!--<img src=x onerror=alert(1)>";
  program.units.front() = hostile;
  for (Buffer& buffer : program.buffers) buffer.name = hostile + *buffer.name;
  StepProfile profile = of.profile;
  profile.program = &program;
  profile.name = hostile;
  const std::string page = make_page(page_data(hostile, {profile}, {}));
  EXPECT_THAT(page, Not(HasSubstr("<img")));
  EXPECT_THAT(page, HasSubstr("\\u003c/script>\\u003c!--\\u003cimg src=x"));
  const std::string opening = R"(<script type="application/json" id="data">)";
  const std::size_t from = page.find(opening) + opening.size();
  const nlohmann::json read = nlohmann::json::parse(page.substr(from, page.find("</script>", from) - from));
  EXPECT_EQ(read["run"], hostile);
  EXPECT_EQ(read["profiles"][0]["name"], hostile);
}

TEST(Page, HoldsAllThatItNeeds) {
  const Profiled of;
  const std::string page = make_page(page_data("run", {of.profile}, {}));
  EXPECT_TRUE(page.starts_with("<!doctype html>"));
  EXPECT_TRUE(page.ends_with("</html>\n"));
  EXPECT_THAT(page, Not(HasSubstr("{{")));
  EXPECT_THAT(page, Not(HasSubstr(" src=")));
  EXPECT_THAT(page, Not(HasSubstr("<link")));
  EXPECT_THAT(page, Not(HasSubstr("@import")));
  EXPECT_THAT(page, HasSubstr("default-src 'none'"));
  EXPECT_THAT(page, HasSubstr("Copyright 2010-2022 Mike Bostock"));
  EXPECT_LT(page.size(), 600'000U);
}

/// In so small a step an instruction takes most, with the lives of its buffers: larger ones repeat their
/// texts.
TEST(Page, TakesFewBytesForAnInstruction) {
  const Profiled of;
  const std::size_t one = make_page(page_data("run", {of.profile}, {})).size();
  const std::size_t two = make_page(page_data("run", {of.profile, of.profile}, {})).size();
  const std::size_t summary = summary_of(of.profile).dump().size();
  EXPECT_LT((two - one - summary) / of.profile.slices.size(), 120U);
}

}  // namespace
}  // namespace strata
