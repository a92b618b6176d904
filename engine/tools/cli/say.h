// What a command says past whatever is being drawn on the terminal: the sentence with which it ends if it
// failed, and what it was asked for.
#pragma once

#include <string>
#include <string_view>

namespace strata {

/// On standard error, at once and in a line of its own, whatever line was being drawn there. Any thread may
/// call.
void say(std::string_view sentence);

/// Lines that a command says while it goes on, at once and whatever is being drawn. Any thread may call.
void tell(const std::string& lines);

/// For a Watchdog of a command that is alone: says what hangs, and ends the process with status 1. Nothing is
/// unwound, since that would wait for what hangs.
[[noreturn]] void leave(const std::string& hang);

}  // namespace strata
