#include "base/excerpt.h"

#include "base/json_text.h"

namespace strata {

std::string excerpt(std::string text) {
  constexpr std::size_t kMost = 200;
  if (text.size() <= kMost) return text;
  std::size_t end = kMost;
  while ((static_cast<unsigned char>(text[end]) & 0xC0U) == 0x80) --end;  // within a character
  text.resize(end);
  return text + "…";
}

std::string json_excerpt(const nlohmann::json& value) {
  return excerpt(json_text(value));
}

}  // namespace strata
