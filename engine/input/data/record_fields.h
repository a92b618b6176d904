// The forms that a record of data may have, by its keys, and what data.fields calls them. Plain values.
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace strata {

/// What a document is made of: a text, or a record of one of these forms.
enum class DocumentKind : std::uint8_t {
  text,         ///< a file, or a record's "text"
  prompt,       ///< "prompt" and "completion"
  messages,     ///< "messages" of a role and a content
  sharegpt,     ///< ShareGPT's "conversations", from whom and with which value
  instruction,  ///< Alpaca's "instruction", "input" and "output"
};
inline constexpr std::size_t kDocumentKinds = 5;

/// Whether a record has a key, and says something there: tables that were written as records have a null
/// where there is nothing.
enum class Presence : std::uint8_t { absent, null, given };

class RecordFields {
 public:
  /// data.fields: keys by config's kRecordFields.
  using Names = std::map<std::string, std::string>;
  explicit RecordFields(const Names& names = {}) : names_(names.begin(), names.end()) {}

  /// The key of a field: what data.fields says, or the field's own name.
  std::string key(const std::string& field) const;
  /// Whether data.fields gives this key to some field.
  bool uses(std::string_view key) const;

  /// The forms that a record has, by `presence(key)`; of forms that data.fields names fields of, those only.
  template <typename Present>
  std::vector<DocumentKind> kinds(const Present& presence) const {
    std::vector<DocumentKind> kinds;
    const auto is_given = [&](const std::string& field) { return presence(key(field)) == Presence::given; };
    const auto has = [&](const std::string& field) { return presence(key(field)) != Presence::absent; };
    if (counts({"text"}) && is_given("text")) kinds.push_back(DocumentKind::text);
    if (counts({"prompt", "completion"}) &&
        (is_given("completion") || (is_given("prompt") && has("completion"))))
      kinds.push_back(DocumentKind::prompt);
    if (counts({"messages"}) && is_given("messages")) kinds.push_back(DocumentKind::messages);
    if (counts({}) && presence("conversations") == Presence::given) kinds.push_back(DocumentKind::sharegpt);
    if (counts({"instruction", "output"}) && is_given("instruction") && has("output"))
      kinds.push_back(DocumentKind::instruction);
    return kinds;
  }

 private:
  /// Whether a form of these fields is looked for.
  bool counts(std::initializer_list<const char*> fields) const;

  std::vector<std::pair<std::string, std::string>> names_;  ///< fields and keys
};

}  // namespace strata
