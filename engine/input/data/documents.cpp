#include "engine/input/data/documents.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "engine/input/data/json_scan.h"
#include "engine/input/text/line_cuts.h"

namespace strata {

std::string TextDocument::place() const {
  return line == 0 ? file->path() : fmt::format("{}:{}", file->path(), line);
}

namespace {

std::int64_t newlines(std::string_view text) {
  return std::ranges::count(text, '\n');
}

}  // namespace

bool DocumentReader::open_next() {
  if (opened_ == files_.size()) return false;
  file_ = std::make_shared<MappedFile>(files_[opened_++]);
  rest_ = file_->text();
  layout_ = layout_of_documents(*file_, options_);
  byte_order_marks_ += layout_.has_byte_order_mark ? 1 : 0;
  line_ = newlines(rest_.substr(0, layout_.begin));
  rest_.remove_prefix(layout_.begin);
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
  switch (layout_.form) {
    case DocumentForm::lines:
      return take_line(document);
    case DocumentForm::values:
      if (without_spaces(rest_).empty()) {
        rest_ = {};
        return false;
      }
      take_value(document);
      return true;
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
  const bool is_later = rest_.data() != file_->text().data() + layout_.begin;
  document = {file_, 0, rest_.substr(0, size), size < rest_.size(), is_later};
  rest_.remove_prefix(size);
}

bool DocumentReader::take_line(TextDocument& document) {
  const std::size_t size = std::min(rest_.find('\n'), rest_.size());
  document = {file_, ++line_, rest_.substr(0, size)};
  rest_.remove_prefix(std::min(size + 1, rest_.size()));
  return !without_spaces(document.source).empty();
}

void DocumentReader::begin_record(TextDocument& document, std::string_view spaces, std::size_t end) const {
  document = {file_, line_ + newlines(spaces) + 1, rest_.substr(spaces.size(), end - spaces.size())};
}

void DocumentReader::take_value(TextDocument& document) {
  const std::string_view value = without_spaces(rest_), spaces = rest_.substr(0, rest_.size() - value.size());
  const std::size_t end = value.front() == '{' ? find_value_end(value) : std::string_view::npos;
  begin_record(document, spaces, end == std::string_view::npos ? rest_.size() : spaces.size() + end);
  if (end == std::string_view::npos)
    throw ConfigError(fmt::format("{}: {}", document.place(),
                                  value.front() == '{' ? "the object ends nowhere; is the file cut short?"
                                                       : "a JSON object is expected here"));
  line_ += newlines(rest_.substr(0, spaces.size() + end));
  rest_.remove_prefix(spaces.size() + end);
}

void DocumentReader::take_element(TextDocument& document) {
  const std::size_t end = find_element_end(rest_),
                    behind_spaces = rest_.size() - without_spaces(rest_).size();
  begin_record(document, rest_.substr(0, std::min(behind_spaces, end)), end);
  const auto refuse = [&](const char* reason) {
    throw ConfigError(fmt::format("{}: {}", document.place(), reason));
  };
  if (end == rest_.size() || (rest_[end] == ',' && end + 1 == rest_.size()))
    refuse("the array of documents ends nowhere; is the file cut short?");
  if (document.source.empty()) refuse("an element is missing in the array of documents");
  if (rest_[end] == ']' && !layout_.is_under_key && !without_spaces(rest_.substr(end + 1)).empty())
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
  byte_order_marks_ = 0;
  rest_ = file_->text().substr(static_cast<std::size_t>(position.offset));
  line_ = position.line;
}

}  // namespace strata
