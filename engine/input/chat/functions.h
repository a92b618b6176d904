// The functions that transformers gives to templates: range, dict, namespace, raise_exception, strftime_now.
#pragma once

#include <cstdint>
#include <optional>

#include "engine/input/chat/runtime.h"
#include "engine/input/chat/scope.h"

namespace strata::chat {

/// `now_seconds` since 1970 is what strftime_now() takes for now; nothing: the clock.
void add_functions(Runtime& runtime, Scope& scope, std::optional<std::int64_t> now_seconds);

/// Throws Problem for a function of Jinja's that is not supported.
void check_supported_function(std::string_view name);

}  // namespace strata::chat
