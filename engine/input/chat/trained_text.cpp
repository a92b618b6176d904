#include "engine/input/chat/trained_text.h"

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/error.h"

namespace strata::chat {
namespace {

/// A conversation with marks in place of the texts that its messages say, which show where a template writes
/// what.
class MarkedMessages {
 public:
  /// What a mark stands for: a whole text, or what is between its tags of thoughts, such as <think>, by which
  /// templates cut texts.
  enum class Style : std::uint8_t { whole, between_tags };

  /// Marks stand for contents, texts in lists of parts, and thoughts, unless they are only spaces; but every
  /// content of the assistant has one. No mark occurs in `text`, which is the conversation's. REQUIRES:
  /// messages is a list of maps.
  MarkedMessages(const nlohmann::ordered_json& messages, std::string_view text, Style style);

  const nlohmann::ordered_json& messages() const { return messages_; }

  struct Mark {
    std::size_t begin, message;
  };
  /// The marks in what a template has made of messages(), in order.
  std::vector<Mark> marks_in(std::string_view text) const;

 private:
  std::string begin_;  ///< of each mark; the message's number and kEnd follow
  nlohmann::ordered_json messages_;
};

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

using nlohmann::ordered_json;

ordered_json first_messages(const ordered_json& messages, std::size_t count) {
  ordered_json first = ordered_json::array();
  for (std::size_t i = 0; i < count; ++i) first.push_back(messages[i]);
  return first;
}

ordered_json role_of(const ordered_json& message) {
  return message.is_object() ? message.value("role", ordered_json()) : ordered_json();
}

bool is_of_assistant(const ordered_json& message) {
  return role_of(message) == "assistant";
}

/// Where each message stands in a text: nothing if no pass of a loop is for it, or passes apart from one
/// another.
std::vector<std::optional<Span>> places_of(const Rendering& rendering, std::size_t messages) {
  std::vector<std::optional<Span>> places(messages);
  std::vector<bool> is_scattered(messages);
  for (const auto& [message, span] : rendering.written) {
    // A pass within another one comes before that one.
    const bool is_around = !places[message] || span.begin <= places[message]->begin;
    if (is_around) places[message] = span;
    is_scattered[message] = !is_around;
  }
  for (std::size_t i = 0; i < messages; ++i)
    if (is_scattered[i]) places[i].reset();
  return places;
}

std::string_view part_of(std::string_view text, const Span& span) {
  return text.substr(span.begin, span.end - span.begin);
}

/// Finds what the assistant says by the passes of the template's loops over the messages: a message's text is
/// what its pass writes. Renders the conversation a few times, however many messages it has.
class PassesOfMessages {
 public:
  PassesOfMessages(const ChatTemplate& chat_template, const ordered_json& messages, const Rendering& whole,
                   const RenderOptions& options)
      : template_(chat_template),
        messages_(messages),
        options_(options),
        text_(whole.text),
        places_(places_of(whole, messages.size())) {
    find_prompts();
    find_tails();
  }

  /// Finds the span of each message of the assistant; nothing where passes do not tell it.
  std::vector<std::optional<Span>> spans() const {
    std::vector<std::optional<Span>> spans(messages_.size());
    for (const auto style : {MarkedMessages::Style::whole, MarkedMessages::Style::between_tags}) {
      const std::vector<std::optional<Head>> heads = heads_by(style);
      bool are_all_found = true;
      for (std::size_t i = 0; i < messages_.size(); ++i) {
        if (!is_of_assistant(messages_[i]) || spans[i]) continue;
        if (places_[i] && heads[i]) spans[i] = span_of(i, *heads[i]);
        are_all_found = are_all_found && spans[i].has_value();
      }
      if (are_all_found) break;
    }
    return spans;
  }

 private:
  /// What a template writes behind the conversation's last message, and what belongs to that message. It is
  /// more than the message's pass if the next message's pass would begin with it. It is less if passes end
  /// with spaces before the next message.
  struct Tail {
    std::string more, spaces;
  };

  /// What a pass writes before the message's own text.
  struct Head {
    std::string text;
    bool is_known = false;  ///< the message has a text of its own
  };

