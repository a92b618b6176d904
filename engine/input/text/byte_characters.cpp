#include "engine/input/text/byte_characters.h"

#include <array>
#include <cstdint>

#include "engine/input/text/utf8.h"

namespace strata::text {
namespace {

constexpr bool is_its_own(unsigned byte) {
  return (byte >= '!' && byte <= '~') || (byte >= 0xa1 && byte <= 0xac) || byte >= 0xae;
}

struct Table {
  std::array<char32_t, 256> characters{};
  std::array<std::int16_t, 512> bytes{};

  constexpr Table() {
    bytes.fill(-1);
    char32_t next = 256;
    for (unsigned byte = 0; byte < 256; ++byte) {
      characters[byte] = is_its_own(byte) ? static_cast<char32_t>(byte) : next++;
      bytes[characters[byte]] = static_cast<std::int16_t>(byte);
    }
  }
};
constexpr Table kTable;

}  // namespace

void append_byte_characters(std::string_view text, std::string& out) {
  for (const char byte : text) append_character(out, kTable.characters[static_cast<unsigned char>(byte)]);
}

std::optional<char> byte_of_character(char32_t c) {
  if (c >= kTable.bytes.size() || kTable.bytes[c] < 0) return std::nullopt;
  return static_cast<char>(kTable.bytes[c]);
}

std::optional<char> byte_of_token(std::string_view token) {
  if (token.size() != 6 || !token.starts_with("<0x") || !token.ends_with('>')) return std::nullopt;
  int byte = 0;
  for (const char digit : token.substr(3, 2)) {
    const std::size_t value = std::string_view("0123456789abcdef0123456789ABCDEF").find(digit);
    if (value == std::string_view::npos) return std::nullopt;
    byte = byte * 16 + static_cast<int>(value % 16);
  }
  return static_cast<char>(byte);
}

}  // namespace strata::text
