#include "engine/input/text/pattern.h"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

#include "engine/input/text/bounds.h"
#include "engine/input/text/utf8.h"

namespace strata::text {
namespace {

Regex read_regex(const JsonField& field) {
  try {
    return Regex(field.text());
  } catch (const std::invalid_argument& error) {
    field.refuse(fmt::format("this is no regular expression of Oniguruma's: {}", error.what()));
  }
}

/// Joins a match with the stretch before it, unless that is a match, too.
void merge_matches(std::vector<Stretch>& stretches) {
  std::size_t kept = 0;
  bool was_match = false;
  for (const Stretch stretch : stretches) {  // a copy: what is kept takes its place
    if (stretch.is_match && !was_match && kept > 0) {
      Stretch& last = stretches[kept - 1];
      last = {std::min(last.begin, stretch.begin), std::max(last.end, stretch.end), false};
    } else {
      stretches[kept++] = {stretch.begin, stretch.end, false};
    }
    was_match = stretch.is_match;
  }
  stretches.resize(kept);
}

void join_equals(std::vector<Stretch>& stretches) {
  std::size_t kept = 0;
  for (const Stretch& stretch : stretches) {
    if (kept > 0 && stretches[kept - 1].is_match == stretch.is_match) {
      stretches[kept - 1].end = stretch.end;
    } else {
      stretches[kept++] = stretch;
    }
  }
  stretches.resize(kept);
}

}  // namespace

Pattern::Pattern(const JsonField& field) {
  field.allow_only({"String", "Regex"});
  if (const auto regex = field.find("Regex")) {
    regex_ = read_regex(*regex);
    return;
  }
  literal_ = field.at("String").text();
  if (literal_.empty()) regex_ = Regex("");  // matches between all characters, as in the original
}

void Pattern::for_each_match(std::string_view text,
                             const std::function<void(std::size_t, std::size_t)>& use) const {
  if (regex_) return regex_->for_each_match(text, use);
  for (std::size_t i = text.find(literal_); i != std::string_view::npos;
       i = text.find(literal_, i + literal_.size())) {
    use(i, i + literal_.size());
  }
}

void Pattern::find(std::string_view text, std::vector<Stretch>& stretches) const {
  stretches.clear();
  std::size_t end = 0;
  for_each_match(text, [&](std::size_t match_begin, std::size_t match_end) {
    if (end != match_begin) stretches.push_back({end, match_begin, false});
    stretches.push_back({match_begin, match_end, true});
    end = match_end;
  });
  if (end != text.size()) stretches.push_back({end, text.size(), false});
}

void Pattern::append_replaced(std::string_view text, std::string_view content, std::string& out,
                              std::size_t most_bytes) const {
  std::size_t end = 0;
  for_each_match(text, [&](std::size_t match_begin, std::size_t match_end) {
    out.append(text.substr(end, match_begin - end));
    check_growth(out.size() + content.size(), most_bytes);
    out.append(content);
    end = match_end;
  });
  out.append(text.substr(end));
}

SplitBehavior read_behavior(const JsonField& field) {
  const std::string name = field.text();
  if (name == "Removed") return SplitBehavior::removed;
  if (name == "Isolated") return SplitBehavior::isolated;
  if (name == "MergedWithPrevious") return SplitBehavior::merged_with_previous;
  if (name == "MergedWithNext") return SplitBehavior::merged_with_next;
  if (name == "Contiguous") return SplitBehavior::contiguous;
  field.refuse(
      fmt::format("behavior '{}' is not supported; known are Removed, Isolated, MergedWithPrevious, "
                  "MergedWithNext and Contiguous",
                  name));
}

void find_characters(std::string_view text, const std::function<bool(char32_t)>& is_match,
                     std::vector<Stretch>& stretches) {
  stretches.clear();
  std::size_t end = 0;
  for_each_character(text, [&](char32_t c, std::size_t character_begin, std::size_t character_end) {
    if (!is_match(c)) return;
    if (end < character_begin) stretches.push_back({end, character_begin, false});
    stretches.push_back({character_begin, character_end, true});
    end = character_end;
  });
  if (end < text.size()) stretches.push_back({end, text.size(), false});
}

void apply(SplitBehavior behavior, std::vector<Stretch>& stretches,
           const std::function<void(std::size_t, std::size_t)>& keep) {
  if (behavior == SplitBehavior::merged_with_previous) merge_matches(stretches);
  if (behavior == SplitBehavior::contiguous) join_equals(stretches);
  if (behavior == SplitBehavior::merged_with_next) {
    std::ranges::reverse(stretches);
    merge_matches(stretches);
    std::ranges::reverse(stretches);
  }
  for (const Stretch& stretch : stretches) {
    if (behavior != SplitBehavior::removed || !stretch.is_match) keep(stretch.begin, stretch.end);
  }
}

}  // namespace strata::text
