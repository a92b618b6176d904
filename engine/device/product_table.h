// Which algorithm computes which product: what a ProductChooser has found, as a value and as the text of a
// file. What a run uses of it decides bits, so each line has a check sum and the first says how many follow.
#pragma once

#include <map>
#include <string>
#include <string_view>

namespace strata {

struct ProductTable {
  std::map<std::string, std::string> algorithms = {};  ///< by the product's name

  /// Null if it is not known.
  const std::string* find(const std::string& product) const;
  /// What is known stays as it is.
  void add(const ProductTable& other);

  friend bool operator==(const ProductTable&, const ProductTable&) = default;
};

std::string print(const ProductTable& table);
/// What print() has printed. Throws DamageError: "line 3 is not what was written there".
ProductTable parse_product_table(std::string_view text);

/// Equal tables have equal hashes: sixteen hex digits.
std::string hash_of(const ProductTable& table);

}  // namespace strata
