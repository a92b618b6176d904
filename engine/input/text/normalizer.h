// The file's normalizer: what becomes of a text before it is cut. A value; call it from any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

#include "engine/input/text/json_field.h"

namespace strata::text {

struct NormalizedText {
  std::string text;
  /// Whether it begins with the first character of the text that is encoded. False if that was removed.
  bool is_first = false;
  /// Normalizers throw ConfigError rather than make it larger.
  std::size_t most_bytes = SIZE_MAX;
};

using Normalize = std::function<void(NormalizedText&)>;

/// Throws ConfigError for a normalizer or a setting that is not supported.
Normalize read_normalizer(const JsonField& field);

}  // namespace strata::text
