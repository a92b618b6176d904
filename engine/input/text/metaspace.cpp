#include "engine/input/text/metaspace.h"

#include <fmt/format.h>

#include "engine/input/text/utf8.h"

namespace strata::text {

Metaspace::Metaspace(const JsonField& field)
    : mark_(field.at("replacement").character()), split_(field.flag("split", true)) {
  field.allow_only({"type", "replacement", "prepend_scheme", "split", "add_prefix_space", "str_rep"});
  append_character(mark_text_, mark_);
  if (const auto scheme = field.find("prepend_scheme")) {
    const std::string name = scheme->text();
    if (name != "always" && name != "first" && name != "never") {
      scheme->refuse(fmt::format("'{}' is not supported; known are always, first and never", name));
    }
    prepend_ = name == "always" ? Prepend::always : name == "first" ? Prepend::first : Prepend::never;
  }
  // What files had before there was prepend_scheme.
  if (field.flag("add_prefix_space", true)) return;
  if (field.find("prepend_scheme") && prepend_ != Prepend::never) {
    field.at("add_prefix_space").refuse("false contradicts prepend_scheme, which is not 'never'");
  }
  prepend_ = Prepend::never;
}

void Metaspace::append_marked(std::string_view text, bool is_first, std::string& out) const {
  const bool begins_with_mark = text.starts_with(' ') || text.starts_with(mark_text_);
  const bool prepends = prepend_ == Prepend::always || (prepend_ == Prepend::first && is_first);
  if (prepends && !begins_with_mark) out.append(mark_text_);
  for (std::size_t end = 0; !text.empty(); text.remove_prefix(end)) {
    end = text.find(' ');
    if (end == std::string_view::npos) {
      out.append(text);
      return;
    }
    out.append(text.substr(0, end++)).append(mark_text_);
  }
}

std::string Metaspace::unmarked(std::string_view token, bool is_first) const {
  std::string text;
  for_each_character(token, [&](char32_t c, std::size_t begin, std::size_t end) {
    if (c != mark_) {
      text.append(token.substr(begin, end - begin));
    } else if (!is_first || prepend_ == Prepend::never) {
      text += ' ';
    }
  });
  return text;
}

}  // namespace strata::text
