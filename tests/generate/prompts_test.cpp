// What a run's samples begin with and end at.
#include "engine/run/generate/prompts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "engine/config/run_config.h"
#include "tests/base/temporary_folder.h"
#include "tests/support/source_folder.h"

namespace strata::test {
namespace {

using ::testing::ElementsAre;

TEST(PromptsOfSamples, EndAtTheTokenizersEndWhereNoConfigNamesOne) {
  const TemporaryFolder folder;
  std::filesystem::copy_file(source_folder() / "tests/text/goldens/gpt2.tokenizer.json",
                             folder / "tokenizer.json");
  RunConfig config;
  config.data.tokenizer = Tokenizer::automatic;
  config.data.tokenizer_path = folder.path().string();
  config.samples.prompts = {"a text"};
  const auto stops = [&] { return read_sample_prompts(config, 64, 100'000).stops; };
  EXPECT_THAT(stops(), ElementsAre());
  std::ofstream(folder / "tokenizer_config.json") << R"({"eos_token": "<|endoftext|>"})";
  const auto tokenizer = text::Tokenizer::read(folder / "tokenizer.json");
  EXPECT_THAT(stops(), ElementsAre(tokenizer.id_of("<|endoftext|>").value()));
  std::ofstream(folder / "generation_config.json") << R"({"eos_token_id": [7, 9]})";
  EXPECT_THAT(stops(), ElementsAre(7, 9));
  config.data.tokenizer = Tokenizer::bytes;
  EXPECT_THAT(stops(), ElementsAre(0));
}

}  // namespace
}  // namespace strata::test
