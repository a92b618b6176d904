// strata evaluate: the mean loss and the perplexity of files under a model.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iostream>

#include "base/error.h"
#include "base/finite.h"
#include "base/nth.h"
#include "base/watchdog.h"
#include "engine/config/choices.h"
#include "engine/input/data/document_encoder.h"
#include "engine/input/data/token_files.h"
#include "engine/input/data/tokenize.h"
#include "engine/run/generate/evaluator.h"
#include "engine/tools/cli/commands.h"
#include "engine/tools/cli/model_command.h"
#include "engine/tools/cli/overwriting.h"
#include "engine/tools/cli/say.h"
#include "engine/tools/cli/setup.h"

namespace strata {
namespace {

constexpr std::int64_t kDefaultSequence = 1024;

/// Whether the patterns name files of token ids; otherwise they name texts. Throws ConfigError for both.
bool are_tokens(const std::vector<std::string>& patterns) {
  const auto ids =
      std::ranges::count_if(patterns, [](const std::string& pattern) { return pattern.ends_with(".bin"); });
  if (ids != 0 && ids != std::ssize(patterns))
    throw ConfigError("--data: some are token ids (.bin) and others texts; evaluate them one by one");
  return ids != 0;
}

/// Each file is a document, as training reads it.
void add_token_files(Evaluator& evaluator, const std::vector<std::string>& files, std::int64_t token_bytes,
                     std::int64_t vocabulary) {
  for (const std::string& file : files) {
    const TokenSource source({open_token_file(file, token_bytes)}, vocabulary);
    auto ids = sized<std::vector<std::int32_t>>(source.tokens());
    source.read(0, ids);
    std::vector<std::int32_t> targets = ids;
    source.leave_out_untrained(0, targets);
    std::vector<std::uint8_t> trained(targets.size());
    std::ranges::transform(targets, trained.begin(),
                           [](std::int32_t target) { return target == kUntrained ? 0 : 1; });
    evaluator.add(ids, trained);
  }
}

/// Leaves out the token that training puts behind a text.
void add_texts(Evaluator& evaluator, const std::vector<std::string>& files, const DocumentOptions& documents,
               const PromptText& text, const std::string& tokenizer, BeginToken begin) {
  DocumentReader reader(files, documents);
  TextDocument document;
  if (text.tokenizer() == nullptr) {
    for (const std::string& file : files) require_text(MappedFile(file), documents.format);
    while (reader.next(document)) evaluator.add(text.encode(document.source), {});
    return;
  }
  const std::filesystem::path folder = tokenizer_file_of(tokenizer).parent_path();
  const auto conversations = chat_template_for(files, folder, documents);
  const DocumentEncoder encoder(*text.tokenizer(),
                                {.begin = begin_of_texts(*text.tokenizer(), folder, begin)},
                                conversations ? &*conversations : nullptr, documents.fields);
  EncodedDocument encoded;
  while (reader.next(document)) {
    encoder.encode(document, encoded);
    evaluator.add(encoded.ids, encoded.trained);
  }
}

}  // namespace

int run_evaluate(const EvaluateCommand& command) {
  const Watchdog watchdog(Watchdog::kDefaultSeconds, leave);
  const bool has_ids = are_tokens(command.data);
  const std::vector<std::string> files =
      find_token_files(command.data, has_ids ? Tokenizer::none : Tokenizer::bytes, "--data");
  OpenedModel opened = open_model(command);
  refuse_overwriting({{{"--json", command.json}}, {}, [&] {
                        CommandInputs inputs = inputs_of(command, opened.source.folder);
                        add_data(inputs, "--data", files);
                        return inputs;
                      }});
  check_json_path("--json", command.json);
  const Architecture& architecture = opened.source.model->architecture;
  EvaluationOptions options{.precision = opened.precision.storage,
                            .sequence = command.sequence > 0
                                            ? command.sequence
                                            : std::min(kDefaultSequence, architecture.max_positions),
                            .batch = command.batch,
                            .budget = opened.budget,
                            .text_bytes = {}};
  std::optional<PromptText> text;
  std::string tokenizer;
  if (!has_ids) {
    tokenizer = tokenizer_of(command, opened.source);
    text = PromptText::read(tokenizer);
    options.text_bytes = [&text](std::int32_t id) { return text->text_bytes(id); };
  }
  Evaluator evaluator(*opened.device, *opened.source.model, opened.source.read, options);
  if (has_ids) {
    add_token_files(evaluator, files, command.token_bytes, architecture.vocabulary);
  } else {
    add_texts(evaluator, files, document_options(command), *text, tokenizer,
              begin_token_of(command, opened.source));
  }
  const EvaluationResult result = evaluator.result();
  if (result.tokens == 0)
    throw ConfigError(
        "--data: nothing can be evaluated: no document has a token that counts behind another token");
  if (!std::isfinite(result.loss_sum)) {
    throw NotFiniteError(
        fmt::format("{}: the loss of these texts is {} in {}: the model's numbers overflow; try "
                    "--precision fp32, or look at its weights",
                    opened.source.name, result.loss_sum, name_of(opened.precision)));
  }
  std::string line = fmt::format("loss {:.5f}, perplexity {:.4f}", result.mean_loss(), result.perplexity());
  if (result.text_bytes > 0) line += fmt::format(", {:.4f} bits per byte", result.bits_per_byte());
  std::ostream& out = command.json == "-" ? std::cerr : std::cout;
  out << fmt::format("{}: {} tokens of {} documents in {} windows of at most {}\n", line, result.tokens,
                     result.documents, result.windows, options.sequence);
  std::cerr << fmt::format(
      "{}, {}: {}\n", opened.source.name, name_of(opened.precision),
      memory_line(evaluator.parameters(), evaluator.device_bytes(), evaluator.scratch_bytes()));
  nlohmann::json report = {
      {"model", opened.source.name},
      {"precision", name_of(opened.precision)},
      {"loss", result.mean_loss()},
      {"perplexity", result.perplexity()},
      {"tokens", result.tokens},
      {"documents", result.documents},
      {"windows", result.windows},
      {"memory", memory_json(evaluator.parameters(), evaluator.device_bytes(), evaluator.scratch_bytes())}};
  if (result.text_bytes > 0) {
    report["text_bytes"] = result.text_bytes;
    report["bits_per_byte"] = result.bits_per_byte();
  }
  write_json(command.json, report);
  return 0;
}

}  // namespace strata
