#include "base/bytes.h"

#include <fmt/format.h>

#include <array>
#include <cctype>
#include <cmath>
#include <cstdlib>

namespace strata {
namespace {

struct Unit {
  std::string_view name;
  double bytes;
};

constexpr std::array kUnits = {
    Unit{"", 1},      Unit{"b", 1},        Unit{"kb", 1e3},     Unit{"mb", 1e6},     Unit{"gb", 1e9},
    Unit{"tb", 1e12}, Unit{"kib", 0x1p10}, Unit{"mib", 0x1p20}, Unit{"gib", 0x1p30}, Unit{"tib", 0x1p40},
};

}  // namespace

std::optional<Bytes> parse_bytes(std::string_view text) {
  std::string lower;
  for (char c : text) {
    if (c != ' ') lower += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  if (lower == "unlimited") return kUnlimited;
  if (lower.empty() || (std::isdigit(static_cast<unsigned char>(lower[0])) == 0)) return std::nullopt;
  std::size_t digits = lower.find_first_not_of("0123456789.");
  if (digits == std::string::npos) digits = lower.size();
  char* end = nullptr;
  const std::string numeral = lower.substr(0, digits);
  const double number = std::strtod(numeral.c_str(), &end);
  if (*end != '\0') return std::nullopt;
  const std::string_view suffix = std::string_view(lower).substr(digits);
  for (const Unit& unit : kUnits) {
    if (unit.name != suffix) continue;
    const double bytes = std::round(number * unit.bytes);
    if (bytes >= 0x1p62) return std::nullopt;
    return static_cast<Bytes>(bytes);
  }
  return std::nullopt;
}

std::string exact_bytes(Bytes bytes) {
  if (bytes == kUnlimited) return "unlimited";
  if (bytes != 0 && bytes % GiB == 0) return fmt::format("{}GiB", bytes / GiB);
  if (bytes != 0 && bytes % MiB == 0) return fmt::format("{}MiB", bytes / MiB);
  if (bytes != 0 && bytes % KiB == 0) return fmt::format("{}KiB", bytes / KiB);
  return std::to_string(bytes);
}

std::string format_bytes(Bytes bytes) {
  if (bytes == kUnlimited) return "unlimited";
  constexpr std::array names = {"B", "KiB", "MiB", "GiB", "TiB"};
  double value = static_cast<double>(bytes);
  std::size_t unit = 0;
  while (std::abs(value) >= 1024 && unit + 1 < names.size()) {
    value /= 1024;
    ++unit;
  }
  return unit == 0 ? fmt::format("{} B", bytes) : fmt::format("{:.2f} {}", value, names[unit]);
}

}  // namespace strata
