#include "engine/input/text/normalizer.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <vector>

#include "engine/input/text/bounds.h"
#include "engine/input/text/byte_characters.h"
#include "engine/input/text/charsmap.h"
#include "engine/input/text/pattern.h"
#include "engine/input/text/unicode.h"
#include "engine/input/text/utf8.h"

namespace strata::text {
namespace {

/// A normalizer that writes a text anew, character by character.
Normalize by_character(std::function<void(char32_t, std::string&)> append) {
  return [append = std::move(append)](NormalizedText& normalized) {
    std::string text;
    text.reserve(normalized.text.size());
    bool is_beginning = true;
    for_each_character(normalized.text, [&](char32_t c, std::size_t, std::size_t) {
      append(c, text);
      if (is_beginning && text.empty()) normalized.is_first = false;  // the first character is removed
      is_beginning = false;
    });
    normalized.text.swap(text);
  };
}

Normalize in_form(NormalForm form) {
  return [form](NormalizedText& normalized) { normalize_text(normalized.text, form); };
}

Normalize without(bool (*is_removed)(char32_t)) {
  return by_character([is_removed](char32_t c, std::string& out) {
    if (!is_removed(c)) append_character(out, c);
  });
}

Normalize read_only_type(const JsonField& field, Normalize normalize) {
  field.allow_only({"type"});
  return normalize;
}

Normalize in_order(std::vector<Normalize> steps) {
  return [steps = std::move(steps)](NormalizedText& normalized) {
    for (const Normalize& step : steps) {
      step(normalized);
      check_growth(normalized.text.size(), normalized.most_bytes);
    }
  };
}

Normalize read_sequence_normalizer(const JsonField& field) {
  field.allow_only({"type", "normalizers"});
  std::vector<Normalize> steps;
  for (const JsonField& step : field.at("normalizers").elements()) steps.push_back(read_normalizer(step));
  return in_order(std::move(steps));
}

Normalize read_strip_normalizer(const JsonField& field) {
  field.allow_only({"type", "strip_left", "strip_right"});
  return [left = field.at("strip_left").flag(),
          right = field.at("strip_right").flag()](NormalizedText& normalized) {
    const std::string& text = normalized.text;
    std::size_t begin = 0, end = text.size();
    while (left && begin < end && is_whitespace(code_point_at(text, begin)))
      begin += character_bytes(text[begin]);
    for (std::size_t last; right && begin < end; end = last) {
      last = character_before(text, end);
      if (!is_whitespace(code_point_at(text, last))) break;
    }
    if (begin > 0) normalized.is_first = false;
    normalized.text = text.substr(begin, end - begin);
  };
}

Normalize read_replace_normalizer(const JsonField& field) {
  field.allow_only({"type", "pattern", "content"});
  return [pattern = Pattern(field.at("pattern")),
          content = field.at("content").text()](NormalizedText& normalized) {
    std::string text;
    text.reserve(normalized.text.size());
    pattern.append_replaced(normalized.text, content, text, normalized.most_bytes);
    normalized.text.swap(text);
  };
}

Normalize read_prepend_normalizer(const JsonField& field) {
  field.allow_only({"type", "prepend"});
  return [prepend = field.at("prepend").text()](NormalizedText& normalized) {
    if (!normalized.text.empty()) normalized.text.insert(0, prepend);
  };
}

Normalize to_byte_characters() {
  return [](NormalizedText& normalized) {
    std::string text;
    append_byte_characters(normalized.text, text);
    normalized.text.swap(text);
  };
}

Normalize read_precompiled_normalizer(const JsonField& field) {
  field.allow_only({"type", "precompiled_charsmap"});
  return [charsmap = Charsmap(field.at("precompiled_charsmap"))](NormalizedText& normalized) {
    std::string text;
    text.reserve(normalized.text.size());
    charsmap.append_normalized(normalized.text, text, normalized.most_bytes);
    normalized.text.swap(text);
  };
}

/// Code points that sentencepiece's rule nmt removes, and those that it takes for a space.
bool nmt_removes(char32_t c) {
  return (c >= 1 && c <= 8) || c == 0xb || (c >= 0xe && c <= 0x1f) || c == 0x7f || c == 0x8f || c == 0x9f;
}
bool nmt_takes_for_space(char32_t c) {
  return c == 9 || c == 0xa || c == 0xc || c == 0xd || c == 0x1680 || (c >= 0x200b && c <= 0x200f) ||
         c == 0x2028 || c == 0x2029 || c == 0x2581 || c == 0xfeff || c == 0xfffd;
}

Normalize nmt() {
  return by_character([](char32_t c, std::string& out) {
    if (!nmt_removes(c)) append_character(out, nmt_takes_for_space(c) ? U' ' : c);
  });
}

/// The blocks of CJK unified and compatibility ideographs that BERT puts spaces around.
bool is_ideograph(char32_t c) {
  return (c >= 0x4e00 && c <= 0x9fff) || (c >= 0x3400 && c <= 0x4dbf) || (c >= 0x20000 && c <= 0x2a6df) ||
         (c >= 0x2a700 && c <= 0x2b73f) || (c >= 0x2b740 && c <= 0x2b81f) || (c >= 0x2b920 && c <= 0x2ceaf) ||
         (c >= 0xf900 && c <= 0xfaff) || (c >= 0x2f800 && c <= 0x2fa1f);
}

Normalize clean_text() {
  return by_character([](char32_t c, std::string& out) {
    const bool is_space = c == '\t' || c == '\n' || c == '\r' || is_whitespace(c);
    const bool is_kept = c == '\t' || c == '\n' || c == '\r' || (c != 0 && c != 0xfffd && !is_control(c));
    if (is_kept) append_character(out, is_space ? U' ' : c);
  });
}

Normalize read_bert_normalizer(const JsonField& field) {
  field.allow_only({"type", "clean_text", "handle_chinese_chars", "strip_accents", "lowercase"});
  const bool lowercase = field.at("lowercase").flag();
  std::vector<Normalize> steps;
  if (field.at("clean_text").flag()) steps.push_back(clean_text());
  if (field.at("handle_chinese_chars").flag()) {
    steps.push_back(by_character([](char32_t c, std::string& out) {
      if (is_ideograph(c)) out += ' ';
      append_character(out, c);
      if (is_ideograph(c)) out += ' ';
    }));
  }
  if (field.flag("strip_accents", lowercase)) {
    steps.push_back(in_form(NormalForm::nfd));
    steps.push_back(without(is_nonspacing_mark));
  }
  if (lowercase)
    steps.push_back(by_character([](char32_t c, std::string& out) { append_lower_case(out, c); }));
  return in_order(std::move(steps));
}

using NormalizerReader = Normalize (*)(const JsonField&);
const std::map<std::string, NormalizerReader>& normalizer_readers() {
  static const std::map<std::string, NormalizerReader> known{
      {"Sequence", read_sequence_normalizer},
      {"NFC", [](const JsonField& field) { return read_only_type(field, in_form(NormalForm::nfc)); }},
      {"NFD", [](const JsonField& field) { return read_only_type(field, in_form(NormalForm::nfd)); }},
      {"NFKC", [](const JsonField& field) { return read_only_type(field, in_form(NormalForm::nfkc)); }},
      {"NFKD", [](const JsonField& field) { return read_only_type(field, in_form(NormalForm::nfkd)); }},
      {"Lowercase",
       [](const JsonField& field) {
         return read_only_type(field,
                               by_character([](char32_t c, std::string& out) { append_lower_case(out, c); }));
       }},
      {"Strip", read_strip_normalizer},
      {"StripAccents",
       [](const JsonField& field) { return read_only_type(field, without(is_combining_mark)); }},
      {"Replace", read_replace_normalizer},
      {"Prepend", read_prepend_normalizer},
      {"ByteLevel", [](const JsonField& field) { return read_only_type(field, to_byte_characters()); }},
      {"Precompiled", read_precompiled_normalizer},
      {"BertNormalizer", read_bert_normalizer},
      {"Nmt", [](const JsonField& field) { return read_only_type(field, nmt()); }},
  };
  return known;
}

}  // namespace

Normalize read_normalizer(const JsonField& field) {
  const std::string type = field.at("type").text();
  const auto reader = normalizer_readers().find(type);
  if (reader == normalizer_readers().end())
    field.refuse(fmt::format("normalizer '{}' is not supported", type));
  return reader->second(field);
}

}  // namespace strata::text
