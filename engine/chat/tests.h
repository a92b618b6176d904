// Jinja's tests: `value is name(arguments)`. Plain functions; see Jinja's manual for what each asks.
#pragma once

#include <string_view>

#include "engine/chat/runtime.h"

namespace strata::chat {

using Test = bool (*)(Runtime&, const Value&, const Arguments&);

/// Null if there is no such test.
Test find_test(std::string_view name);

}  // namespace strata::chat
