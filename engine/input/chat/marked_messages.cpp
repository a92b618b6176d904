#include "engine/input/chat/marked_messages.h"

#include <charconv>

namespace strata::chat {
namespace {

using nlohmann::ordered_json;

// Characters for private use, which no template looks for: neither letters nor spaces.
constexpr std::string_view kBegin = "\uE000", kEnd = "\uE001";

/// The tag of thoughts, such as <think>, </think> or [THINK], that the text begins with; else nothing.
std::string_view tag_of(std::string_view text) {
  constexpr std::size_t kLongest = 40;
  if (text.empty() || (text[0] != '<' && text[0] != '[')) return {};
  const std::string_view tag = text.substr(0, text.find_first_of("<>[] \t\r\n", 1) + 1);
  const bool is_closed = tag.ends_with(text[0] == '<' ? '>' : ']') && tag.size() < kLongest;
  const bool is_of_thoughts =
      tag.find("think") != std::string_view::npos || tag.find("THINK") != std::string_view::npos;
  return is_closed && is_of_thoughts ? tag : std::string_view();
}

bool is_only_spaces(std::string_view text) {
  return text.find_first_not_of(" \t\r\n") == std::string_view::npos;
}

std::string marked_between_tags(std::string_view text, const std::string& mark) {
  std::string marked;
  while (!text.empty()) {
    if (const std::string_view tag = tag_of(text); !tag.empty()) {
      marked += tag;
      text.remove_prefix(tag.size());
      continue;
    }
    std::size_t end = 1;
    while (end < text.size() && tag_of(text.substr(end)).empty()) ++end;
    marked += is_only_spaces(text.substr(0, end)) ? text.substr(0, end) : std::string_view(mark);
    text.remove_prefix(end);
  }
  return marked;
}

class Marker {
 public:
  Marker(MarkedMessages::Style style, std::string mark) : style_(style), mark_(std::move(mark)) {}

  void mark(ordered_json& message) const {
    for (const char* key : {"content", "reasoning_content", "thinking", "reasoning"}) mark_text(message, key);
    ordered_json& content = message["content"];
    if (content.is_array()) {
      for (ordered_json& part : content)
        if (part.is_object()) mark_text(part, "text");
    } else if (message.value("role", ordered_json()) == "assistant" && !has_mark(content)) {
      content = mark_;
    }
  }

 private:
  void mark_text(ordered_json& object, const char* key) const {
    const auto found = object.find(key);
    if (found == object.end() || !found->is_string()) return;
    const auto& text = found->get_ref<const std::string&>();
    if (is_only_spaces(text)) return;  // templates ask whether there is a text
    *found = style_ == MarkedMessages::Style::whole ? mark_ : marked_between_tags(text, mark_);
  }

  bool has_mark(const ordered_json& text) const {
    return text.is_string() && text.get_ref<const std::string&>().find(mark_) != std::string::npos;
  }

  MarkedMessages::Style style_;
  std::string mark_;
};

}  // namespace

MarkedMessages::MarkedMessages(const ordered_json& messages, std::string_view text, Style style)
    : begin_(kBegin), messages_(messages) {
  while (text.find(begin_) != std::string_view::npos) begin_ += kBegin;
  for (std::size_t i = 0; i < messages_.size(); ++i)
    Marker(style, begin_ + std::to_string(i).append(kEnd)).mark(messages_[i]);
}

std::vector<MarkedMessages::Mark> MarkedMessages::marks_in(std::string_view text) const {
  std::vector<Mark> marks;
  for (std::size_t at = text.find(begin_); at != std::string_view::npos; at = text.find(begin_, at + 1)) {
    std::size_t number = 0;
    const char* end = text.data() + text.size();
    if (std::from_chars(text.data() + at + begin_.size(), end, number).ec == std::errc())
      marks.push_back({at, number});
  }
  return marks;
}

}  // namespace strata::chat
