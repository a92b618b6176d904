// strata chat: a conversation with a model, by its chat template.
#include <fmt/format.h>

#include <iostream>
#include <optional>
#include <utility>

#include "base/error.h"
#include "base/watchdog.h"
#include "engine/input/data/tokenize.h"
#include "engine/run/generate/generator.h"
#include "engine/run/generate/prompts.h"
#include "engine/tools/cli/chat_input.h"
#include "engine/tools/cli/commands.h"
#include "engine/tools/cli/model_command.h"
#include "engine/tools/cli/overwriting.h"
#include "engine/tools/cli/say.h"
#include "engine/tools/cli/setup.h"

namespace strata {
namespace {

constexpr std::string_view kReset = "/reset", kExit = "/exit", kHelp = "/help";

GenerationOptions options_of(const ChatCommand& command, const OpenedModel& opened, const PromptText& text,
                             const std::string& tokenizer) {
  constexpr SamplingOptions kOtherwise = {.temperature = 0.7};
  const std::filesystem::path model = opened.source.is_checkpoint ? "" : opened.source.folder;
  const SamplingOptions own =
      sampling_of(model.empty() ? tokenizer_file_of(tokenizer).parent_path() : model, kOtherwise);
  return {.precision = opened.precision.storage,
          .max_tokens = command.max_tokens,
          .stops = ends_of_texts(text, tokenizer, model),
          .sampling = {.temperature = command.temperature.value_or(own.temperature),
                       .top_p = command.top_p.value_or(own.top_p),
                       .top_k = command.top_k.value_or(own.top_k),
                       .seed = command.seed},
          .budget = opened.budget};
}

/// What was said so far, and the model that answers. Each answer reads the conversation anew.
class Conversation {
 public:
  Conversation(OpenedModel& opened, const PromptText& text, chat::ChatTemplate chat_template,
               GenerationOptions options, const std::string& system)
      : opened_(opened), text_(text), template_(std::move(chat_template)), options_(std::move(options)) {
    if (!system.empty()) begin_.push_back({{"role", "system"}, {"content", system}});
    reset();
  }

  void reset() { messages_ = begin_; }
  const nlohmann::ordered_json& messages() const { return messages_; }

  /// Reads the weights, and finds out whether the template takes what the conversation begins with.
  void prepare() { make_generator(with_message("Hello")); }

  /// `show` gets the answer as it comes. If this throws, the message was never said.
  StopReason answer(const std::string& message, const std::function<void(const std::string&)>& show) {
    nlohmann::ordered_json messages = with_message(message);
    Generator generator = make_generator(messages);
    TextStream stream(text_);
    std::string answer;
    const auto say = [&](const std::string& part) {
      answer += part;
      show(part);
    };
    const std::vector<Continuation> continuations = generator.run([&](std::size_t, std::int32_t token) {
      if (!options_.stops.contains(token)) say(stream.add(token));
    });
    say(stream.end());
    messages.push_back({{"role", "assistant"}, {"content", answer}});
    messages_ = std::move(messages);
    return continuations.front().reason;
  }

 private:
  nlohmann::ordered_json with_message(const std::string& message) const {
    nlohmann::ordered_json messages = messages_;
    messages.push_back({{"role", "user"}, {"content", message}});
    return messages;
  }

  Generator make_generator(const nlohmann::ordered_json& messages) {
    TokenIds ids = encode_messages(template_, messages, text_);
    const std::int64_t longest = opened_.source.model->architecture.max_positions;
    if (std::ssize(ids) >= longest)
      throw ConfigError(
          fmt::format("with this message the conversation has {} tokens, and the model's longest "
                      "sequence has {}: shorten the message, or begin anew with {}",
                      ids.size(), longest, kReset));
    Generator generator(*opened_.device, *opened_.source.model, opened_.source.read, {std::move(ids)},
                        options_, std::exchange(parameters_, nullptr));
    parameters_ = generator.shared_parameters();
    return generator;
  }

  OpenedModel& opened_;
  const PromptText& text_;
  chat::ChatTemplate template_;
  GenerationOptions options_;
  nlohmann::ordered_json begin_ = nlohmann::ordered_json::array(), messages_;
  std::shared_ptr<UnitParameters> parameters_;  ///< read once for all answers
};

/// Why the answer ends where it does, if that is not its own end; else empty.
std::string remark_on(StopReason reason, std::int64_t max_tokens) {
  switch (reason) {
    case StopReason::max_tokens:
      return fmt::format("the answer is cut at {} tokens: raise --max-tokens", max_tokens);
    case StopReason::longest_sequence:
      return fmt::format(
          "the answer is cut: the conversation is as long as the model's longest sequence; begin "
          "anew with {}",
          kReset);
    case StopReason::stop_token:
    case StopReason::interrupted:
      break;
  }
  return "";
}

std::string help() {
  return fmt::format("Ctrl-C stops an answer, {} begins anew, {} or Ctrl-D ends", kReset, kExit);
}

void converse(const ChatCommand& command, Conversation& conversation, ChatInput& input) {
  const bool is_quiet = command.json == "-";
  const auto show = [&](const std::string& text) {
    if (!is_quiet) std::cout << text << std::flush;
  };
  while (const std::optional<std::string> message = input.next()) {
    if (*message == kExit) return;
    if (*message == kReset) conversation.reset();
    if (*message == kHelp) tell(help() + "\n");
    if (*message == kReset || *message == kHelp || message->find_first_not_of(" \t\n") == std::string::npos)
      continue;
    try {
      const StopReason reason = conversation.answer(*message, show);
      show("\n");
      if (const std::string remark = remark_on(reason, command.max_tokens); !remark.empty())
        tell(remark + "\n");
    } catch (const ConfigError& error) {
      if (!input.is_terminal()) throw;
      tell(std::string(error.what()) + "\n");
    }
  }
}

}  // namespace

int run_chat(const ChatCommand& command) {
  const Watchdog watchdog(Watchdog::kDefaultSeconds, leave);
  OpenedModel opened = open_model(command);
  refuse_overwriting(
      {{{"--json", command.json}}, {}, [&] { return inputs_of(command, opened.source.folder); }});
  check_json_path("--json", command.json);
  const std::string tokenizer = tokenizer_of(command, opened.source);
  const PromptText text = PromptText::read(tokenizer);
  chat::ChatTemplate chat_template = read_chat_template(text, tokenizer, "strata chat");
  GenerationOptions options = options_of(command, opened, text, tokenizer);
  std::optional<ChatInput> input;
  options.is_stopped = [&input] { return input->is_terminal() && input->is_interrupted(); };
  Conversation conversation(opened, text, std::move(chat_template), std::move(options), command.system);
  conversation.prepare();
  input.emplace();
  if (input->is_terminal())
    std::cerr << fmt::format("{}, {}: {}\n", opened.source.name, name_of(opened.precision), help());
  converse(command, conversation, *input);
  input.reset();
  write_json(command.json, {{"model", opened.source.name},
                            {"precision", name_of(opened.precision)},
                            {"messages", conversation.messages()}});
  return 0;
}

}  // namespace strata
