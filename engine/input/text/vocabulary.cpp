#include "engine/input/text/vocabulary.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/nth.h"

namespace strata::text {
namespace {

std::int64_t read_id(const JsonField& field, const std::string& token, const nlohmann::json& value) {
  // Ids may have gaps, but memory is taken for them.
  const std::int64_t most = 1'000'000 + 4 * static_cast<std::int64_t>(field.value().size());
  if (!value.is_number_integer() || value.get<double>() < 0 ||
      value.get<double>() > static_cast<double>(most)) {
    field.refuse_below(fmt::format("['{}']", token),
                       fmt::format("a whole number from 0 to {} is expected here", most));
  }
  return value.get<std::int64_t>();
}

}  // namespace

Vocabulary Vocabulary::read(const JsonField& field) {
  if (!field.value().is_object()) field.refuse("a map from tokens to ids is expected here");
  std::int64_t end = 0;
  for (const auto& [token, value] : field.value().items())
    end = std::max(end, 1 + read_id(field, token, value));
  Vocabulary made;
  resize(made.tokens_, end);
  made.is_token_.resize(made.tokens_.size());
  for (const auto& [token, value] : field.value().items()) {
    const auto id = value.get<std::size_t>();
    if (made.is_token_[id]) {
      field.refuse_below(fmt::format("['{}']", token),
                         fmt::format("'{}' has the id {}, too", made.tokens_[id], id));
    }
    made.is_token_[id] = true;
    made.tokens_[id] = token;
  }
  made.index();
  return made;
}

Vocabulary::Vocabulary(std::vector<std::string> tokens)
    : tokens_(std::move(tokens)), is_token_(tokens_.size(), true) {
  index();
}

void Vocabulary::index() {
  ids_.reserve(tokens_.size());
  for (std::size_t id = 0; id < tokens_.size(); ++id) {
    if (!is_token_[id]) continue;
    ids_[tokens_[id]] = static_cast<std::int32_t>(id);
    ++size_;
  }
}

std::optional<std::int32_t> Vocabulary::id(std::string_view token) const {
  const auto found = ids_.find(token);
  if (found == ids_.end()) return std::nullopt;
  return found->second;
}

std::optional<std::string_view> Vocabulary::token(std::int32_t id) const {
  if (id < 0 || static_cast<std::size_t>(id) >= tokens_.size() || !nth(is_token_, id)) {
    return std::nullopt;
  }
  return nth(tokens_, id);
}

}  // namespace strata::text
