#include "engine/data/documents.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "base/json_text.h"

namespace strata {

std::string Document::place() const {
  return line == 0 ? file->path() : fmt::format("{}:{}", file->path(), line);
}

std::string_view Document::text(std::string& room) const {
  if (line == 0) return source;
  const nlohmann::json object = parse_json(source, {file->path(), line});
  if (!object.is_object()) throw ConfigError(place() + ": expected an object such as {\"text\": \"…\"}");
  const auto text = object.find("text");
  if (text == object.end() || !text->is_string())
    throw ConfigError(place() + ": expected a text as \"text\" of the object in this line");
  return room = text->get<std::string>();
}

bool DocumentReader::open_next() {
  if (opened_ == files_.size()) return false;
  file_ = std::make_shared<MappedFile>(files_[opened_++]);
  rest_ = {reinterpret_cast<const char*>(file_->bytes().data()), file_->bytes().size()};
  has_lines_ = file_->path().ends_with(".jsonl");
  line_ = 0;
  return true;
}

bool DocumentReader::next(Document& document) {
  constexpr std::string_view kSpaces = " \t\r\n";
  do {
    while (!rest_.empty()) {
      const std::size_t size = has_lines_ ? std::min(rest_.find('\n'), rest_.size()) : rest_.size();
      const std::string_view source = rest_.substr(0, size);
      rest_.remove_prefix(std::min(size + 1, rest_.size()));
      if (has_lines_) ++line_;
      if (has_lines_ && source.find_first_not_of(kSpaces) == std::string_view::npos) continue;
      document = {file_, line_, source};
      return true;
    }
  } while (open_next());
  return false;
}

}  // namespace strata
