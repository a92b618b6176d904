#include "engine/data/documents.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "engine/text/line_cuts.h"

namespace strata {

std::string TextDocument::place() const {
  return line == 0 ? file->path() : fmt::format("{}:{}", file->path(), line);
}

namespace {

constexpr std::string_view kSpaces = " \t\r\n";

std::int64_t newlines(std::string_view text) {
  return std::ranges::count(text, '\n');
}

}  // namespace

bool DocumentReader::open_next() {
  if (opened_ == files_.size()) return false;
  file_ = std::make_shared<MappedFile>(files_[opened_++]);
  rest_ = file_->text();
  form_ = form_of_documents(*file_);
  line_ = 0;
  if (form_ == DocumentForm::array) {
    const std::size_t first = rest_.find('[') + 1;
    line_ = newlines(rest_.substr(0, first));
    rest_.remove_prefix(first);
  }
  return true;
}

bool DocumentReader::next(TextDocument& document) {
  do {
    while (!rest_.empty())
      if (take(document)) return true;
  } while (open_next());
  return false;
}

bool DocumentReader::take(TextDocument& document) {
  switch (form_) {
    case DocumentForm::lines:
      return take_line(document);
    case DocumentForm::array:
      take_element(document);
      return true;
    case DocumentForm::text:
      break;
  }
  take_text(document);
  return true;
}

void DocumentReader::take_text(TextDocument& document) {
  const bool is_long = part_ && std::ssize(rest_) > *part_;
  const std::size_t size =
      is_long ? text::find_line_cut(rest_, static_cast<std::size_t>(*part_)) : rest_.size();
  document = {file_, 0, rest_.substr(0, size), size < rest_.size()};
  rest_.remove_prefix(size);
}

bool DocumentReader::take_line(TextDocument& document) {
  const std::size_t size = std::min(rest_.find('\n'), rest_.size());
  document = {file_, ++line_, rest_.substr(0, size)};
  rest_.remove_prefix(std::min(size + 1, rest_.size()));
  return document.source.find_first_not_of(kSpaces) != std::string_view::npos;
}

void DocumentReader::take_element(TextDocument& document) {
  const std::size_t end = find_element_end(rest_);
  const std::string_view spaces = rest_.substr(0, std::min(rest_.find_first_not_of(kSpaces), end));
  document = {file_, line_ + newlines(spaces) + 1, rest_.substr(spaces.size(), end - spaces.size())};
  const auto refuse = [&](const char* reason) {
    throw ConfigError(fmt::format("{}: {}", document.place(), reason));
  };
  if (end == rest_.size() || (rest_[end] == ',' && end + 1 == rest_.size()))
    refuse("the array of documents ends nowhere; is the file cut short?");
  if (document.source.empty()) refuse("an element is missing in the array of documents");
  if (rest_[end] == ']' && rest_.find_first_not_of(kSpaces, end + 1) != std::string_view::npos)
    refuse("there is more behind the array of documents that ends with this one");
  line_ += newlines(rest_.substr(0, end));
  rest_.remove_prefix(rest_[end] == ']' ? rest_.size() : end + 1);
}

DocumentReader::Position DocumentReader::position() const {
  if (opened_ == 0) return {};
  return {static_cast<std::int64_t>(opened_) - 1,
          static_cast<std::int64_t>(file_->bytes().size() - rest_.size()), line_};
}

void DocumentReader::go_to(const Position& position) {
  opened_ = static_cast<std::size_t>(std::clamp<std::int64_t>(position.file, 0, std::ssize(files_)));
  if (!open_next() || position.offset < 0 || position.offset > std::ssize(file_->bytes()))
    throw ConfigError(fmt::format("there is no byte {} in text {} of {}", position.offset, position.file + 1,
                                  files_.size()));
  rest_ = file_->text().substr(static_cast<std::size_t>(position.offset));
  line_ = position.line;
}

}  // namespace strata
