// Which settings of the data a checkpoint keeps, and what is said if a run resumes with others.
#include "engine/run/execute/data_settings.h"
#include "engine/config/run_config.h"

#include <gmock/gmock.h>

namespace strata {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Not;

RunConfig some_config() {
  RunConfig config;
  config.data.path = {"corpus.txt"};
  config.data.sequence_length = 24;
  return config;
}

TEST(DataSettings, ThatDifferAreNamedWithBothValues) {
  const RunConfig config = some_config();
  EXPECT_THAT(differences(data_settings(config), data_settings(config)), IsEmpty());
  RunConfig other = config;
  other.data.sequence_length = 64;
  other.data.tokenizer_path = "model";
  other.data.packing = DataPacking::documents;
  EXPECT_THAT(
      differences(data_settings(config), data_settings(other)),
      ElementsAre("data.packing is not that of the checkpoint: it was none, and is documents now; the "
                  "run continues with other samples",
                  "data.sequence_length is not that of the checkpoint: it was 24, and is 64 now; the "
                  "run continues with other samples",
                  "data.tokenizer_path is not that of the checkpoint: it was not given, and is \"model\" "
                  "now; the run continues with other samples"));
}

TEST(DataSettings, AreThoseThatDecideTheSamples) {
  const DataSettings settings = data_settings(some_config());
  for (const char* key : {"data.path", "data.sources", "data.tokenizer", "train.batch", "train.seed"})
    EXPECT_TRUE(settings.contains(key)) << key;
  for (const char* key : {"data.cache", "train.steps", "optimizer.lr"})
    EXPECT_FALSE(settings.contains(key)) << key;
}

TEST(DataSettings, OfAnotherVersionAreNoDifference) {
  const DataSettings now = data_settings(some_config());
  EXPECT_THAT(differences({}, now), IsEmpty());
  EXPECT_THAT(differences({{"data.of_tomorrow", "1"}}, now), IsEmpty());
}

TEST(DataSettings, StayShortAndHarmless) {
  RunConfig config = some_config();
  const DataSettings before = data_settings(config);
  config.data.path.assign(1000, "a-file-among-many.txt");
  const DataSettings many = data_settings(config);
  EXPECT_LT(many.at("data.path").size(), 100U);
  config.data.path.back() = "another.txt";
  EXPECT_EQ(differences(many, data_settings(config)).size(), 1U);
  const std::vector<std::string> said = differences({{"data.path", "\x1b[2J\xff"}}, before);
  EXPECT_THAT(said, Not(IsEmpty()));
  EXPECT_EQ(said.front().find('\x1b'), std::string::npos);
}

}  // namespace
}  // namespace strata
