#include "engine/input/data/foreign_data.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "engine/input/data/file_ending.h"

namespace strata {
namespace {

struct Signature {
  std::string_view bytes, name;
};
constexpr auto kSignatures =
    std::to_array<Signature>({{"PAR1", "a Parquet table"},
                              {"ARROW1", "an Arrow table"},
                              {"Obj\x01", "an Avro table"},
                              {"\x89HDF\r\n", "an HDF5 file"},
                              {"\x93NUMPY", "a NumPy array"},
                              {"SQLite format 3", "an SQLite database"},
                              {"\x1f\x8b", "compressed (gzip)"},
                              {"\x28\xb5\x2f\xfd", "compressed (zstd)"},
                              {"\xfd\x37zXZ", "compressed (xz)"},
                              {"BZh9", "compressed (bzip2)"},
                              {"PK\x03\x04", "a zip archive (.zip, .xlsx, .npz, .pt)"}});

/// In UTF-16.
bool has_wide_byte_order_mark(std::string_view text) {
  return text.starts_with("\xff\xfe") || text.starts_with("\xfe\xff");
}

/// Nearly every second byte of its beginning is 0, and no other byte.
bool is_wide_text(std::string_view text) {
  constexpr std::size_t kFewest = 16, kLooked = 1024;
  if (text.size() < kFewest || text.size() % 2 != 0) return false;
  text = text.substr(0, kLooked);
  std::array<std::size_t, 2> zeros = {};
  for (std::size_t i = 0; i < text.size(); ++i) zeros[i % 2] += text[i] == '\0' ? 1 : 0;
  const auto [fewer, more] = std::minmax(zeros[0], zeros[1]);
  return fewer == 0 && 4 * more >= 3 * (text.size() / 2);
}

/// Its first lines have one equal number of tabs, two or more.
bool is_table_of_tabs(std::string_view text) {
  constexpr int kLines = 20;
  std::ptrdiff_t columns = 0;
  for (int line = 0; line < kLines; ++line) {
    const std::size_t end = text.find('\n');
    const std::ptrdiff_t tabs = std::ranges::count(text.substr(0, end), '\t');
    if (tabs < 2 || (line > 0 && tabs != columns)) return false;
    columns = tabs;
    if (end == std::string_view::npos) return line + 1 == kLines;
    text.remove_prefix(end + 1);
  }
  return true;
}

}  // namespace

std::string known_signature(const MappedFile& file) {
  for (const auto& [bytes, name] : kSignatures)
    if (file.text().starts_with(bytes)) return std::string(name);
  return "";
}

std::string foreign_data(const MappedFile& file) {
  const std::string_view text = file.text();
  if (std::string name = known_signature(file); !name.empty()) return name;
  if (has_wide_byte_order_mark(text) || is_wide_text(text)) return "text in UTF-16";
  if (has_ending(file.path(), ".csv")) return "a table of comma-separated values (.csv)";
  if (has_ending(file.path(), ".tsv")) return "a table of tab-separated values (.tsv)";
  if (is_table_of_tabs(text)) return "a table: its first 20 lines have one number of tabs";
  return "";
}

}  // namespace strata
