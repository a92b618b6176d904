#include "engine/run/assembly/prepared_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "base/json_text.h"
#include "base/nth.h"
#include "collectives/agreement.h"
#include "engine/config/choices.h"
#include "engine/config/run_config.h"
#include "engine/config/run_length.h"
#include "engine/input/data/byte_tokens.h"
#include "engine/input/data/token_cache.h"
#include "engine/run/assembly/load_model.h"
#include "engine/run/generate/model_source.h"
#include "engine/run/tune/request_of_run.h"

namespace strata {
namespace {

/// transformers takes such a pair of files, too, and fails at the first text with such an id.
void warn_of_ids_beyond(const std::filesystem::path& tokenizer, std::int64_t end, std::int64_t vocabulary,
                        const RunNotes& notes) {
  if (end <= vocabulary) return;
  notes.on_warning(
      fmt::format("{} has ids up to {}, and the model's vocabulary ends at {}: is it another model's, or "
                  "one from before or after its vocabulary changed? Texts with the ids beyond are refused",
                  tokenizer.string(), end - 1, vocabulary - 1));
}

/// The first rank makes the ids if they are not there, and all ranks read them. `is_first`: this call for a
/// run says what is true of all its texts.
CachedTokens ids_of_texts(const RunConfig& config, const std::vector<std::string>& texts,
                          std::int64_t vocabulary, const RunRank& rank, bool is_first,
                          const RunNotes& notes) {
  DataSection data = config.data;
  if (data.tokenizer_path.empty()) data.tokenizer_path = config.model.path;
  const std::string made = text_of_first_rank(rank.world, [&] {
    const RunNotes::Follower follow = notes.follow_texts();
    const CachedTokens ids = cached_tokens(
        data, texts, host_threads(config),
        {.on_ids =
             [is_first, vocabulary, &notes](const std::filesystem::path& tokenizer, std::int64_t end) {
               if (is_first) warn_of_ids_beyond(tokenizer, end, vocabulary, notes);
             },
         .on_borders =
             [is_first, &notes](const std::string& borders) {
               if (is_first) notes.on_texts(borders);
             },
         .on_progress = follow,
         .on_warning = notes.on_warning});
    return ids.file + '\n' + json_text(ids.read);
  });
  const std::size_t end = made.rfind('\n');  // a path may be of any bytes, the JSON behind it has no such
  return {made.substr(0, end),
          nlohmann::json::parse(std::string_view(made).substr(end + 1)).get<DocumentsRead>()};
}

/// Opens the data, and counts it.
void open_data(PreparedModel& prepared, std::int64_t vocabulary, const RunRank& rank, const RunNotes& notes) {
  const RunConfig& config = prepared.config;
  DataFiles files = find_data_files(config);
  std::int64_t count = 0;
  DocumentsRead read;
  for (std::vector<std::string>& source : files.sources) {
    count += std::ssize(source);
    if (config.data.tokenizer != Tokenizer::automatic) continue;
    CachedTokens ids =
        ids_of_texts(config, source, vocabulary, rank, /*is_first=*/&source == &files.sources.front(), notes);
    read.add(ids.read);
    source = {std::move(ids.file)};
  }
  if (config.data.tokenizer == Tokenizer::automatic && !files.validation.empty())
    files.validation = {
        ids_of_texts(config, files.validation, vocabulary, rank, /*is_first=*/false, notes).file};
  prepared.data = std::make_unique<BatchLoader>(config, vocabulary, files);
  prepared.facts = prepared.data->facts();
  prepared.facts.files = count;
  if (config.data.tokenizer == Tokenizer::bytes)
    nth(read.documents, DocumentKind::text) = prepared.facts.documents.value_or(0);
  prepared.facts.read.add(read);
  set_steps_of_epochs(prepared.config, prepared.facts.sequences_per_epoch);
  prepared.facts.steps = config.train.steps;
  prepared.facts.epochs = static_cast<double>(config.train.steps) * static_cast<double>(config.train.batch) /
                          static_cast<double>(prepared.facts.sequences_per_epoch);
}

/// Terms that count every token alike are refused if the data have tokens that are not trained on.
void require_means_over_targets(const RunConfig& config, const Architecture& architecture) {
  const char* const what =
      config.is_within_documents()
          ? "data.packing: documents' first tokens are nobody's targets, which does not go"
          : "data.path: some tokens are not trained on, such as prompts, which does not go";
  if (config.parallel.schedule == PipelineSchedule::pipedream)
    throw ConfigError(fmt::format(
        "{} with parallel.schedule pipedream: its updates are of single microbatches, and the loss is a mean "
        "over those of a step; choose another schedule",
        what));
  if (architecture.balance_coefficient != 0)
    throw ConfigError(fmt::format(
        "{} with the auxiliary loss of routing yet: set output_router_logits of the model's config to false",
        what));
}

}  // namespace

PreparedModel prepare_model(const RunConfig& agreed, const RunRank& rank, const RunNotes& notes) {
  PreparedModel prepared{.config = agreed,
                         .model = {},
                         .data = {},
                         .prompts = {},
                         .companions = {},
                         .facts = {},
                         .warnings = {}};
  RunConfig& config = prepared.config;
  if (config.ranks() != rank.size()) {
    const ParallelSection& parallel = config.parallel;
    std::string stages;
    if (parallel.context > 1) stages += fmt::format(" of {} context ranks", parallel.context);
    if (parallel.pipeline > 1) stages += fmt::format(" of {} pipeline stages", parallel.pipeline);
    if (parallel.tensor > 1) stages += fmt::format(" of {} tensor ranks", parallel.tensor);
    throw ConfigError(fmt::format(
        "parallel.data: the run file asks for {} data rank{}{}, and {} {} started; start it with "
        "mpirun -n {}{}",
        parallel.data, parallel.data == 1 && !stages.empty() ? "" : "s", stages, rank.size(),
        rank.size() == 1 ? "was" : "were", config.ranks(),
        rank.size() % config.ranks_of_data_rank() == 0 ? ", or leave parallel.data and parallel.shard out"
                                                       : ""));
  }
  prepared.model = load_model_of_rank(config, rank.rank());
  if (rank.is_first()) std::ranges::for_each(model_warnings(config), notes.on_warning);
  const std::int64_t vocabulary = prepared.model.architecture.vocabulary;
  prepared.prompts = read_sample_prompts(config, samples_of(config).longest, vocabulary);
  const std::string doubt = doubt_about_bytes(config, vocabulary);
  open_data(prepared, vocabulary, rank, notes);
  if (!prepared.data->are_all_trained()) require_means_over_targets(config, prepared.model.architecture);
  prepared.warnings = prepared.data->warnings();
  std::ranges::move(prepared.facts.warnings(), std::back_inserter(prepared.warnings));
  for (const std::string& text : {doubt, cut_warmup_text(config)})
    if (!text.empty()) prepared.warnings.push_back(text);
  // The plan must not ask for more held-out microbatches than there are.
  if (config.train.validate_every > 0)
    config.train.validation_batches = prepared.data->validation_microbatches();
  return prepared;
}

TrainingData data_of(const PreparedModel& model) {
  // The auxiliary loss of routing is a mean over all tokens of a microbatch.
  const bool counts_all = model.model.architecture.balance_coefficient != 0;
  TrainingData data = training_data(*model.data, model.model.context,
                                    {.once = counts_all ? HeldOutOnce::no : HeldOutOnce::yes,
                                     .short_length = model.model.form.short_length});
  data.prompts = model.prompts;
  if (const BeginToken begin = model.config.data.begin_token; begin != BeginToken::automatic)
    data.sampler = [state = std::move(data.sampler), begin](std::int64_t step) {
      nlohmann::json json = state(step);
      json[kBeginTokenOfSampler] = word_of(begin);
      return json;
    };
  return data;
}

}  // namespace strata