  std::optional<Span> span_of(std::size_t index, const Head& head) const {
    const Span& place = *places_[index];
    const std::string* prompt = prompt_for(index);
    const std::optional<std::size_t> prompted = prompted_size(part_of(text_, place), head, prompt);
    if (!prompted) return std::nullopt;
    const std::size_t begin = place.begin + *prompted;
    return Span{begin, std::max(begin, end_of(index, prompt))};
  }

  /// A pass must have nothing of other messages, nor something of this one be elsewhere.
  std::vector<std::optional<Head>> heads_by(MarkedMessages::Style style) const {
    const MarkedMessages marked(messages_, text_, style);
    std::vector<std::optional<Head>> heads(messages_.size());
    Rendering rendering;
    try {
      rendering = template_.render(marked.messages(), options_);
    } catch (const ConfigError&) {
      return heads;  // It asks for certain texts.
    }
    const auto places = places_of(rendering, messages_.size());
    for (std::size_t i = 0; i < messages_.size(); ++i)
      if (places[i]) heads[i].emplace();
    const std::vector<MarkedMessages::Mark> marks = marked.marks_in(rendering.text);
    for (const auto& [begin, message] : marks) {
      if (!heads[message]) continue;
      const Span& place = *places[message];
      if (begin < place.begin || begin >= place.end) {
        heads[message].reset();
      } else if (!heads[message]->is_known) {
        *heads[message] = {rendering.text.substr(place.begin, begin - place.begin), true};
      }
    }
    for (std::size_t i = 0; i < messages_.size(); ++i) {
      if (!places[i]) continue;
      const auto first = std::ranges::lower_bound(marks, places[i]->begin, {}, &MarkedMessages::Mark::begin);
      for (auto mark = first; mark != marks.end() && mark->begin < places[i]->end; ++mark)
        if (mark->message != i) heads[i].reset();
    }
    return heads;
  }

  /// What stands before the assistant's message decides which prompt it gets.
  ordered_json kind_of(std::size_t index) const {
    return index == 0 ? ordered_json() : role_of(messages_[index - 1]);
  }

  void find_prompts() {
    std::map<ordered_json, std::size_t> last;
    for (std::size_t i = 0; i < messages_.size(); ++i)
      if (is_of_assistant(messages_[i]) && places_[i]) last[kind_of(i)] = i;
    for (const auto& [kind, index] : last) {
      try {
        if (std::optional<std::string> prompt = prompt_before(index))
          prompts_.emplace(kind, std::move(*prompt));
      } catch (const ConfigError&) {
        continue;  // The template does not write these messages alone.
      }
    }
  }

  /// The prompt to generate this message: what the template writes for it behind the messages before.
  std::optional<std::string> prompt_before(std::size_t index) const {
    RenderOptions options = options_;
    options.add_generation_prompt = true;
    const Rendering asked = template_.render(first_messages(messages_, index), options);
    const std::string_view before = text_.substr(0, places_[index]->begin);
    if (asked.text.starts_with(before)) return asked.text.substr(before.size());
    if (index == 0) return std::nullopt;
    // The beginning is written in another way, but perhaps the last message is not.
    if (places_[index - 1]) {
      const std::optional<Span> last = places_of(asked, index)[index - 1];
      const std::string_view said = part_of(text_, *places_[index - 1]);
      if (last && asked.text.compare(last->begin, said.size(), said) == 0)
        return asked.text.substr(last->begin + said.size());
    }
    const std::string unasked = template_.render(first_messages(messages_, index), options_).text;
    return asked.text.starts_with(unasked) ? std::optional(asked.text.substr(unasked.size())) : std::nullopt;
  }

  const std::string* prompt_for(std::size_t index) const {
    if (prompts_.empty()) return nullptr;
    const auto found = prompts_.find(kind_of(index));
    return &(found == prompts_.end() ? prompts_.begin() : found)->second;
  }

  /// How much of a pass is the prompt: it, if the pass has it, else all before the message's own text.
  static std::optional<std::size_t> prompted_size(std::string_view pass, const Head& head,
                                                  const std::string* prompt) {
    if (prompt != nullptr && pass.starts_with(*prompt)) return prompt->size();
    if (!head.is_known) return std::nullopt;
    const std::size_t found = prompt == nullptr ? std::string::npos : head.text.find(*prompt);
    const std::size_t size = found == std::string::npos ? head.text.size() : found + prompt->size();
    if (!pass.starts_with(std::string_view(head.text).substr(0, size))) return std::nullopt;
    return size;
  }

