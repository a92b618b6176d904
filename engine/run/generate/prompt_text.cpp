#include "engine/run/generate/prompt_text.h"

#include <fmt/format.h>

#include <limits>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/file.h"
#include "base/json_text.h"
#include "engine/config/choices.h"
#include "engine/input/data/tokenize.h"
#include "engine/input/text/utf8.h"

namespace strata {
namespace {

/// Stands for a character whose bytes are not all there yet.
constexpr std::string_view kReplacement = "\xEF\xBF\xBD";

constexpr std::int32_t kByteEnd = 0;  ///< stands behind a text of bytes
constexpr std::int32_t kLastByte = 255;

}  // namespace

PromptText PromptText::read(const std::string& given) {
  PromptText text;
  if (given != "bytes") text.tokenizer_ = text::Tokenizer::read(tokenizer_file_of(given));
  return text;
}

std::vector<std::int32_t> PromptText::encode(std::string_view text) const {
  std::vector<std::int32_t> ids;
  if (tokenizer_) {
    tokenizer_->encode(text, ids, text::AddSpecial::no);
  } else {
    for (const char byte : text) ids.push_back(static_cast<unsigned char>(byte));
  }
  return ids;
}

std::string PromptText::decode(std::span<const std::int32_t> ids) const {
  if (tokenizer_) return tokenizer_->decode(ids, /*skip_special=*/true);
  std::string bytes, valid;
  for (const std::int32_t id : ids)
    if (id != kByteEnd && id <= kLastByte) bytes.push_back(static_cast<char>(id));
  return std::string(text::make_valid(bytes, valid));
}

std::int64_t PromptText::text_bytes(std::int32_t id) const {
  if (!tokenizer_) return id == kByteEnd || id > kLastByte ? 0 : 1;
  return tokenizer_->is_added(id) ? 0 : std::ssize(tokenizer_->spelling(id));
}

std::string TextStream::add(std::int32_t token) {
  ids_.push_back(token);
  return rest(/*whole_only=*/true);
}

std::string TextStream::end() {
  return rest(/*whole_only=*/false);
}

std::string TextStream::rest(bool whole_only) {
  std::string text = text_->decode(ids_);
  while (whole_only && text.ends_with(kReplacement)) text.resize(text.size() - kReplacement.size());
  if (text.size() <= said_) return {};
  std::string unsaid = text.substr(said_);
  said_ = text.size();
  return unsaid;
}

std::set<std::int32_t> stop_tokens(const std::filesystem::path& folder) {
  for (const char* name : {"generation_config.json", "config.json"}) {
    const std::filesystem::path file = folder / name;
    if (!is_there(file)) continue;
    const nlohmann::json config = read_json_object(file);
    const auto found = config.find("eos_token_id");
    if (found == config.end() || found->is_null()) continue;
    std::set<std::int32_t> stops;
    for (const nlohmann::json& id : found->is_array() ? *found : nlohmann::json::array({*found})) {
      if (!id.is_number_integer() || id < 0 || id > std::numeric_limits<std::int32_t>::max())
        throw ConfigError(fmt::format("{}: eos_token_id is {}; expected a token's id or a list of them",
                                      file.string(), json_text(*found)));
      stops.insert(id.get<std::int32_t>());
    }
    return stops;
  }
  return {};
}

SamplingOptions sampling_of(const std::filesystem::path& folder, SamplingOptions otherwise) {
  const std::filesystem::path file = folder / "generation_config.json";
  if (!is_there(file)) return otherwise;
  const nlohmann::json config = read_json_object(file);
  const auto number = [&](const char* key, double most, double unsaid) {
    const auto found = config.find(key);
    if (found == config.end() || found->is_null()) return unsaid;
    if (!found->is_number() || !(found->get<double>() >= 0 && found->get<double>() <= most))
      throw ConfigError(fmt::format("{}: {} is {}; expected a number from 0 to {}", file.string(), key,
                                    json_text(*found), most));
    return found->get<double>();
  };
  SamplingOptions options = otherwise;
  options.temperature = number("temperature", 1000, otherwise.temperature);
  options.top_p = number("top_p", 1, otherwise.top_p);
  options.top_k = static_cast<std::int64_t>(number("top_k", 1 << 30, static_cast<double>(otherwise.top_k)));
  if (config.value("do_sample", nlohmann::json()) == false) options.temperature = 0;
  return options;
}

}  // namespace strata
