// A conversation with marks in place of the texts that its messages say, which show where a template writes
// what. A value.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

namespace strata::chat {

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

}  // namespace strata::chat
