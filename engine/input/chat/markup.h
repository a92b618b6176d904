// Texts that the filter `safe` has made markup of HTML, as the Python package markupsafe has them: what is
// added to one is escaped. Plain functions.
#pragma once

#include <string>
#include <string_view>

#include "engine/input/chat/meter.h"
#include "engine/input/chat/value.h"

namespace strata::chat {

/// `text`, which is markup if `original` is.
Value like(const Value& original, std::string text);

/// A text, or each text of a list or tuple, which is markup if `original` is.
Value all_like(const Value& original, const Value& value);

/// The text as markup: itself if it is markup, else with entities for what HTML has for itself.
Value escaped(Meter& meter, const Value& text);

}  // namespace strata::chat
