// Jinja's tests: `value is name(arguments)`. Plain functions; see Jinja's manual for what each asks.
#pragma once

#include <map>
#include <string_view>

#include "engine/input/chat/runtime.h"

namespace strata::chat {

using Test = bool (*)(Runtime&, const Value&, const Arguments&);
using TestTable = std::map<std::string_view, Test>;

/// Null if there is no such test.
Test find_test(std::string_view name);

const TestTable& all_tests();

}  // namespace strata::chat