  /// By the last message of the assistant before each role.
  void find_tails() {
    std::map<ordered_json, std::size_t> last;
    for (std::size_t i = 0; i + 1 < messages_.size(); ++i)
      if (is_of_assistant(messages_[i]) && places_[i]) last[role_of(messages_[i + 1])] = i;
    for (const auto& [next, index] : last) {
      Rendering ended;
      try {
        ended = template_.render(first_messages(messages_, index + 1), options_);
      } catch (const ConfigError&) {
        continue;
      }
      const auto place = places_of(ended, index + 1)[index];
      if (!place) continue;
      const std::string_view with_next = part_of(text_, *places_[index]), alone = part_of(ended.text, *place);
      Tail& tail = tails_[next];
      tail.more = ended.text.substr(place->end);
      if (with_next.starts_with(alone) && is_only_spaces(with_next.substr(alone.size())))
        tail.spaces = with_next.substr(alone.size());
    }
  }

  std::size_t end_of(std::size_t index, const std::string* prompt) const {
    // What ends the whole text is the last message's.
    if (index + 1 == messages_.size()) return text_.size();
    const std::size_t end = places_[index]->end;
    const auto tail = tails_.find(role_of(messages_[index + 1]));
    if (tail == tails_.end()) return end;
    const auto& [more, spaces] = tail->second;
    if (text_.substr(0, end).ends_with(spaces) && !spaces.empty()) return end - spaces.size();
    // Some templates prompt whether they are asked to or not.
    const bool is_prompt = prompt != nullptr && !prompt->empty() && more.starts_with(*prompt);
    return !is_prompt && text_.substr(end).starts_with(more) ? end + more.size() : end;
  }

  const ChatTemplate& template_;
  const ordered_json& messages_;
  const RenderOptions& options_;
  std::string_view text_;
  std::vector<std::optional<Span>> places_;
  std::map<ordered_json, std::string> prompts_;  ///< by kind_of()
  std::map<ordered_json, Tail> tails_;           ///< by the role of the next message
};

/// What the template writes for the prompt to generate message `index`.
std::string text_before(const ChatTemplate& chat_template, const ordered_json& messages, std::size_t index,
                        RenderOptions options) {
  options.add_generation_prompt = true;
  try {
    return chat_template.render(first_messages(messages, index), options).text;
  } catch (const ConfigError& error) {
    if (index > 0) throw;
    throw ConfigError(fmt::format(
        "messages[0]: the template cannot write what stands before a conversation that the assistant "
        "begins ({}): leave such conversations out, or give the template 'generation' tags",
        error.what()));
  }
}

/// The span of the assistant's message `index` in `text`, which is all messages' text, by what the text of
/// the messages to this one has more than the prompt for it.
Span span_by_prefixes(const ChatTemplate& chat_template, const ordered_json& messages, std::size_t index,
                      const std::string& text, const RenderOptions& options) {
  const std::string before = text_before(chat_template, messages, index, options);
  const std::string with = chat_template.render(first_messages(messages, index + 1), options).text;
  if (!with.starts_with(before)) {
    throw ConfigError(fmt::format(
        "messages[{}]: what the template writes before this message, with the prompt to generate, is not "
        "what it "
        "writes before the message: what is trained cannot be told without the template's 'generation' tags",
        index));
  }
  if (!text.starts_with(with)) {
    throw ConfigError(
        fmt::format("messages[{}]: the template writes the messages to this one in another way where others "
                    "follow: what is "
                    "trained cannot be told without the template's 'generation' tags",
                    index));
  }
  return {before.size(), with.size()};
}

}  // namespace

Rendering render_for_training(const ChatTemplate& chat_template, const ordered_json& messages,
                              const RenderOptions& options) {
  Rendering rendering = chat_template.render(messages, options);
  if (chat_template.has_generation(options)) return rendering;
  rendering.generated.clear();
  if (std::ranges::none_of(messages, is_of_assistant)) return rendering;
  const auto spans = PassesOfMessages(chat_template, messages, rendering, options).spans();
  for (std::size_t i = 0; i < messages.size(); ++i) {
    if (!is_of_assistant(messages[i])) continue;
    rendering.generated.push_back(
        spans[i] ? *spans[i] : span_by_prefixes(chat_template, messages, i, rendering.text, options));
  }
  return rendering;
}

}  // namespace strata::chat
