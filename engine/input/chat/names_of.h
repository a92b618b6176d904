// The names that an expression reads. Plain functions.
#pragma once

#include <functional>
#include <string>

#include "engine/input/chat/syntax.h"

namespace strata::chat {

using UseName = std::function<void(const std::string&)>;

void for_each_name(const Expression& expression, const UseName& use);
void for_each_name(const CallArguments& arguments, const UseName& use);

}  // namespace strata::chat
