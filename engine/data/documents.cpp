#include "engine/data/documents.h"

#include <fmt/format.h>

#include <algorithm>

namespace strata {

std::string TextDocument::place() const {
  return line == 0 ? file->path() : fmt::format("{}:{}", file->path(), line);
}

bool has_line_documents(const std::string& file) {
  return file.ends_with(".jsonl");
}

bool DocumentReader::open_next() {
  if (opened_ == files_.size()) return false;
  file_ = std::make_shared<MappedFile>(files_[opened_++]);
  rest_ = {reinterpret_cast<const char*>(file_->bytes().data()), file_->bytes().size()};
  has_lines_ = has_line_documents(file_->path());
  line_ = 0;
  return true;
}

bool DocumentReader::next(TextDocument& document) {
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
