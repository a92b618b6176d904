#include "engine/input/text/pre_tokenizer.h"

#include <fmt/format.h>

#include <map>
#include <optional>
#include <string>

#include "engine/input/text/byte_characters.h"
#include "engine/input/text/metaspace.h"
#include "engine/input/text/pattern.h"
#include "engine/input/text/unicode.h"
#include "engine/input/text/utf8.h"

namespace strata::text {
namespace {

/// Cuts each piece into the stretches that `find(text, stretches)` gives.
template <typename Find>
PreTokenize cut_at(Find find, SplitBehavior behavior, bool invert = false) {
  return [find = std::move(find), behavior, invert](Pieces& pieces) {
    std::vector<Stretch> stretches;
    pieces.cut([&](std::string_view text, const auto& keep) {
      find(text, stretches);
      if (invert) {
        for (Stretch& stretch : stretches) stretch.is_match = !stretch.is_match;
      }
      apply(behavior, stretches, keep);
    });
  };
}

PreTokenize cut_at_characters(std::function<bool(char32_t)> is_match, SplitBehavior behavior) {
  return cut_at(
      [is_match = std::move(is_match)](std::string_view text, std::vector<Stretch>& out) {
        find_characters(text, is_match, out);
      },
      behavior);
}

void write_byte_characters(Pieces& pieces) {
  pieces.rewrite([](std::string_view text, bool, std::string& out) { append_byte_characters(text, out); });
}

PreTokenizer read_byte_level_pre_tokenizer(const JsonField& field) {
  field.allow_only({"type", "add_prefix_space", "trim_offsets", "use_regex"});
  PreTokenizer made{.steps = {}, .ends_in_byte_characters = true};
  if (field.at("add_prefix_space").flag()) {
    made.steps.push_back([](Pieces& pieces) {
      pieces.rewrite([](std::string_view text, bool, std::string& out) {
        if (!text.starts_with(' ')) out += ' ';
        out.append(text);
      });
    });
  }
  if (field.flag("use_regex", true)) {
    // GPT-2's: github.com/openai/gpt-2, src/encoder.py.
    Regex regex(R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)");
    made.steps.push_back([regex = std::move(regex)](Pieces& pieces) {
      pieces.cut([&](std::string_view text, const auto& keep) {
        std::size_t end = 0;
        regex.for_each_match(text, [&](std::size_t match_begin, std::size_t match_end) {
          keep(end, match_begin);
          keep(match_begin, match_end);
          end = match_end;
        });
        keep(end, text.size());
      });
    });
  }
  return made;
}

PreTokenizer read_split_pre_tokenizer(const JsonField& field) {
  field.allow_only({"type", "pattern", "behavior", "invert"});
  return {{cut_at([pattern = Pattern(field.at("pattern"))](
                      std::string_view text, std::vector<Stretch>& out) { pattern.find(text, out); },
                  read_behavior(field.at("behavior")), field.at("invert").flag())}};
}

PreTokenizer read_digits_pre_tokenizer(const JsonField& field) {
  field.allow_only({"type", "individual_digits"});
  const bool individual = field.at("individual_digits").flag();
  return {{cut_at_characters(is_numeric, individual ? SplitBehavior::isolated : SplitBehavior::contiguous)}};
}

PreTokenizer read_punctuation_pre_tokenizer(const JsonField& field) {
  field.allow_only({"type", "behavior"});
  const auto behavior = field.find("behavior");
  return {{cut_at_characters(is_punctuation, behavior ? read_behavior(*behavior) : SplitBehavior::isolated)}};
}

/// Words of \w+ and of [^\w\s]+.
void find_words(std::string_view text, std::vector<Stretch>& stretches) {
  enum class Kind { space, word, other };
  stretches.clear();
  std::optional<Kind> last;
  for_each_character(text, [&](char32_t c, std::size_t begin, std::size_t end) {
    const Kind kind = is_word(c) ? Kind::word : is_whitespace(c) ? Kind::space : Kind::other;
    if (kind == last) {
      stretches.back().end = end;
    } else {
      stretches.push_back({begin, end, kind == Kind::space});
    }
    last = kind;
  });
}

PreTokenizer read_whitespace_pre_tokenizer(const JsonField& field) {
  field.allow_only({"type"});
  return {{cut_at(find_words, SplitBehavior::removed)}};
}

PreTokenizer read_whitespace_split_pre_tokenizer(const JsonField& field) {
  field.allow_only({"type"});
  return {{cut_at_characters(is_whitespace, SplitBehavior::removed)}};
}

PreTokenizer read_bert_pre_tokenizer(const JsonField& field) {
  field.allow_only({"type"});
  return {{cut_at_characters(is_whitespace, SplitBehavior::removed),
           cut_at_characters(is_punctuation, SplitBehavior::isolated)}};
}

PreTokenizer read_delimiter_pre_tokenizer(const JsonField& field) {
  field.allow_only({"type", "delimiter"});
  return {{cut_at_characters(
      [delimiter = field.at("delimiter").character()](char32_t c) { return c == delimiter; },
      SplitBehavior::removed)}};
}

PreTokenizer read_metaspace_pre_tokenizer(const JsonField& field) {
  const Metaspace metaspace(field);
  PreTokenizer made;
  made.steps.push_back([metaspace](Pieces& pieces) {
    pieces.rewrite([&](std::string_view text, bool is_first, std::string& out) {
      metaspace.append_marked(text, is_first, out);
    });
  });
  if (metaspace.split()) {
    made.steps.push_back(cut_at_characters([mark = metaspace.mark()](char32_t c) { return c == mark; },
                                           SplitBehavior::merged_with_next));
  }
  return made;
}

PreTokenizer read_sequence_pre_tokenizer(const JsonField& field) {
  field.allow_only({"type", "pretokenizers"});
  PreTokenizer made;
  for (const JsonField& element : field.at("pretokenizers").elements()) {
    PreTokenizer next = read_pre_tokenizer(element);
    if (made.ends_in_byte_characters) made.steps.push_back(write_byte_characters);
    for (PreTokenize& step : next.steps) made.steps.push_back(std::move(step));
    made.ends_in_byte_characters = next.ends_in_byte_characters;
  }
  return made;
}

using PreTokenizerReader = PreTokenizer (*)(const JsonField&);
const std::map<std::string, PreTokenizerReader>& pre_tokenizer_readers() {
  static const std::map<std::string, PreTokenizerReader> known{
      {"Sequence", read_sequence_pre_tokenizer},
      {"ByteLevel", read_byte_level_pre_tokenizer},
      {"Split", read_split_pre_tokenizer},
      {"Digits", read_digits_pre_tokenizer},
      {"Punctuation", read_punctuation_pre_tokenizer},
      {"Whitespace", read_whitespace_pre_tokenizer},
      {"WhitespaceSplit", read_whitespace_split_pre_tokenizer},
      {"BertPreTokenizer", read_bert_pre_tokenizer},
      {"CharDelimiterSplit", read_delimiter_pre_tokenizer},
      {"Metaspace", read_metaspace_pre_tokenizer},
  };
  return known;
}

}  // namespace

PreTokenizer read_pre_tokenizer(const JsonField& field) {
  const std::string type = field.at("type").text();
  const auto reader = pre_tokenizer_readers().find(type);
  if (reader == pre_tokenizer_readers().end())
    field.refuse(fmt::format("pre-tokenizer '{}' is not supported", type));
  return reader->second(field);
}

}  // namespace strata::text
