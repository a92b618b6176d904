#include "engine/input/text/decoder.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>

#include "engine/input/text/bounds.h"
#include "engine/input/text/byte_characters.h"
#include "engine/input/text/metaspace.h"
#include "engine/input/text/pattern.h"
#include "engine/input/text/utf8.h"

namespace strata::text {
namespace {

constexpr std::string_view kReplacement = "\xef\xbf\xbd";

void replace_all(std::string& text, std::string_view from, std::string_view to) {
  if (from.empty()) return;
  std::string replaced;
  std::size_t copied = 0;
  for (std::size_t i = text.find(from); i != std::string::npos; i = text.find(from, copied)) {
    replaced.append(text, copied, i - copied).append(to);
    copied = i + from.size();
  }
  if (copied > 0) text = replaced.append(text, copied);
}

/// A decoder that looks at each token by itself.
Decode by_token(std::function<void(std::string&)> change) {
  return [change = std::move(change)](std::vector<std::string>& tokens) {
    for (std::string& token : tokens) change(token);
  };
}

Decode read_sequence_decoder(const JsonField& field) {
  field.allow_only({"type", "decoders"});
  std::vector<Decode> steps;
  for (const JsonField& step : field.at("decoders").elements()) steps.push_back(read_decoder(step));
  return [steps = std::move(steps)](std::vector<std::string>& tokens) {
    for (const Decode& step : steps) step(tokens);
  };
}

void join(std::vector<std::string>& tokens) {
  std::string text;
  for (const std::string& token : tokens) text += token;
  tokens.clear();
  tokens.push_back(std::move(text));
}

/// The bytes that a token's characters stand for; nothing if one stands for none.
std::optional<std::string> bytes_of(std::string_view token) {
  std::string bytes;
  bool stands_for_bytes = true;
  for_each_character(token, [&](char32_t c, std::size_t, std::size_t) {
    const auto byte = byte_of_character(c);
    if (byte) bytes.push_back(*byte);
    stands_for_bytes &= byte.has_value();
  });
  if (!stands_for_bytes) return std::nullopt;
  return bytes;
}

Decode read_byte_level_decoder(const JsonField& field) {
  // A decoder has the settings of the pre-tokenizer of this name, but they mean nothing to it.
  field.allow_only({"type", "add_prefix_space", "trim_offsets", "use_regex"});
  return [](std::vector<std::string>& tokens) {
    for (std::string& token : tokens) {
      if (auto bytes = bytes_of(token)) token = std::move(*bytes);
    }
    join(tokens);
    std::string buffer;
    tokens[0] = std::string(make_valid(tokens[0], buffer));
  };
}

Decode read_metaspace_decoder(const JsonField& field) {
  return [metaspace = Metaspace(field)](std::vector<std::string>& tokens) {
    for (std::size_t i = 0; i < tokens.size(); ++i) tokens[i] = metaspace.unmarked(tokens[i], i == 0);
  };
}

void join_fallback_bytes(std::vector<std::string>& tokens) {
  std::vector<std::string> joined;
  std::string bytes, buffer;
  const auto write_bytes = [&] {
    if (make_valid(bytes, buffer).data() == bytes.data()) {
      if (!bytes.empty()) joined.push_back(bytes);
    } else {
      joined.insert(joined.end(), bytes.size(), std::string(kReplacement));
    }
    bytes.clear();
  };
  for (std::string& token : tokens) {
    if (const auto byte = byte_of_token(token)) {
      bytes.push_back(*byte);
      continue;
    }
    write_bytes();
    joined.push_back(std::move(token));
  }
  write_bytes();
  tokens = std::move(joined);
}

Decode read_byte_fallback_decoder(const JsonField& field) {
  field.allow_only({"type"});
  return join_fallback_bytes;
}

Decode read_fuse_decoder(const JsonField& field) {
  field.allow_only({"type"});
  return join;
}

Decode read_strip_decoder(const JsonField& field) {
  field.allow_only({"type", "content", "start", "stop"});
  std::string content;
  append_character(content, field.at("content").character());
  return by_token(
      [content, start = field.at("start").id(), stop = field.at("stop").id()](std::string& token) {
        std::size_t begin = 0, end = token.size();
        for (int i = 0; i < start && token.compare(begin, content.size(), content) == 0; ++i)
          begin += content.size();
        const auto ends_so = [&] {
          return std::string_view(token).substr(begin, end - begin).ends_with(content);
        };
        for (int i = 0; i < stop && ends_so(); ++i) end -= content.size();
        token = token.substr(begin, end - begin);
      });
}

Decode read_replace_decoder(const JsonField& field) {
  field.allow_only({"type", "pattern", "content"});
  return by_token(
      [pattern = Pattern(field.at("pattern")), content = field.at("content").text()](std::string& token) {
        std::string replaced;
        pattern.append_replaced(token, content, replaced, most_bytes_from(token.size()));
        token = std::move(replaced);
      });
}

/// Takes back the spaces that splitting English at punctuation gave (clean_up_tokenization of transformers).
void clean_up(std::string& text) {
  constexpr std::pair<std::string_view, std::string_view> kRules[] = {
      {" .", "."},   {" ?", "?"},           {" !", "!"},   {" ,", ","},     {" ' ", "'"},   {" n't", "n't"},
      {" 'm", "'m"}, {" do not", " don't"}, {" 's", "'s"}, {" 've", "'ve"}, {" 're", "'re"}};
  for (const auto& [from, to] : kRules) replace_all(text, from, to);
}

Decode read_word_piece_decoder(const JsonField& field) {
  field.allow_only({"type", "prefix", "cleanup"});
  return [prefix = field.at("prefix").text(),
          cleanup = field.at("cleanup").flag()](std::vector<std::string>& tokens) {
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      std::string& token = tokens[i];
      if (i > 0 && token.starts_with(prefix)) {
        token.erase(0, prefix.size());
      } else if (i > 0) {
        token.insert(0, 1, ' ');
      }
      if (cleanup) clean_up(token);
    }
  };
}

Decode read_bpe_decoder(const JsonField& field) {
  field.allow_only({"type", "suffix"});
  return [suffix = field.at("suffix").text()](std::vector<std::string>& tokens) {
    for (std::string& token : tokens) replace_all(token, suffix, &token == &tokens.back() ? "" : " ");
  };
}

Decode read_ctc_decoder(const JsonField& field) {
  field.allow_only({"type", "pad_token", "word_delimiter_token", "cleanup"});
  return [pad = field.at("pad_token").text(), delimiter = field.at("word_delimiter_token").text(),
          cleanup = field.at("cleanup").flag()](std::vector<std::string>& tokens) {
    tokens.erase(std::unique(tokens.begin(), tokens.end()), tokens.end());
    for (std::string& token : tokens) {
      replace_all(token, pad, "");
      if (!cleanup) continue;
      clean_up(token);
      replace_all(token, delimiter, " ");
    }
    std::erase(tokens, "");
  };
}

using DecoderReader = Decode (*)(const JsonField&);
const std::map<std::string, DecoderReader>& decoder_readers() {
  static const std::map<std::string, DecoderReader> known{
      {"Sequence", read_sequence_decoder},   {"ByteLevel", read_byte_level_decoder},
      {"Metaspace", read_metaspace_decoder}, {"ByteFallback", read_byte_fallback_decoder},
      {"Fuse", read_fuse_decoder},           {"Strip", read_strip_decoder},
      {"Replace", read_replace_decoder},     {"WordPiece", read_word_piece_decoder},
      {"BPEDecoder", read_bpe_decoder},      {"CTC", read_ctc_decoder},
  };
  return known;
}

}  // namespace

Decode read_decoder(const JsonField& field) {
  const std::string type = field.at("type").text();
  const auto reader = decoder_readers().find(type);
  if (reader == decoder_readers().end()) field.refuse(fmt::format("decoder '{}' is not supported", type));
  return reader->second(field);
}

}  // namespace strata::text
