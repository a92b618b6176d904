// The file's decoder: tokens' texts as the text that they were made of. A value; call it from any thread.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "engine/input/text/json_field.h"

namespace strata::text {

/// Changes the list of texts, which are joined behind the last decoder.
using Decode = std::function<void(std::vector<std::string>&)>;

/// Throws ConfigError for a decoder or a setting that is not supported.
Decode read_decoder(const JsonField& field);

}  // namespace strata::text
