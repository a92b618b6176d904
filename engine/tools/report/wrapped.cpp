#include "engine/tools/report/wrapped.h"

#include <unistd.h>

#include <algorithm>
#include <utility>

#include "engine/tools/report/live_block.h"
#include "engine/tools/report/progress_text.h"

namespace strata {
namespace {

/// With fewer columns for the text, it goes on below the line's beginning.
constexpr std::size_t kLeastText = 16;

/// Where a line's text begins, as a place among its bytes.
std::size_t text_begin(std::string_view line, std::size_t columns, std::size_t least_column) {
  const std::size_t first = std::min(line.find_first_not_of(' '), line.size());
  for (std::size_t gap = line.find("  ", first); gap != std::string_view::npos; gap = line.find("  ", gap)) {
    gap = std::min(line.find_first_not_of(' ', gap), line.size());
    const std::size_t column = columns_of(line.substr(0, gap));
    if (column < least_column) continue;
    return column + kLeastText <= columns ? gap : first;
  }
  return first;
}

/// The last blank behind `begin` before which all fits; else the first, behind a word that is too long.
std::size_t place_to_break(std::string_view line, std::size_t columns, std::size_t begin) {
  std::size_t place = line.find(' ', begin);
  for (std::size_t next = place; next != std::string_view::npos; next = line.find(' ', next + 1)) {
    if (columns_of(line.substr(0, next)) > columns) break;
    place = next;
  }
  return place;
}

std::string wrapped_line(std::string_view line, std::size_t columns, std::size_t least_column) {
  std::size_t begin = text_begin(line, columns, least_column);
  const std::string indentation(columns_of(line.substr(0, begin)), ' ');
  std::string rest(line), done;
  while (columns_of(rest) > columns) {
    const std::size_t place = place_to_break(rest, columns, begin);
    if (place == std::string::npos) break;
    const std::size_t next = rest.find_first_not_of(' ', place);
    if (next == std::string::npos) break;
    const std::string_view full = std::string_view(rest).substr(0, place);
    done.append(full.substr(0, full.find_last_not_of(' ') + 1)) += '\n';
    rest = indentation + rest.substr(next);
    begin = indentation.size();
  }
  return done + rest;
}

}  // namespace

std::string wrapped(std::string_view text, std::size_t columns, std::size_t least_column) {
  std::string result;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    result += wrapped_line(text.substr(0, end), columns, least_column);
    if (end < text.size()) result += '\n';
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return result;
}

std::size_t output_columns(std::size_t otherwise) {
  return isatty(STDOUT_FILENO) == 0 ? otherwise : terminal_size_at(STDOUT_FILENO).columns;
}

std::string for_output(std::string text, std::size_t least_column) {
  const std::size_t columns = output_columns(0);
  return columns == 0 ? std::move(text) : wrapped(text, columns, least_column);
}

}  // namespace strata
