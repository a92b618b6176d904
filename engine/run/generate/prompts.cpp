#include "engine/run/generate/prompts.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <optional>

#include "base/error.h"
#include "engine/config/run_config.h"
#include "engine/input/chat/template_files.h"
#include "engine/input/data/tokenize.h"
#include "engine/run/generate/sampling.h"

namespace strata {
namespace {

void check_prompt(const std::vector<std::int32_t>& ids, std::size_t number, std::int64_t longest,
                  std::int64_t vocabulary) {
  const auto refuse = [&](const std::string& what) {
    throw ConfigError(fmt::format("train.samples.prompts: prompt {} {}", number + 1, what));
  };
  if (ids.empty()) refuse("has no tokens; there is nothing to continue");
  if (std::ssize(ids) >= longest)
    refuse(
        fmt::format("has {} tokens, and a sample ends at {}: raise train.samples.max_length or "
                    "data.sequence_length, or shorten it",
                    ids.size(), longest));
  const std::int32_t largest = *std::ranges::max_element(ids);
  if (largest >= vocabulary)
    refuse(fmt::format("has the token {}, and the model's vocabulary ends at {}: take the model's tokenizer",
                       largest, vocabulary - 1));
}

}  // namespace

std::set<std::int32_t> ends_of_texts(const PromptText& text, const std::string& tokenizer,
                                     const std::filesystem::path& model) {
  if (text.tokenizer() == nullptr) return {0};
  const std::filesystem::path folder = tokenizer_file_of(tokenizer).parent_path();
  std::set<std::int32_t> ends = stop_tokens(model.empty() ? folder : model);
  if (!ends.empty()) return ends;
  const std::optional<std::int32_t> end =
      text.tokenizer()->id_of(chat::find_special_tokens(folder)["eos_token"]);
  return end ? std::set{*end} : ends;
}

std::vector<std::vector<std::int32_t>> encode_prompts(std::span<const std::string> prompts,
                                                      const PromptText& text, const std::string& tokenizer,
                                                      const PromptForm& form) {
  std::vector<std::vector<std::int32_t>> encoded;
  if (!form.is_chat) {
    std::vector<std::int32_t> begin;
    if (text.tokenizer() != nullptr)
      begin = begin_of_texts(*text.tokenizer(), tokenizer_file_of(tokenizer).parent_path(), form.begin);
    for (const std::string& prompt : prompts) {
      std::vector<std::int32_t> ids = text.encode(prompt);
      ids.insert(ids.begin(), begin.begin(), begin.end());
      encoded.push_back(std::move(ids));
    }
    return encoded;
  }
  const chat::ChatTemplate chat_template = read_chat_template(text, tokenizer, form.option);
  for (const std::string& prompt : prompts)
    encoded.push_back(encode_messages(
        chat_template, nlohmann::ordered_json::array({{{"role", "user"}, {"content", prompt}}}), text));
  return encoded;
}

chat::ChatTemplate read_chat_template(const PromptText& text, const std::string& tokenizer,
                                      std::string_view option) {
  if (text.tokenizer() == nullptr)
    throw ConfigError(fmt::format("{} needs a model's tokenizer, and bytes are none", option));
  return chat::ChatTemplate::read(tokenizer_file_of(tokenizer).parent_path());
}

std::vector<std::int32_t> encode_messages(const chat::ChatTemplate& chat_template,
                                          const nlohmann::ordered_json& messages, const PromptText& text) {
  chat::RenderOptions options;
  options.add_generation_prompt = true;
  return text.encode(chat_template.render(messages, options).text);
}

std::string tokenizer_of_run(const RunConfig& config) {
  if (config.data.tokenizer == Tokenizer::bytes) return "bytes";
  return config.data.tokenizer_path.empty() ? config.model.path : config.data.tokenizer_path;
}

SamplePrompts read_sample_prompts(const RunConfig& config, std::int64_t longest, std::int64_t vocabulary) {
  const SamplesSection& section = config.samples;
  if (section.prompts.empty()) return {};
  const std::string tokenizer = tokenizer_of_run(config);
  const auto text = [&] {
    try {
      return std::make_shared<const PromptText>(PromptText::read(tokenizer));
    } catch (const ConfigError& error) {
      throw ConfigError(fmt::format("train.samples.prompts: {}", error.what()));
    }
  }();
  const std::vector<std::vector<std::int32_t>> encoded = encode_prompts(
      section.prompts, *text, tokenizer, {section.chat, config.data.begin_token, "train.samples.chat"});
  SamplePrompts prompts;
  for (std::size_t i = 0; i < encoded.size(); ++i) {
    check_prompt(encoded[i], i, longest, vocabulary);
    prompts.prompts.push_back({section.prompts[i], encoded[i]});
  }
  prompts.stops = ends_of_texts(*text, tokenizer, config.model.path);
  const SamplingOptions options{.temperature = section.temperature,
                                .top_p = section.top_p,
                                .top_k = section.top_k,
                                .seed = config.train.seed};
  prompts.choose = [options](std::span<const float> logits, std::size_t prompt, std::size_t position) {
    return next_token(logits, options, {.prompt = prompt, .position = position});
  };
  prompts.decode = [text](std::span<const std::int32_t> ids) { return text->decode(ids); };
  return prompts;
}

}  // namespace strata
