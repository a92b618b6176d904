#include "tests/report/terminal.h"

#include <algorithm>
#include <stdexcept>
#include <utility>

namespace strata::test {

void Terminal::show(std::string_view text) {
  while (!text.empty()) {
    std::size_t length = 1;
    if (text.starts_with("\033[")) {
      std::size_t count = 0;
      const bool is_private = text.size() > 2 && text[2] == '?';
      for (length = is_private ? 3 : 2; text.at(length) >= '0' && text.at(length) <= '9'; ++length)
        count = 10 * count + static_cast<std::size_t>(text[length] - '0');
      if (!is_private) control(text[length], count);
      ++length;
    } else if (text.front() == '\r') {
      column_ = 0;
    } else if (text.front() == '\b') {
      column_ -= column_ > 0 ? 1 : 0;
    } else if (text.front() == '\n') {
      if (++row_ == rows_.size()) rows_.emplace_back();
      column_ = 0;
    } else {
      while (length < text.size() && (static_cast<unsigned char>(text[length]) & 0xC0U) == 0x80U) ++length;
      put(std::string(text.substr(0, length)));
    }
    text.remove_prefix(length);
  }
}

void Terminal::put(std::string character) {
  std::vector<std::string>& row = rows_[row_];
  if (row.size() <= column_) row.resize(column_ + 1, " ");
  row[column_++] = std::move(character);
  std::size_t width = 0;
  for (const std::string& each : row) width += each.size() >= 3 && each != "…" ? 2 : 1;
  width_ = std::max(width_, width);
}

void Terminal::control(char command, std::size_t count) {
  const std::size_t kept = std::min(column_, rows_[row_].size());
  if (command == 'A') {
    if (count > row_) throw std::logic_error("the cursor goes beyond the first line");
    row_ -= count;
  } else if (command == 'K') {
    rows_[row_].resize(kept);
  } else if (command == 'J') {
    rows_[row_].resize(kept);
    rows_.resize(row_ + 1);
  } else {
    throw std::logic_error(std::string("an unknown command: ") + command);
  }
}

std::vector<std::string> Terminal::lines() const {
  std::vector<std::string> lines;
  lines.reserve(rows_.size());
  for (const std::vector<std::string>& row : rows_) {
    std::string& line = lines.emplace_back();
    for (const std::string& character : row) line += character;
    line.erase(line.find_last_not_of(' ') + 1);
  }
  while (!lines.empty() && lines.back().empty()) lines.pop_back();
  return lines;
}

}  // namespace strata::test
