#include <optional>
#include <utility>

#include "engine/api/errors.h"
#include "engine/api/strata/strata.h"
#include "engine/config/choices.h"
#include "engine/run/assembly/opened_model.h"
#include "engine/run/generate/generator.h"
#include "engine/run/generate/prompts.h"

namespace strata {

struct TextModel::State {
  OpenedModel opened;
  std::string tokenizer;
  PromptText text;
  std::set<std::int32_t> stops;
  std::shared_ptr<UnitParameters> parameters = nullptr;  ///< read by the first text, and kept
};

namespace {

constexpr const char* kNameBase = "open the model's folder with these adapters";
constexpr const char* kNameTokenizer =
    "give a model's folder as its tokenizer, or \"bytes\" if it was trained on bytes";

DeviceKind device_named(const std::string& name) {
  if (name == "cpu") return DeviceKind::cpu;
  if (name == "cuda") return DeviceKind::cuda;
  throw ConfigError("there is no device '" + name + "': the devices are cpu and cuda");
}

}  // namespace

TextModel::TextModel(const std::string& model, const TextModelOptions& options)
    : state_(with_standard_errors([&] {
        OpenedModel opened = open_model({.device = device_named(options.device)}, [&](const ModelUse& use) {
          return options.adapter.empty() ? open_model(model, use, kNameBase)
                                         : open_adapted_model(model, options.adapter, use);
        });
        const std::string tokenizer =
            options.tokenizer.empty() ? tokenizer_of(opened.source, kNameTokenizer) : options.tokenizer;
        PromptText text = PromptText::read(tokenizer);
        std::set<std::int32_t> stops =
            ends_of_texts(text, tokenizer, opened.source.is_checkpoint ? "" : opened.source.folder);
        return std::make_unique<State>(
            State{std::move(opened), tokenizer, std::move(text), std::move(stops)});
      })) {}

TextModel::~TextModel() = default;
TextModel::TextModel(TextModel&&) noexcept = default;
TextModel& TextModel::operator=(TextModel&&) noexcept = default;

std::string TextModel::generate(const std::string& prompt, const GenerateOptions& options) {
  return with_standard_errors([&] {
    const ModelSource& source = state_->opened.source;
    const std::vector<TokenIds> prompts =
        encode_prompts(std::array{prompt}, state_->text, state_->tokenizer, {false, source.begin_token, ""});
    Generator generator(*state_->opened.device, *source.model, source.read, prompts,
                        {.precision = state_->opened.precision.storage,
                         .max_tokens = options.max_tokens,
                         .stops = state_->stops,
                         .sampling = {.temperature = options.temperature,
                                      .top_p = options.top_p,
                                      .top_k = options.top_k,
                                      .seed = options.seed},
                         .budget = state_->opened.budget},
                        std::exchange(state_->parameters, nullptr));
    state_->parameters = generator.shared_parameters();
    TextStream stream(state_->text);
    std::string text;
    generator.run([&](std::size_t, std::int32_t token) {
      if (!state_->stops.contains(token)) text += stream.add(token);
    });
    return text + stream.end();
  });
}

}  // namespace strata
