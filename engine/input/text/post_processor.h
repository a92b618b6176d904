// The file's post-processor: which special tokens stand around a text. A value.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/input/text/json_field.h"

namespace strata::text {

/// A part of what is encoded: special tokens, or the text's ids.
struct TemplatePart {
  bool is_text = false;
  std::vector<std::int32_t> ids;
};

using Template = std::vector<TemplatePart>;

/// What a file without a post-processor means: nothing but the text.
Template plain_template();

/// What single texts, not pairs of them, are put into. Throws ConfigError for a post-processor or a setting
/// that is not supported.
Template read_post_processor(const JsonField& field);

}  // namespace strata::text
