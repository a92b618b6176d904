#include "engine/tools/cli/show_samples.h"

#include <fmt/format.h>

#include <algorithm>
#include <iostream>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/nth.h"
#include "engine/config/run_config.h"
#include "engine/config/run_models.h"
#include "engine/input/data/token_source.h"
#include "engine/run/assembly/precision.h"
#include "engine/run/generate/prompts.h"
#include "engine/tools/cli/training.h"
#include "engine/tools/report/progress_text.h"

namespace strata {
namespace {

/// A sequence with the target of its last token.
struct ShownSample {
  std::vector<std::int32_t> tokens;
  std::vector<bool> is_trained;  ///< by token
  std::vector<bool> is_first;    ///< of its document, as far as the run tells documents apart
};

/// A token is trained on where it is a target: of the token before it.
ShownSample shown(std::span<const std::int32_t> tokens, std::span<const std::int32_t> targets,
                  std::span<const std::int32_t> places) {
  ShownSample sample{{tokens.begin(), tokens.end()}, {false}, {true}};
  for (std::size_t i = 1; i < tokens.size(); ++i) {
    sample.is_trained.push_back(targets[i - 1] != kUntrained);
    sample.is_first.push_back(!places.empty() && places[i] == 0);
  }
  if (targets.back() == kUntrained) return sample;
  sample.tokens.push_back(targets.back());
  sample.is_trained.push_back(true);
  sample.is_first.push_back(false);
  return sample;
}

/// The text of tokens as parts of one sequence, special tokens included; ids if the run has no tokenizer.
class Reader {
 public:
  explicit Reader(const RunConfig& config) {
    if (const std::string tokenizer = tokenizer_of_run(config); !tokenizer.empty())
      text_ = PromptText::read(tokenizer);
  }

  /// The first token of a text may be decoded in another way than the same token within it.
  std::string text(std::span<const std::int32_t> tokens, std::size_t begin, std::size_t end) const {
    const auto part = tokens.subspan(begin, end - begin);
    if (!text_) return fmt::format("{}", fmt::join(part, " "));
    const std::string before = decoded(tokens.first(begin)), all = decoded(tokens.first(end));
    return quoted(all.starts_with(before) ? all.substr(before.size()) : decoded(part));
  }

 private:
  std::string decoded(std::span<const std::int32_t> ids) const {
    const text::Tokenizer* tokenizer = text_->tokenizer();
    return tokenizer == nullptr ? text_->decode(ids) : tokenizer->decode(ids, /*skip_special=*/false);
  }

  std::optional<PromptText> text_;
};

void print(const ShownSample& sample, const Reader& reader) {
  for (std::size_t begin = 0, end = 0; begin < sample.tokens.size(); begin = end) {
    end = begin + 1;
    while (end < sample.tokens.size() && !sample.is_first[end] &&
           sample.is_trained[end] == sample.is_trained[begin])
      ++end;
    if (sample.is_first[begin] && begin > 0) std::cout << "  next document\n";
    std::cout << fmt::format("  {} {:>5}  {}\n", sample.is_trained[begin] ? '+' : '-', end - begin,
                             reader.text(sample.tokens, begin, end));
  }
}

}  // namespace

int show_samples(const RunFileCommand& command, std::int64_t count) {
  RunModels run = load_run_models(command.run_file, command.overrides);
  RunConfig config = run.models.front().config;
  config.parallel = {};  // all of the batch, on whatever ranks the run is
  agree_on_precision(config, /*fresh=*/true, "", nullptr);
  const PreparedModel model = prepare_model(config, RunRank(), notes_on_terminal());
  if (run.is_several)
    std::cout << fmt::format("model    {}, the first of the run's\n", run.models.front().name);
  std::cout << fmt::format("data     {}\n", model.facts.describe());
  for (const std::string& warning : model.warnings) std::cerr << "warning: " << warning << '\n';
  const Reader reader(config);
  const BatchLoader& data = *model.data;
  const std::int64_t length = config.data.sequence_length, rows = data.microbatch();
  auto tokens = sized<std::vector<std::int32_t>>(rows * length), targets = tokens;
  auto places = sized<std::vector<std::int32_t>>(data.is_by_documents() ? rows * length : 0);
  const std::int64_t microbatches = config.microbatches();
  for (std::int64_t number = 0; number < count; ++number) {
    const std::int64_t microbatch = number / rows;
    const std::int64_t row = number % rows;
    if (row == 0)
      data.fill(microbatch / microbatches, microbatch % microbatches, tokens, targets, {}, places);
    const auto part_of = [&](const std::vector<std::int32_t>& all) {
      return slice(all, all.empty() ? 0 : row * length, all.empty() ? 0 : length);
    };
    const ShownSample sample = shown(part_of(tokens), part_of(targets), part_of(places));
    std::cout << fmt::format("sample {}: {} tokens, {} trained on (+), {} not (-)\n", number + 1,
                             sample.tokens.size(), std::ranges::count(sample.is_trained, true),
                             std::ranges::count(sample.is_trained, false));
    print(sample, reader);
  }
  return 0;
}

}  // namespace strata
