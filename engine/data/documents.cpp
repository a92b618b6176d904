#include "engine/data/documents.h"

#include <fmt/format.h>
#include <strings.h>

#include <algorithm>

#include "base/error.h"
#include "engine/text/line_cuts.h"

namespace strata {

std::string TextDocument::place() const {
  return line == 0 ? file->path() : fmt::format("{}:{}", file->path(), line);
}

bool has_line_documents(const std::string& file) {
  constexpr std::string_view kEnding = ".jsonl";
  return file.size() >= kEnding.size() &&
         ::strcasecmp(file.c_str() + file.size() - kEnding.size(), kEnding.data()) == 0;
}

bool DocumentReader::open_next() {
  if (opened_ == files_.size()) return false;
  file_ = std::make_shared<MappedFile>(files_[opened_++]);
  rest_ = {reinterpret_cast<const char*>(file_->bytes().data()), file_->bytes().size()};
  has_lines_ = has_line_documents(file_->path());
  line_ = 0;
  return true;
}

std::size_t DocumentReader::size_of_next() const {
  if (has_lines_) return std::min(rest_.find('\n'), rest_.size());
  if (!part_ || std::ssize(rest_) <= *part_) return rest_.size();
  return text::find_line_cut(rest_, static_cast<std::size_t>(*part_));
}

bool DocumentReader::next(TextDocument& document) {
  constexpr std::string_view kSpaces = " \t\r\n";
  do {
    while (!rest_.empty()) {
      const std::size_t size = size_of_next();
      const std::string_view source = rest_.substr(0, size);
      rest_.remove_prefix(has_lines_ ? std::min(size + 1, rest_.size()) : size);
      if (has_lines_) ++line_;
      if (has_lines_ && source.find_first_not_of(kSpaces) == std::string_view::npos) continue;
      document = {file_, line_, source, !has_lines_ && !rest_.empty()};
      return true;
    }
  } while (open_next());
  return false;
}

DocumentReader::Position DocumentReader::position() const {
  if (opened_ == 0) return {};
  return {static_cast<std::int64_t>(opened_) - 1,
          static_cast<std::int64_t>(file_->bytes().size() - rest_.size()), line_};
}

void DocumentReader::go_to(const Position& position) {
  opened_ = static_cast<std::size_t>(std::clamp<std::int64_t>(position.file, 0, std::ssize(files_)));
  if (!open_next() || position.offset < 0 || position.offset > std::ssize(rest_))
    throw ConfigError(fmt::format("there is no byte {} in text {} of {}", position.offset, position.file + 1,
                                  files_.size()));
  rest_.remove_prefix(static_cast<std::size_t>(position.offset));
  line_ = position.line;
}

}  // namespace strata
