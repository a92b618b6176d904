// What files of texts were read as, counted while they are. Plain values.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include "engine/input/data/record_fields.h"

namespace strata {

struct DocumentsRead {
  std::array<std::int64_t, kDocumentKinds> documents = {};  ///< by DocumentKind
  std::int64_t byte_order_marks = 0;                        ///< files that began with one, which was left out
  std::int64_t replaced = 0;        ///< sequences of bytes that are no UTF-8, for which U+FFFD stands
  std::string first_replaced = {};  ///< the file of the first

  void add(const DocumentsRead& more);
  /// Counts what tokenizers make U+FFFD of in a part of this file.
  void count_replaced(const std::string& file, std::string_view text);
  std::int64_t all() const;
  /// "3 texts, 7 conversations"
  std::string describe() const;
  /// What a user should know.
  std::vector<std::string> warnings() const;

  friend bool operator==(const DocumentsRead&, const DocumentsRead&) = default;
};

void to_json(nlohmann::json& json, const DocumentsRead& read);
void from_json(const nlohmann::json& json, DocumentsRead& read);

/// Documents by the names of their kinds; kinds without any are left out.
nlohmann::json kinds_json(const DocumentsRead& read);

}  // namespace strata
